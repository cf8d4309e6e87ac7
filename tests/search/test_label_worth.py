"""Labels are worth nothing where sites are alike, and something where they differ."""

from __future__ import annotations

import numpy as np
import pytest
from optuna.distributions import FloatDistribution
from sklearn.base import BaseEstimator, RegressorMixin

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import ProblemError


class Constant(RegressorMixin, BaseEstimator):
    """Predicts theta."""

    def __init__(self, theta=0.0):
        self.theta = theta

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), self.theta)


THETA = {"theta": FloatDistribution(-4, 4)}


def searched(spread, sources=8, n=120, **options):
    """Sites whose labels are centred at places that differ by `spread`."""
    rng = np.random.default_rng(3)
    sites = {
        f"s{j}": (rng.normal(size=(n, 1)), rng.normal(spread * rng.normal(), 1, n))
        for j in range(sources)
    }
    problem = ShiftProblem.from_sites(sites, rng.normal(size=(100, 1)))
    return ShiftSearch(Constant(), THETA, n_trials=40, sampler="random", **options).fit(problem)


def test_where_sites_differ_labels_are_worth_much():
    """Centres N(0, 1): without labels the excess is about 1 + 1/7, with 100 far less."""
    worth = searched(1.0).label_worth([10, 100, 1000])
    assert worth.index.tolist() == [0, 10, 100, 1000]
    assert 0.5 < worth["excess"][0] < 2.0
    assert worth["excess"].is_monotonic_decreasing
    assert worth["excess"][100] < 0.5 * worth["excess"][0]
    assert worth["half_width"][1000] < worth["half_width"][100] < worth["half_width"][0]


def test_where_sites_are_alike_they_are_worth_little():
    worth = searched(0.0).label_worth()
    assert worth["excess"].max() < 0.1


def test_labels_that_are_there_are_not_counted_twice():
    few = searched(1.0)
    assert few.label_worth([0]).index.tolist() == [0]
    assert few.label_worth(10).index.tolist() == [0, 10]
    low, high = few.risk_.interval(0.95)
    assert few.label_worth()["half_width"][0] == pytest.approx((high - low) / 2)


@pytest.mark.parametrize(
    ("options", "counts", "message"),
    [
        ({"risk": "naive"}, [10], "risk='adjusted'"),
        ({"sources": 2}, [10], "at least 3 sources"),
        ({}, [-1], "whole numbers"),
        ({}, [], "whole numbers"),
    ],
)
def test_mistakes(options, counts, message):
    with pytest.raises(ProblemError, match=message):
        searched(0.5, **options).label_worth(counts)
