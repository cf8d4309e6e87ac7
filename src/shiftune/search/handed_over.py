"""What a search hands over: the best trial alone, or an ensemble of trials."""

from __future__ import annotations

from collections.abc import Mapping

from shiftune.evaluate.answers import Answers
from shiftune.predictor.choice import Choice, choose
from shiftune.predictor.single import best_alone
from shiftune.risk.result import RiskEstimate
from shiftune.search.trial import TrialContext


def handed_over(
    context: TrialContext,
    best: int,
    risks: Mapping[int, RiskEstimate],
    answers: Mapping[int, Answers],
    final: str,
) -> Choice:
    """Choose among trials; see `ShiftSearch`, `final`."""
    data, loss, estimate = context.data, context.loss, context.estimate
    alone = best_alone(best, risks, answers, data, loss, estimate, context.compared_by)
    if final == "best" or len(answers) < 2:
        return alone
    return choose(alone, answers, data, loss, context.risk, estimate)
