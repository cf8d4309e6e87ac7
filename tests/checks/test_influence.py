"""Influence of single sources: each level is reached, and the source is named."""

from __future__ import annotations

import numpy as np
from tests.checks.estimates import NAMES, adjusted, estimated

from shiftune.checks._of_result import influence_check
from shiftune.risk import estimate


def test_nobody_decides(rng):
    losses = [rng.exponential(size=200) for _ in NAMES]
    check = influence_check(estimate(losses, method="naive", names=NAMES))
    assert check.level == "ok"
    assert "the most influential source" in check.finding


def test_one_source_moves_the_estimate(rng):
    check = influence_check(estimated(rng, (1, 1, 6), method="naive"))
    assert check.level == "caution"
    assert "Without 'D'" in check.finding
    assert "outside its 95 % interval" in check.finding


def test_one_source_has_nearly_all_of_the_weight(rng):
    losses = [rng.exponential(size=n) for n in (2000, 50, 50)]
    risk = estimate(losses, method="naive", names=NAMES)
    check = influence_check(risk)
    assert check.level == "caution"
    assert "'B' has 95 % of the weight in the estimate" in check.finding


def test_one_source_is_left(rng):
    risk = estimated(rng, weights=[np.ones(300), np.full(300, 1e-9), np.full(300, 1e-9)])
    check = influence_check(risk)
    assert check.level == "problem"
    assert "rest on 'B' alone" in check.finding


def test_labelled_rows_of_the_target_are_no_source(rng):
    check = influence_check(adjusted(rng, (1, 1, 1), own=[0.5, 2.0, 1.5, 0.2, 0.8]))
    assert check.level == "ok"
    assert "'A'" not in check.finding
