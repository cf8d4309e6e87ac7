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
from shiftune.evaluate.fitting import FitPlan, StudyData
from shiftune.evaluate.losses import Loss
from shiftune.evaluate.prepared_rows import PreparedRows, tunes_last_step
from shiftune.risk.grouped import by_group

if TYPE_CHECKING:
    from shiftune.evaluate.answers import Answers
    from shiftune.risk.estimator import RiskEstimator
    from shiftune.risk.result import RiskEstimate


# Errors of models that make their trial fail; a model that exits ends its trial, not the search.
CATCH = (Exception, SystemExit)


class Candidate(NamedTuple):
    """What a trial evaluates: parameters in the estimator's names, and the name of its family.

    A trial whose first model has a mean loss above `bar` is stopped after it; None stops none.
    """

    params: Mapping[str, Any]
    family: str = ""
    bar: float | None = None


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
    """Outcome of a trial: a risk, or the reason why there is none; neither if it was stopped.

    `value` is what is minimised: the risk, or what compares trials of several families;
    `mean_loss` is the naive estimate, whichever estimator the search uses; `answers` are the
    predictions on the validation rows, where the plan keeps them; `params` are parameters that the
    plan has chosen, for the refit.
    """

    risk: RiskEstimate | None
    failure: str
    seconds: float
    value: float = np.nan
    mean_loss: float = np.nan
    answers: Answers | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


def run_trial(context: TrialContext, candidate: Candidate) -> Outcome:
    """Build the model, fit it, take its losses and estimate the target risk.

    What the model raises is the trial's failure, not the search's, if it is to be caught.
    """
    start = time.perf_counter()
    try:
        params, family, bar = candidate
        model = clone(context.estimators[family]).set_params(**params)
        data = context.data
        if tunes_last_step(model, params):
            data = data.sharing(context.prepared.of(context.preparations.get(family)))
        limit = {} if bar is None else {"bar": bar}
        losses = context.plan.losses(model, data, context.loss, **limit)
        if not losses.complete:
            seconds = time.perf_counter() - start
            return Outcome(None, "", seconds, mean_loss=losses.naive)
        risk = context.estimate(losses.by_source)
        if not np.isfinite(risk.value):
            raise ValueError(f"the estimated risk is {risk.value}")
        value = context.compared_by(risk, losses.by_source)
        seconds = time.perf_counter() - start
        return Outcome(risk, "", seconds, value, losses.naive, losses.answers, losses.params)
    except context.catch as error:
        return Outcome(None, reason(error), time.perf_counter() - start)


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
