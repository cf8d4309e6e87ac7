"""One trial, in any process: from parameters to an estimated target risk or a failure; its record.

A trial consists of pieces that workers can share: its fits, one for every fold.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import optuna
import pandas as pd
from numpy.typing import NDArray
from optuna.trial import FrozenTrial, TrialState
from sklearn.base import clone

from shiftune._options import CATCH
from shiftune.errors import OverlapWarning, ProblemError
from shiftune.evaluate._fits import (
    Predicted,
    Predictions,
    PreparedRows,
    StudyData,
    fit_predict,
    losses_of_fits,
    tunes_last_step,
)
from shiftune.evaluate._losses import Loss
from shiftune.risk._estimate import RiskEstimator
from shiftune.risk._result import Estimate, RiskEstimate, by_group

# User attributes of a trial.
RISK = "risk"
SECONDS = "seconds"
FAILURE = "failure"
MODEL = "model"  # name of the family; none in a search of one estimator
DEFAULTS = "defaults"  # only of trials that have the default parameters
RUNS = "runs"  # how many drivers have run the trial, if the first has left it without a result
DRIVER = "driver"  # number of the driver that has begun the trial, where several have joined
PREDICTIONS_BYTES = "predictions_bytes"  # 0 where they are not kept

# Beginnings of failures: of trials that took too long, and of those that a space refuses.
OUT_OF_TIME = "OutOfTime"
REJECTED = "rejected by the space"


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
    prepared: PreparedRows = field(default_factory=PreparedRows)
    preparations: Mapping[str, str] = field(default_factory=dict)
    catch: type[BaseException] | tuple[type[BaseException], ...] = CATCH

    def estimate(self, losses: Sequence[NDArray[np.float64]]) -> RiskEstimate:
        """Estimate the target risk from the losses of every source."""
        with warnings.catch_warnings():
            # Raised once, when the search begins: it depends on the weights alone.
            warnings.simplefilter("ignore", OverlapWarning)
            risk = self.risk.estimate(losses, self.data.weights, names=self.data.names)
        if self.data.sample_weight is not None:
            risk = risk.signed(nonnegative=self.data.nonnegative(losses))
        groups = self.data.groups
        return (risk if groups is None else by_group(risk, groups)).condensed()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a trial: a risk, or the reason why there is none.

    `predictions` are those of the evaluated rows.
    """

    risk: RiskEstimate | None
    failure: str
    seconds: float
    predictions: Predictions | None = None


class Piece(NamedTuple):
    """Piece of a trial that one worker runs: the fit without one fold."""

    candidate: Candidate
    fold: int


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
    """Run all pieces of a trial in this process."""
    try:
        return combined(
            context,
            {
                fold: run_piece(context, Piece(candidate, fold))
                for fold in context.data.fold_numbers
            },
        )
    except TrialEnded as ended:
        return ended.outcome


def run_piece(context: TrialContext, piece: Piece) -> Fitted:
    """Build the model, fit it and predict.

    What the model raises is the trial's failure, not the search's, if it is to be caught.
    """
    start = time.perf_counter()
    try:
        params, family = piece.candidate
        model = clone(context.estimators[family]).set_params(**params)
        prepared = context.prepared if tunes_last_step(model, params) else None
        predicted = fit_predict(
            model,
            context.data,
            piece.fold,
            context.loss.needs,
            prepared,
            context.preparations.get(family),
        )
    except context.catch as error:
        failed = Outcome(None, reason(error), time.perf_counter() - start)
        raise TrialEnded(failed) from None
    return Fitted(predicted, time.perf_counter() - start)


def combined(context: TrialContext, pieces: Mapping[int, Fitted]) -> Outcome:
    """Return the outcome of a trial from those of all its pieces."""
    start = time.perf_counter() - sum(piece.seconds for piece in pieces.values())
    predicted = {fold: piece.predicted for fold, piece in pieces.items()}
    try:
        losses, predictions = losses_of_fits(predicted, context.data, context.loss)
        risk = context.estimate(losses)
        if not np.isfinite(risk.value):
            raise ValueError(f"the estimated risk is {risk.value}")
    except context.catch as error:
        return Outcome(None, reason(error), time.perf_counter() - start)
    return Outcome(risk, "", time.perf_counter() - start, predictions)


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


