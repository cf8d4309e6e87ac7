"""What a search hands over: a model, or a weighted mean of several."""

from shiftune.predictor.conformal import SiteScores
from shiftune.predictor.ensemble import EnsembleClassifier, EnsembleRegressor
from shiftune.predictor.selection import Candidates

__all__ = ["Candidates", "EnsembleClassifier", "EnsembleRegressor", "SiteScores"]
