"""A model of one's own: whatever keeps scikit-learn's conventions can be tuned."""

import numpy as np
from hospitals import visits
from optuna.distributions import CategoricalDistribution, FloatDistribution
from sklearn.base import BaseEstimator, RegressorMixin

from shiftune import ShiftProblem, ShiftSearch


class SmoothedWardMean(RegressorMixin, BaseEstimator):
    """Mean of the label by ward, drawn towards the overall mean, times a power of the age."""

    def __init__(self, prior_rows=10.0, power=0.0, centre="mean"):
        self.prior_rows = prior_rows
        self.power = power
        self.centre = centre

    def fit(self, X, y):
        """Learn the means."""
        scaled = y / (X["age"] / 60) ** self.power
        self.overall_ = getattr(np, self.centre)(scaled)
        groups = scaled.groupby(X["ward"], observed=True)
        self.means_ = (groups.sum() + self.prior_rows * self.overall_) / (
            groups.count() + self.prior_rows
        )
        return self

    def predict(self, X):
        """Predict the label."""
        means = X["ward"].astype(str).map(self.means_).astype(float).fillna(self.overall_)
        return (means * (X["age"] / 60) ** self.power).to_numpy()


if __name__ == "__main__":
    problem = ShiftProblem.from_frame(visits("days"), site="hospital", label="days", target="A")
    space = {
        "prior_rows": FloatDistribution(0.1, 1000, log=True),
        "power": FloatDistribution(0, 3),
        "centre": CategoricalDistribution(["mean", "median"]),
    }
    search = ShiftSearch(SmoothedWardMean(), space, loss="absolute", n_trials=15)
    search.fit(problem)
    print(search.risk_)
    print(search.best_params_)
