"""The objective of `drivers.py` as a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from drivers import objective
from sklearn.base import BaseEstimator, RegressorMixin


class Sleeper(RegressorMixin, BaseEstimator):
    """Predicts x; the fit of a trial is the objective, and that of the end is none."""

    def __init__(self, x: float = 0.5, folder: str = "", seconds: float = 0.0) -> None:
        self.x = x
        self.folder = folder
        self.seconds = seconds

    def fit(self, X: Any, y: Any) -> Sleeper:
        if len(X) < 60:  # all rows: the final model
            objective(self.x, self.folder, self.seconds)
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.x)
