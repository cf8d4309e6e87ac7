"""Overlap: each level is reached, and the sites are named."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checks.estimates import NAMES, adjusted, estimated

from shiftune.checks._of_data import overlap_check
from shiftune.errors import OverlapWarning


@pytest.mark.parametrize(
    ("scale", "uncovered", "level"),
    [
        ([1, 1, 1], 0.01, "ok"),
        ([1, 1, 1e-9], 0.01, "ok"),
        ([1, 1, 1], 0.15, "caution"),
        ([0.7, 0.7, 0.7], 0.01, "caution"),
        ([1, 1e-9, 1e-9], 0.01, "caution"),
        ([1, 1, 1], 0.4, "problem"),
    ],
)
def test_overlap(scale, uncovered, level, rng):
    risk = estimated(rng, weights=[np.full(300, float(s)) for s in scale])
    check = overlap_check(risk, uncovered, ["age"], weighted=True)
    assert check.level == level
    assert "'B'" in check.finding
    assert (check.advice == "Nothing to do.") == (level == "ok")
    for name, s in zip(NAMES, scale, strict=True):
        assert s > 0.5 or f"{name!r}" in check.finding.split("left out")[0]


def test_overlap_of_an_estimate_that_fell_back(rng):
    with pytest.warns(OverlapWarning):
        risk = estimated(rng, weights=[np.full(300, 1e-9)] * 3)
    check = overlap_check(risk, 0.0, ["row number", "age"], weighted=True)
    assert check.level == "problem"
    assert "the uncorrected mean loss" in check.finding
    assert "do not matter (shifted most: 'row number' and 'age')" in check.advice


def test_columns_are_named_where_one_source_is_left(rng):
    risk = estimated(rng, weights=[np.full(300, s) for s in (1, 1e-9, 1e-9)])
    check = overlap_check(risk, 0.0, ["row number"], weighted=True)
    assert "do not matter (shifted most: 'row number')" in check.advice


def test_overlap_without_weights(rng):
    check = overlap_check(estimated(rng, method="naive"), 0.02, ["age"], weighted=False)
    assert check.level == "ok"
    assert "without weights" in check.finding


def test_overlap_of_an_adjusted_estimate(rng):
    check = overlap_check(adjusted(rng, (1, 1, 1)), 0.02, ["age"], weighted=False)
    assert check.level == "ok"
    assert "from all sources together; 2 %" in check.finding


def test_labelled_rows_of_the_target_are_no_source(rng):
    risk = adjusted(rng, (1, 1, 1), own=[0.5, 2.0, 1.5, 0.2, 0.8])
    assert overlap_check(risk, 0.0, ["age"], weighted=False).figures["sources"] == 3
