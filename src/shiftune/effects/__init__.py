"""Effects of sites: what a few labels of the target add to a predictor of other sites.

A model of several sites misses what a new one has of its own. The predictor for a site is

    scale(answer) + z' b,    b ~ N(0, diag(s^2)),

with z = (1, the answer itself, the columns), on the scale of values or of log odds. How far sites
differ, s, is learned from the sources: each plays the target, with answers of models that have not
seen it and as many labels as there are. The labels of the target then give b its posterior mean.
Where sites do not differ, s is 0 and nothing happens.
"""

from shiftune.effects._site_effects import SiteEffects, Spread, Terms, Update
from shiftune.effects._updated import UpdatedClassifier, UpdatedRegressor, without_effect

__all__ = [
    "SiteEffects",
    "Spread",
    "Terms",
    "Update",
    "UpdatedClassifier",
    "UpdatedRegressor",
    "without_effect",
]
