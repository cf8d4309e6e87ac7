"""The final model: a single one, or a weighted mean of several."""

from shiftune.predictor._conformal import SiteScores
from shiftune.predictor._ensemble import EnsembleClassifier, EnsembleRegressor, TableModel
from shiftune.predictor._selection import Candidates, Choice

__all__ = [
    "Candidates",
    "Choice",
    "EnsembleClassifier",
    "EnsembleRegressor",
    "SiteScores",
    "TableModel",
]
