"""Labels in any unit: the answer has the same digits, or there is a word about the size."""

from __future__ import annotations

import numpy as np
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import ProblemError, SearchWarning
from shiftune.evaluate._losses import bounded


def searched(size, **options):
    rng = np.random.default_rng(0)
    sites = {}
    for name in "BCD":
        X = rng.normal(size=(60, 2))
        sites[name] = (X, size * (X[:, 0] + rng.normal(size=60)))
    problem = ShiftProblem.from_sites(sites, rng.normal(size=(40, 2)), task="regression")
    space = {"alpha": FloatDistribution(0.01, 100, log=True)}
    search = ShiftSearch(Ridge(), space, n_trials=3, sampler="random", progress=False, **options)
    return search.fit(problem)


@pytest.mark.parametrize("size", [1e-28, 1e28])
@pytest.mark.parametrize("risk", ["adjusted", "variance_reduced"])
def test_the_same_digits_in_another_unit(size, risk):
    """Squares of squared errors fit into a double, and what a study keeps has no unit."""
    usual, other = searched(1.0, risk=risk), searched(size, risk=risk)
    assert other.best_index_ == usual.best_index_
    scaled = np.array(other.risk_.interval()) / size**2
    assert scaled == pytest.approx(np.array(usual.risk_.interval()), rel=1e-5)
    gap, usual_gap = (s.default_risk().minus(s.risk_).stderr for s in (other, usual))
    assert gap / size**2 == pytest.approx(usual_gap, rel=1e-4)
    assert [check.level for check in other.checks()] == [check.level for check in usual.checks()]


@pytest.mark.parametrize("risk", ["adjusted", "naive", "unbiased"])
@pytest.mark.parametrize(
    ("size", "message"),
    [
        (1e100, r"up to .e\+100, whose squared loss is too large .*; divide the label by .e\+100"),
        (1e200, r"up to .e\+200, whose squared loss is too large"),
        (1e-170, r"up to .e-170, whose squared loss is too small"),
        (1e-100, r"up to .e-100, whose squared loss is too small .*; divide the label by .e-100"),
    ],
)
def test_sizes_that_cannot_be_squared(size, message, risk):
    with pytest.raises(ProblemError, match=message):
        searched(size, risk=risk)


def test_other_losses_may_do():
    assert searched(1e50, loss="absolute").risk_.value == pytest.approx(1e50, rel=0.9)
    with pytest.warns(SearchWarning, match="no width"):  # all losses are at the bound
        bounds = searched(1e100, loss=bounded("squared", 1e20), risk="naive")
    assert bounds.risk_.value == pytest.approx(1e20)


def test_a_loss_of_ones_own():
    def cubic(y, p):
        return np.abs(y - p) ** 3

    with pytest.raises(ProblemError, match=r"(?s)all 3 trials failed.*divide the labels"):
        searched(1e40, loss=cubic)
