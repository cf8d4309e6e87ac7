"""Effects of sites: what a few labels of the target add to a predictor of other sites."""

from shiftune.effects._site_effects import SiteEffects, SiteRows, Terms, Update
from shiftune.effects._updated import UpdatedClassifier, UpdatedRegressor, without_effect

__all__ = [
    "SiteEffects",
    "SiteRows",
    "Terms",
    "Update",
    "UpdatedClassifier",
    "UpdatedRegressor",
    "without_effect",
]
