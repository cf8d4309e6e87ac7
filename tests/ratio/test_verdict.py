"""Verdicts have words that fit into a table."""

from __future__ import annotations

import json

import numpy as np
import pytest

from shiftune._names import Level
from shiftune.ratio._overlap import Reason, Verdict
from shiftune.risk import RiskEstimate, estimate


@pytest.mark.parametrize("reason", Reason)
def test_words_fit_into_a_table(reason):
    verdict = Verdict(reason, 0.123456)
    words = "doubtful: " * (reason.level is Level.PROBLEM) + reason.value[1]
    assert len(words) <= 30  # fits beside the other columns of `shiftune diagnose`
    assert str(verdict).startswith(reason.value[1])
    assert len(str(verdict)) <= 50  # pandas cuts what is longer


def test_a_stored_estimate_keeps_its_verdicts(rng):
    losses = [rng.exponential(size=100) for _ in range(2)]
    risk = estimate(losses, [np.ones(100), np.full(100, 1e-9)], names=["B", "C"])
    assert risk.left_out == ("", "no target-like rows: mean weight 1e-09")
    back = RiskEstimate.from_record(json.loads(json.dumps(risk.to_record())))
    assert back.left_out == risk.left_out
