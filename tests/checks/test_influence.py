"""Influence of single sources: each level is reached, and the source is named."""

from __future__ import annotations

import numpy as np
from tests.checks.estimates import NAMES, adjusted, estimated

from shiftune.checks._of_result import _one_of, influence_check
from shiftune.risk import estimate


def pairs(rng, extra):
    """Two models on the same rows; the second has `extra` loss at every source."""
    rows = [rng.exponential(size=200) for _ in NAMES]
    both = (rows, [row + more for row, more in zip(rows, extra, strict=True)])
    return [estimate(losses, method="naive", names=NAMES) for losses in both]


def test_nobody_decides(rng):
    check = influence_check(pairs(rng, (0.5, 0.5, 0.5)), 0)
    assert check.level == "ok"
    assert "No single source changes the choice" in check.finding


def test_another_choice_that_is_as_good(rng):
    """By C and D the second model is better by a hair, by B clearly worse."""
    noise = rng.normal(size=200)
    hair = noise - noise.mean() - 0.01
    risks = pairs(rng, (0.3, hair, hair))
    assert risks[0].value < risks[1].value
    check = influence_check(risks, 0)
    assert check.level == "ok"
    assert "Without 'B' other parameters would be chosen, but" in check.finding


def test_one_source_decides_the_choice(rng):
    """By C and D the second model is better, by B far worse: without B the choice is the other."""
    risks = pairs(rng, (0.9, -0.2, -0.2))
    assert risks[0].value < risks[1].value
    check = influence_check(risks, 0)
    assert check.level == "problem"
    assert "Without 'B' other parameters would be chosen" in check.finding


def test_one_source_moves_the_estimate(rng):
    check = influence_check([estimated(rng, (1, 1, 6), method="naive")], 0)
    assert check.level == "caution"
    assert "Without 'D'" in check.finding
    assert "outside its 95 % interval" in check.finding


def test_one_source_has_nearly_all_of_the_weight(rng):
    losses = [rng.exponential(size=n) for n in (2000, 50, 50)]
    risk = estimate(losses, method="naive", names=NAMES)
    check = influence_check([risk], 0)
    assert check.level == "caution"
    assert "'B' has 95 % of the weight in the estimate" in check.finding


def test_one_source_is_left(rng):
    risk = estimated(rng, weights=[np.ones(300), np.full(300, 1e-9), np.full(300, 1e-9)])
    check = influence_check([risk], 0)
    assert check.level == "problem"
    assert "rest on 'B' alone" in check.finding


def test_labelled_rows_of_the_target_are_no_source(rng):
    check = influence_check([adjusted(rng, (1, 1, 1), own=[0.5, 2.0, 1.5, 0.2, 0.8])], 0)
    assert check.level == "ok"
    assert "'A'" not in check.finding


def test_sites_that_are_left_out_one_at_a_time():
    assert _one_of(["B"]) == "'B'"
    assert _one_of(["B", "C"]) == "'B' and 'C', one at a time,"
