"""What a search hands over: the best trial alone, or an ensemble of trials, recalibrated or not."""

from __future__ import annotations

from collections.abc import Mapping

from shiftune.evaluate.answers import Answers
from shiftune.predictor.choice import Choice, choose
from shiftune.predictor.recalibration import recalibrate
from shiftune.predictor.single import best_alone
from shiftune.risk.result import RiskEstimate
from shiftune.search.trial import TrialContext


def handed_over(
    context: TrialContext,
    best: int,
    risks: Mapping[int, RiskEstimate],
    answers: Mapping[int, Answers],
    final: str,
    calibrate: str,
) -> Choice:
    """Choose among trials; see `ShiftSearch`, `final` and `calibrate`."""
    data, loss, estimate = context.data, context.loss, context.estimate
    choice = best_alone(best, risks, answers, data, loss, estimate, context.compared_by)
    if final == "ensemble" and len(answers) > 1:
        choice = choose(choice, answers, data, loss, context.risk, estimate)
    if calibrate == "none":
        return choice
    return recalibrate(choice, calibrate, data, loss, estimate)
