"""Labels are worth nothing where sites are alike, and what theory says where they differ."""

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


THETA = {"theta": FloatDistribution(-0.01, 0.01)}


def searched(spread, sources=25, n=120, **options):
    """Sites whose labels, of variance 1, are centred at places that differ by `spread`."""
    rng = np.random.default_rng(3)
    sites = {
        f"s{j}": (rng.normal(size=(n, 1)), rng.normal(spread * rng.normal(), 1, n))
        for j in range(sources)
    }
    problem = ShiftProblem.from_sites(sites, rng.normal(size=(500, 1)))
    return ShiftSearch(Constant(), THETA, n_trials=2, sampler="random", **options).fit(problem)


@pytest.fixture(scope="module")
def found():
    return searched(1.0)


def test_where_sites_differ_labels_are_worth_what_theory_says(found):
    r"""Centres N(0, 1): risk 2 without labels, :math:`1 + 1 / (m + 1)` with m."""
    worth = found.label_worth([10, 20])
    assert worth.index.tolist() == [0, 10, 20]
    assert worth["risk"][0] == pytest.approx(2.0, abs=4 * np.sqrt(2 / 25))
    for m in (10, 20):
        assert worth["risk"][m] == pytest.approx(1 + 1 / (m + 1), abs=4 * np.sqrt(2 / 900))
        assert worth["gain"][m] == pytest.approx(worth["risk"][0] - worth["risk"][m])
        assert worth["gain_low"][m] < worth["gain"][m] < worth["gain_high"][m]
    assert worth["half_width"].is_monotonic_decreasing


def test_more_labels_than_a_source_has_rows(found):
    r"""72 of 120 rows can be labelled; 1,000 are worth :math:`1 + 1 / (m + 1)` all the same."""
    worth = found.label_worth([70, 1000])
    assert worth["risk"][1000] < worth["risk"][70]
    gap = worth["risk"][70] - worth["risk"][1000]
    assert gap == pytest.approx(1 / 71 - 1 / 1001, rel=0.3)


def test_where_sites_are_alike_they_are_worth_little():
    worth = searched(0.0).label_worth()
    assert worth.index.tolist() == [0, 10, 30, 100, 300]
    assert worth[["gain", "gain_low", "gain_high"]].abs().max().max() < 0.02


def test_counts(found):
    assert found.label_worth([0]).index.tolist() == [0]
    assert found.label_worth(10).index.tolist() == [0, 10]


@pytest.mark.filterwarnings("ignore:there is only one source")
@pytest.mark.parametrize(
    ("options", "counts", "message"),
    [
        ({"risk": "naive"}, [10], "risk='adjusted'"),
        ({"sources": 1}, [10], "label_worth needs at least two"),
        ({}, [-1], "whole numbers"),
        ({}, [], "whole numbers"),
        ({}, 10.0, "whole numbers"),
        ({}, "10", "whole numbers"),
        ({}, True, "whole numbers"),
    ],
)
def test_mistakes(options, counts, message):
    with pytest.raises(ProblemError, match=message):
        searched(0.5, **{"sources": 4} | options).label_worth(counts)
