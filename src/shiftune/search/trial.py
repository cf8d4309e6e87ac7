"""One trial, in any process: from parameters to an estimated target risk or a failure."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from shiftune.errors import OverlapWarning
from shiftune.evaluate.fitting import Predicted, StudyData
from shiftune.evaluate.losses import Loss
from shiftune.evaluate.plan import Fit, FitPlan, IndependentFits, TrialLosses, independent_fits
from shiftune.evaluate.prepared_rows import PreparedRows, tunes_last_step
from shiftune.risk.grouped import by_group

if TYPE_CHECKING:
    from shiftune.evaluate.answers import Answers
    from shiftune.risk.estimator import RiskEstimator
    from shiftune.risk.result import RiskEstimate


# Errors of models that make their trial fail; a model that exits ends its trial, not the search.
CATCH = (Exception, SystemExit)


class Candidate(NamedTuple):
    """What a trial evaluates: parameters in the estimator's names, and the name of its family."""

    params: Mapping[str, Any]
    family: str = ""


@dataclass(frozen=True, slots=True)
class TrialContext:
    """Data and settings that all trials share; sent to every worker once.

    `estimators` has the model of every family by name. Families with the same value in
    `preparations` have the same transformers, and share the rows in `prepared`. Errors in `catch`
    make a trial fail.
    """

    estimators: Mapping[str, Any]
    data: StudyData
    loss: Loss
    risk: RiskEstimator
    plan: FitPlan
    prepared: PreparedRows = field(default_factory=PreparedRows)
    preparations: Mapping[str, str] = field(default_factory=dict)
    catch: type[BaseException] | tuple[type[BaseException], ...] = CATCH

    def estimate(self, losses: Sequence[NDArray[np.float64]]) -> RiskEstimate:
        """Estimate the target risk from the losses of every source."""
        with warnings.catch_warnings():
            # Raised once, when the search begins: it depends on the weights alone.
            warnings.simplefilter("ignore", OverlapWarning)
            risk = self.risk.estimate(losses, self.data.weights, names=self.data.names)
        if self.loss.within_site:  # a linearised loss can be below 0, though their mean is not
            risk = replace(risk, nonnegative=True)
        elif self.data.sample_weight is not None:
            risk = replace(risk, nonnegative=self.data.nonnegative(losses))
        groups = self.data.groups
        return (risk if groups is None else by_group(risk, groups)).condensed()

    def compared_by(self, risk: RiskEstimate, losses: Sequence[NDArray[np.float64]]) -> float:
        """Return what is minimised: the risk, or what compares trials of several families."""
        several = len(self.estimators) > 1
        return self.risk.across_families(risk, losses) if several else risk.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a trial: a risk, or the reason why there is none.

    `value` is what is minimised: the risk, or what compares trials of several families;
    `mean_loss` is the naive estimate, whichever estimator the search uses; `answers` are the
    predictions on the validation rows, where the plan keeps them.
    """

    risk: RiskEstimate | None
    failure: str
    seconds: float
    value: float = np.nan
    mean_loss: float = np.nan
    answers: Answers | None = None


class Piece(NamedTuple):
    """Piece of a trial that one worker runs: one of its fits, or, with None, all of it."""

    candidate: Candidate
    fit: Fit | None = None


class Fitted(NamedTuple):
    """Predictions of one fit of a trial, and the seconds that it took."""

    predicted: Predicted
    seconds: float


class TrialEnded(Exception):  # noqa: N818 - the fate of a trial, not a mistake
    """A piece of a trial that has failed, which makes its others unnecessary."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def run_trial(context: TrialContext, candidate: Candidate) -> Outcome:
    """Build the model, fit it, take its losses and estimate the target risk.

    What the model raises is the trial's failure, not the search's, if it is to be caught.
    """
    fits = independent_fits(context.plan, context.data)
    if not fits:
        return _run_whole(context, candidate)
    try:
        return combined(context, {fit: _run_fit(context, candidate, fit) for fit in fits})
    except TrialEnded as ended:
        return ended.outcome


def run_piece(context: TrialContext, piece: Piece) -> Outcome | Fitted:
    """Run a piece of a trial; raises `TrialEnded` if the others need not be run."""
    if piece.fit is None:
        return _run_whole(context, piece.candidate)
    return _run_fit(context, piece.candidate, piece.fit)


def _run_fit(context: TrialContext, candidate: Candidate, fit: Fit) -> Fitted:
    start = time.perf_counter()
    try:
        model, data = _model_and_data(context, candidate)
        predicted = fit.fit_predict(model, data, context.loss.needs)
    except context.catch as error:
        failed = Outcome(None, reason(error), time.perf_counter() - start)
        raise TrialEnded(failed) from None
    return Fitted(predicted, time.perf_counter() - start)


def _run_whole(context: TrialContext, candidate: Candidate) -> Outcome:
    start = time.perf_counter()
    try:
        model, data = _model_and_data(context, candidate)
        return _judged(context, context.plan.losses(model, data, context.loss), start)
    except context.catch as error:
        return Outcome(None, reason(error), time.perf_counter() - start)


def combined(context: TrialContext, fitted: Mapping[Fit, Fitted]) -> Outcome:
    """Return the outcome of a trial from those of all its fits."""
    assert isinstance(context.plan, IndependentFits)
    start = time.perf_counter() - sum(each.seconds for each in fitted.values())
    predicted = {fit: each.predicted for fit, each in fitted.items()}
    try:
        return _judged(context, context.plan.combined(predicted, context.data, context.loss), start)
    except context.catch as error:
        return Outcome(None, reason(error), time.perf_counter() - start)


def _model_and_data(context: TrialContext, candidate: Candidate) -> tuple[Any, StudyData]:
    family, params, data = candidate.family, candidate.params, context.data
    model = clone(context.estimators[family]).set_params(**params)
    if tunes_last_step(model, params):
        data = data.sharing(context.prepared.of(context.preparations.get(family)))
    return model, data


def _judged(context: TrialContext, losses: TrialLosses, start: float) -> Outcome:
    risk = context.estimate(losses.by_source)
    if not np.isfinite(risk.value):
        raise ValueError(f"the estimated risk is {risk.value}")
    value = context.compared_by(risk, losses.by_source)
    seconds = time.perf_counter() - start
    return Outcome(risk, "", seconds, value, losses.naive, losses.answers)


def reason(error: BaseException) -> str:
    """Return in a line what was raised and where.

    >>> reason(ValueError("C must be positive"))
    'ValueError: C must be positive'
    """
    words = f"{type(error).__name__}: {error}".strip().removesuffix(":")
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        words += f" (in {frames[-1].name}, line {frames[-1].lineno} of {frames[-1].filename})"
    return words
