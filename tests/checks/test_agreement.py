"""Agreement of the sources: each level is reached."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checks.estimates import adjusted, estimated

from shiftune.checks._of_result import agreement_check


@pytest.mark.parametrize(
    ("scales", "level"), [((1, 1, 1), "ok"), ((1, 1, 1.25), "caution"), ((1, 1, 2.5), "problem")]
)
def test_agreement(scales, level, rng):
    check = agreement_check(estimated(rng, scales))
    assert check.level == level
    if level != "ok":
        assert "does not include these differences" in check.finding
        assert "risk='adjusted'" in check.advice


def test_agreement_where_the_interval_counts_the_differences(rng):
    check = agreement_check(adjusted(rng, (1, 1, 2.5)))
    assert check.level == "ok"
    assert "the interval includes this variation" in check.finding
    assert "risk='adjusted'" not in check.advice
    assert agreement_check(adjusted(rng, (1, 1, 1))).level == "ok"


def test_labelled_rows_that_contradict_the_sources(rng):
    check = agreement_check(adjusted(rng, (1, 1, 1), own=[50.0, 60.0, 55.0, 52.0, 51.0]))
    assert check.level == "caution"
    assert "labelled rows of 'A' itself give 53.6 and the sources" in check.finding
    assert check.figures["own_p_value"] < 0.01


def test_labelled_rows_agree_in_most_cases(rng):
    """Where the target is one of the sites, the 5 % level is kept (100 draws, 3 se above)."""
    found = [
        agreement_check(adjusted(rng, (1, 1, 1), own=rng.exponential(size=40))) for _ in range(100)
    ]
    assert np.mean([check.figures["own_p_value"] < 0.05 for check in found]) < 0.115


def test_agreement_of_one(rng):
    risk = estimated(rng, weights=[np.ones(300), np.full(300, 1e-9), np.full(300, 1e-9)])
    assert agreement_check(risk).level == "caution"


def test_labelled_rows_of_the_target_are_no_source(rng):
    risk = adjusted(rng, (1, 1, 1), own=[0.5, 2.0, 1.5, 0.2, 0.8])
    assert risk.labelled_target
    assert agreement_check(risk).level == "ok"
