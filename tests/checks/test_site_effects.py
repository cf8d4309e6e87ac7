"""Site effects: the gain is the share of the loss that is particular to sites."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.checks._of_data import site_effects_check

SITES, ROWS = 12, 300


def check_of(levels, classes=False, seed=0):
    """Check of sites with shifted inputs and these levels; p(y|x) is a line with noise of 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(levels) + 1, ROWS, 2)) + rng.normal(size=(len(levels) + 1, 1, 2))
    line = X.sum(axis=2)[1:] + np.asarray(levels)[:, None]
    y = line + rng.normal(size=line.shape)
    if classes:
        y = (rng.random(line.shape) < 1 / (1 + np.exp(-line))).astype(int)
    problem = ShiftProblem.from_sites(list(zip(X[1:], y, strict=True)), X[0])
    model, space = (LogisticRegression(), "C") if classes else (Ridge(), "alpha")
    search = ShiftSearch(model, {space: (0.9, 1.0)}, n_trials=2, progress=False).fit(problem)
    return site_effects_check(search.result_)


def test_the_gain_is_the_variance_between_sites():
    """A loss of 1 + b^2 becomes 1: with levels b, the gain is mean b^2 / (1 + mean b^2).

    A model of the other folds has their mean as its level, so b is taken from the mean of all, and
    the mean square grows by a factor of about 1 + 1 / 9. Standard error of the gain with 3,600
    rows: below .02, and 300 labels leave 1 / 180 of the noise (60 % of the rows are labelled).
    """
    levels = np.random.default_rng(1).normal(0, 0.8, SITES)
    square = levels.var() * (1 + 1 / 9)
    check = check_of(levels)
    assert check.figures["gain"] == pytest.approx(square / (1 + square), abs=0.05)
    assert check.level == "ok"
    assert "Label some target rows" in check.advice


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_shifted_inputs_alone_have_no_effect(classes, seed):
    check = check_of(np.zeros(SITES), classes, seed)
    assert abs(check.figures["gain"]) < 0.01
    assert check.advice == "Nothing to do."
    assert "less than 1 %" in check.finding


def test_sites_that_differ_most_come_first():
    levels = np.zeros(SITES)
    levels[[3, 7]] = 1.2, -1.8
    check = check_of(levels)
    first, second = check.finding.index("'8'"), check.finding.index("'4'")
    assert first < second
