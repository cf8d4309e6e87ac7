"""What a search hands over: the best trial alone, or an ensemble of trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shiftune.errors import ProblemError
from shiftune.predictor.choice import Choice, choose
from shiftune.predictor.single import best_alone
from shiftune.risk.result import RiskEstimate
from shiftune.search._storage import candidates
from shiftune.search.records import best_trial, finished_trials
from shiftune.search.running import trial_answers
from shiftune.search.settings import final_for, nothing_to_choose

if TYPE_CHECKING:
    from shiftune.search.search import ShiftSearch


def choose_among(search: ShiftSearch, risks: Mapping[int, RiskEstimate]) -> Choice:
    """Choose what a search hands over, from the estimated risks of its trials."""
    trials = finished_trials(search.study_)
    best = best_trial(trials, risks)
    if best is None:
        raise ProblemError(nothing_to_choose(search.trials_, search.problem_))
    answers, context = trial_answers(search, candidates(trials)), search.context_
    data, loss, estimate = context.data, context.loss, context.estimate
    choice = best_alone(best, risks, answers, data, loss, estimate, context.compared_by)
    if final_for(search) == "ensemble" and len(answers) > 1:
        choice = choose(choice, answers, data, loss, context.risk, estimate)
    return choice
