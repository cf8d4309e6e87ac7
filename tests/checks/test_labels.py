"""Same labels: each level is reached, and the sites are named."""

from __future__ import annotations

import pandas as pd
import pytest
from tests.checks.estimates import NAMES

from shiftune.checks._of_data import labels_check
from shiftune.stability import LabelStability


def stability(p_value, gain, p_level=(1.0, 1.0, 1.0), not_tested="", classes=(), rows=300):
    sites = pd.DataFrame(
        {"n": 100, "shift": [0.1, -0.52, 0.3], "p_level": p_level, "p_value": p_value}, NAMES
    ).assign(not_tested=not_tested)
    if classes:
        sites["class"] = list(classes)
    return LabelStability(p_value, 0.4, gain, 0.01, sites, rows)


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        (stability(0.3, -0.01), "ok", "3 sites compared, p = 0.3"),
        (stability(0.3, -0.01, rows=90), "ok", "3 sites compared by 90 of 300 rows, p = 0.3"),
        (stability(0.01, 0.003, (1, 0.001, 1)), "ok", "too little to matter"),
        (stability(0.01, 0.03, (1, 0.001, 1)), "caution", "labels at 'C' lie 0.52 below"),
        (stability(0.01, 0.03), "caution", "at 'C' the columns act differently"),
        (stability(1e-9, 0.2, (1, 1e-9, 1)), "problem", "squared error by 20 %"),
        (
            stability(1e-9, 0.2, (1, 1, 1e-9), classes="yyy"),
            "problem",
            "label y is 30 percentage points more frequent at 'D'",
        ),
        (stability(1.0, 0.0, not_tested="no row"), "caution", "cannot be tested"),
        (None, "caution", "fewer than two labelled sites"),
    ],
)
def test_labels(found, level, words):
    check = labels_check(found)
    assert (check.level, check.name) == (level, "same labels")
    assert words in check.finding
    assert check.advice