# ---------------------------------------------------------------- records of trials


def finished_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that have a result or the reason why there is none.

    A trial that was interrupted has neither.
    """
    ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
    return [trial for trial in ended if not was_interrupted(trial)]


def was_interrupted(trial: FrozenTrial) -> bool:
    """Whether a trial has ended without a result or a reason."""
    return trial.state is TrialState.FAIL and FAILURE not in trial.user_attrs


def risk_of(trial: FrozenTrial) -> RiskEstimate | None:
    """Return the estimated risk of a trial; None for one that failed.

    A trial that was interrupted while it was recorded, and failed when it was run again, has a risk
    that does not count.
    """
    if trial.state is not TrialState.COMPLETE or RISK not in trial.user_attrs:
        return None
    return RiskEstimate.from_record(trial.user_attrs[RISK])


def outcome_of(trial: FrozenTrial) -> Outcome:
    """Return the outcome of a finished trial, without its predictions."""
    attributes = trial.user_attrs
    return Outcome(risk_of(trial), attributes.get(FAILURE, ""), attributes.get(SECONDS, 0.0))


def evaluated_risks(study: optuna.Study) -> dict[int, RiskEstimate]:
    """Return the estimates of all evaluated trials by their numbers, each record decoded once."""
    decoded = {trial.number: risk_of(trial) for trial in finished_trials(study)}
    return {number: risk for number, risk in decoded.items() if risk is not None}


def best_trial(risks: Mapping[int, RiskEstimate]) -> int | None:
    """Return the number of the trial with the lowest criterion; None if there is none."""
    return min(risks, key=lambda number: risks[number].criterion, default=None)


def paired_difference(risk: RiskEstimate, best: RiskEstimate) -> Estimate:
    """Difference to the best; unpaired where an estimator evaluated the two on different rows."""
    try:
        return risk.minus(best)
    except ProblemError:
        variance = risk.variance + best.variance
        return Estimate(risk.value - best.value, variance, min(risk.dof, best.dof))


def table(trials: list[FrozenTrial], risks: Mapping[int, RiskEstimate]) -> pd.DataFrame:
    """Return one row per finished trial; `risks` has the estimates by the trials' numbers.

    `tied_with_best` marks trials that cannot be distinguished from the best: the interval of the
    difference does not lie above 0. The differences are paired: both models were evaluated on the
    same rows, so what makes a row hard for both cancels. (The best was chosen for being lowest and
    looks a little better than it is, so there are too few ties rather than too many.) It is missing
    for trials without an estimate, which were not compared.
    """
    best = best_trial(risks)
    rows = []
    for trial in trials:
        row: dict[str, Any] = {"trial": trial.number, "state": trial.state.name}
        if MODEL in trial.user_attrs:
            row[MODEL] = trial.user_attrs[MODEL]
        risk = risks.get(trial.number)
        if risk is not None:
            low, high = risk.interval()
            row |= {"risk": risk.value, "stderr": risk.stderr, "low": low, "high": high}
            row["criterion"] = risk.criterion
        row |= {f"param_{name}": value for name, value in trial.params.items()}
        row["seconds"] = trial.user_attrs.get(SECONDS, np.nan)
        tied = None
        if risk is not None and best is not None:
            row |= {f"risk_{n}": m for n, m in zip(risk.names, risk.estimates, strict=True)}
            tied = trial.number == best or bool(
                paired_difference(risk, risks[best]).interval()[0] <= 0
            )
        row["failure"] = trial.user_attrs.get(FAILURE, "")
        row["tied_with_best"] = tied
        rows.append(row)
    columns = sorted(dict.fromkeys(name for row in rows for name in row), key=_place)
    none = ["trial", "state", "seconds", "failure", "tied_with_best"]
    frame = pd.DataFrame(rows, columns=columns or none).set_index("trial")
    return frame.astype({"tied_with_best": "boolean"})


def _place(column: str) -> int:
    """Place of a column's group, whichever trial has it first."""
    groups = ("param_", "seconds", "risk_", "failure", "tied_with_best")
    return next((k for k, start in enumerate(groups, 1) if column.startswith(start)), 0)
