"""A custom model: any model that follows scikit-learn's conventions can be tuned."""

import numpy as np
import pandas as pd
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from sklearn.base import BaseEstimator, ClassifierMixin

from shiftune import ShiftProblem, ShiftSearch
from shiftune.datasets import hospitals


class RatesByGroup(ClassifierMixin, BaseEstimator):
    """Rate of the second class by group and band of a number, shrunk towards the overall rate."""

    def __init__(self, group="ward", number="age", bands=3, prior_rows=10.0):
        self.group = group
        self.number = number
        self.bands = bands
        self.prior_rows = prior_rows

    def fit(self, X, y):
        """Estimate the rate of every group."""
        self.classes_ = np.unique(y)
        inner = np.linspace(0, 1, self.bands + 1)[1:-1]
        self.edges_ = np.quantile(X[self.number], inner)
        second = pd.Series(np.asarray(y) == self.classes_[1], index=X.index, dtype=float)
        self.overall_ = second.mean()
        cells = second.groupby(self._cells(X)).agg(["sum", "count"])
        self.rates_ = (cells["sum"] + self.prior_rows * self.overall_) / (
            cells["count"] + self.prior_rows
        )
        return self

    def predict_proba(self, X):
        """Return the rates, shape (n, 2); the overall rate for unseen groups."""
        rates = self._cells(X).map(self.rates_).fillna(self.overall_).to_numpy(dtype=float)
        return np.column_stack([1 - rates, rates])

    def predict(self, X):
        """Return the likelier class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _cells(self, X):
        band = np.searchsorted(self.edges_, X[self.number])
        return X[self.group].astype(str) + "/" + band.astype(str)


if __name__ == "__main__":
    problem = ShiftProblem.from_frame(
        hospitals(150), site="hospital", label="readmitted", target="A", target_labels="oracle"
    )
    space = {
        "group": CategoricalDistribution(["ward", "emergency"]),
        "number": CategoricalDistribution(["age", "severity", "lactate"]),
        "bands": IntDistribution(1, 10),
        "prior_rows": FloatDistribution(0.1, 1000, log=True),
    }
    search = ShiftSearch(RatesByGroup(), space, n_trials=12)
    search.fit(problem)
    print(search.risk_)
    print(search.best_params_)
