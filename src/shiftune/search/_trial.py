"""One trial, in any process: from parameters to an estimated target risk or a failure."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import optuna
import pandas as pd
from numpy.typing import NDArray
from optuna.trial import TrialState
from sklearn.base import clone

from shiftune.errors import OverlapWarning, ProblemError
from shiftune.evaluate._answers import Answers
from shiftune.evaluate._losses import Loss
from shiftune.evaluate._plan import (
    Fit,
    FitPlan,
    IndependentFits,
    Predicted,
    PreparedRows,
    StudyData,
    TrialLosses,
    independent_fits,
    tunes_last_step,
)
from shiftune.risk._estimator import RiskEstimator
from shiftune.risk._result import Estimate, RiskEstimate, by_group

if TYPE_CHECKING:
    from shiftune.search._result import SearchResult

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
        model = clone(context.estimators[candidate.family]).set_params(**candidate.params)
        prepared = context.prepared if tunes_last_step(model, candidate.params) else None
        transformers = context.preparations.get(candidate.family)
        predicted = fit.fit_predict(model, context.data, context.loss.needs, prepared, transformers)
    except context.catch as error:
        failed = Outcome(None, reason(error), time.perf_counter() - start)
        raise TrialEnded(failed) from None
    return Fitted(predicted, time.perf_counter() - start)


def _run_whole(context: TrialContext, candidate: Candidate) -> Outcome:
    start = time.perf_counter()
    try:
        model = clone(context.estimators[candidate.family]).set_params(**candidate.params)
        return _judged(context, context.plan.losses(model, context.data, context.loss), start)
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


def tied_with_best(
    risks: Sequence[RiskEstimate], best: RiskEstimate, level: float = 0.95
) -> NDArray[np.bool_]:
    """Mark the trials that cannot be distinguished from the best, shape (T,).

    The differences are paired: both models were evaluated on the same rows, so what makes a row
    hard for both cancels. A trial is worse if the interval of its difference lies above 0. The
    best itself is marked. (It was chosen for being lowest and looks a little better than it is, so
    there are too few ties rather than too many.)
    """
    return np.array(
        [risk is best or paired_difference(risk, best).interval(level)[0] <= 0 for risk in risks]
    )


def paired_difference(risk: RiskEstimate, best: RiskEstimate) -> Estimate:
    """Difference to the best; unpaired where an estimator evaluated the two on different rows."""
    try:
        return risk.minus(best)
    except ProblemError:
        variance = risk.variance + best.variance
        return Estimate(risk.value - best.value, variance, min(risk.dof, best.dof))


def winner(risks: Sequence[RiskEstimate]) -> int:
    """Return the position of the trial of lowest estimated risk."""
    return int(np.argmin([risk.value for risk in risks]))


class Compared(StrEnum):
    """Result of comparing another choice with the chosen one."""

    WORSE = "worse"
    TIED = "tied"
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Rival:
    """Alternative to what is handed over, or to the best trial.

    Attributes
    ----------
    risk : RiskEstimate
        Estimated at the target, on the same rows.
    mean_loss : float
        Over the same rows, without correction; NaN where it was not recorded.
    gap : Estimate
        Its risk minus that of what it is compared with, paired row by row.
    trial : int, optional
        None for the model with its default parameters.
    """

    risk: RiskEstimate
    mean_loss: float
    gap: Estimate
    trial: int | None = None

    @property
    def compared(self) -> Compared:
        """Whether the 95 % interval of the difference lies above 0, below 0, or around it."""
        low, high = self.gap.interval()
        return Compared.WORSE if low > 0 else Compared.BETTER if high < 0 else Compared.TIED


def default_rival(result: SearchResult) -> Rival | None:
    """Return the model with its default parameters; None where it cannot be evaluated."""
    risk = result.default.risk
    if risk is None:
        return None
    return Rival(risk, result.default.mean_loss, paired_difference(risk, result.choice.risk))


def naive_rival(result: SearchResult) -> Rival | None:
    """Return the trial of lowest mean loss at the sources, without correction.

    None where the search itself did not correct, or mean losses were not recorded.
    """
    trials = result.trials.loc[list(result.risks)]
    if not result.settings.risk.corrects or trials["mean_loss"].isna().any():
        return None
    return _trial(
        result, int(trials.index[int(np.argmin(trials["mean_loss"]))]), result.choice.risk
    )


def plain_promise(result: SearchResult) -> float:
    """Mean loss of what is handed over on rows of known sites, as plain cross-validation has it.

    NaN where it is unknown.
    """
    answers, data = result.choice.answers, result.context.data
    if answers is None:
        alone = len(result.choice.weights) == 1
        return float(result.trials["mean_loss"].to_dict()[result.chosen]) if alone else np.nan
    known = Answers(answers.known, answers.known)
    return float(np.concatenate(data.losses(known, result.loss)).mean())


def tied_rivals(result: SearchResult, most: int) -> list[Rival]:
    """Return the trials that cannot be distinguished from the best one, itself first."""
    best = result.risks[result.chosen]
    return [_trial(result, number, best) for number in result.tied[:most]]


def _trial(result: SearchResult, number: int, best: RiskEstimate) -> Rival:
    risk = result.risks[number]
    mean_loss = float(result.trials["mean_loss"].to_dict()[number])
    return Rival(risk, mean_loss, paired_difference(risk, best), number)


# User attributes of a trial.
RISK = "risk"
MEAN_LOSS = "mean_loss"
SECONDS = "seconds"
FAILURE = "failure"
OUT_OF_TIME = "OutOfTime"  # beginning of the failure of trials that took too long
REJECTED = "rejected by the space"  # beginning of the failure of trials that a space refuses
MODEL = "model"  # name of the family; none in a search of one estimator
DEFAULTS = "defaults"  # only of trials that have the default parameters
RUNS = "runs"  # how many drivers have run the trial, if the first has left it without a result
DRIVER = "driver"  # number of the driver that has begun the trial, where several have joined
ANSWERS_BYTES = "answers_bytes"  # 0 for a plan that keeps no answers

# Columns that a table has even without trials.
NO_TRIALS = ["trial", "state", "seconds", "failure", "tied_with_best"]

FINISHED = (TrialState.COMPLETE, TrialState.FAIL)


def finished_trials(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the trials that have a result or the reason why there is none.

    A trial that was interrupted has neither.
    """
    ended = study.get_trials(deepcopy=False, states=FINISHED)
    return [trial for trial in ended if not was_interrupted(trial)]


def was_interrupted(trial: optuna.trial.FrozenTrial) -> bool:
    """Whether a trial has ended without a result or a reason."""
    return trial.state is TrialState.FAIL and FAILURE not in trial.user_attrs


def model_name(estimator: Any) -> str:
    """Name a model, that of the last step for a pipeline.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> model_name(make_pipeline(StandardScaler(), Ridge()))
    'Ridge'
    """
    steps = getattr(estimator, "steps", None)
    return type(steps[-1][1] if steps else estimator).__name__


def risk_of(trial: optuna.trial.FrozenTrial) -> RiskEstimate | None:
    """Return the estimated risk of a trial; None for one that failed.

    A trial that was interrupted while it was recorded, and failed when it was run again, has a risk
    that does not count.
    """
    if trial.state is not TrialState.COMPLETE or RISK not in trial.user_attrs:
        return None
    return RiskEstimate.from_record(trial.user_attrs[RISK])


def outcome_of(trial: optuna.trial.FrozenTrial) -> Outcome:
    """Return the outcome of a finished trial, without its answers."""
    found = trial.user_attrs
    return Outcome(risk_of(trial), found.get(FAILURE, ""), found.get(SECONDS, 0.0))


def evaluated_risks(study: optuna.Study, estimator: RiskEstimator) -> dict[int, RiskEstimate]:
    """Return the estimates of all evaluated trials by their numbers, each record decoded once."""
    found = {trial.number: risk_of(trial) for trial in finished_trials(study)}
    risks = {number: risk for number, risk in found.items() if risk is not None}
    return dict(zip(risks, estimator.finish(list(risks.values())), strict=True))


def of_several_families(trials: list[optuna.trial.FrozenTrial]) -> bool:
    """Whether trials are compared across model families."""
    return len({trial.user_attrs.get(MODEL) for trial in trials}) > 1


def best_trial(
    trials: list[optuna.trial.FrozenTrial], risks: Mapping[int, RiskEstimate]
) -> int | None:
    """Return the number of the best trial: of lowest risk, or of lowest value across families."""
    if not of_several_families(trials):
        return min(risks, key=lambda number: risks[number].value, default=None)
    values = [(trial.value, trial.number) for trial in trials if trial.number in risks]
    return min(values, default=(None, None))[1]


def table(
    trials: list[optuna.trial.FrozenTrial], risks: Mapping[int, RiskEstimate]
) -> pd.DataFrame:
    """Return one row per finished trial; `risks` has the estimates by the trials' numbers.

    `tied_with_best` is missing for trials without an estimate, which were not compared.
    """
    best = best_trial(trials, risks)
    marks = () if best is None else tied_with_best(list(risks.values()), risks[best])
    tied = dict(zip(risks, map(bool, marks), strict=True))
    several = of_several_families(trials)
    rows = []
    for trial in trials:
        row: dict[str, Any] = {"trial": trial.number, "state": trial.state.name}
        if MODEL in trial.user_attrs:
            row[MODEL] = trial.user_attrs[MODEL]
        risk = risks.get(trial.number)
        if risk is not None:
            low, high = risk.interval()
            row |= {"risk": risk.value, "stderr": risk.stderr, "low": low, "high": high}
            if several:
                row["compared_by"] = trial.value
        if MEAN_LOSS in trial.user_attrs:
            row["mean_loss"] = trial.user_attrs[MEAN_LOSS]
        row |= {f"param_{name}": value for name, value in trial.params.items()}
        row["seconds"] = trial.user_attrs.get(SECONDS, np.nan)
        if risk is not None:
            row |= {f"risk_{n}": m for n, m in zip(risk.names, risk.estimates, strict=True)}
        row["failure"] = trial.user_attrs.get(FAILURE, "")
        row["tied_with_best"] = tied.get(trial.number)
        rows.append(row)
    columns = sorted(dict.fromkeys(name for row in rows for name in row), key=_place)
    found = pd.DataFrame(rows, columns=columns or NO_TRIALS).set_index("trial")
    return found.astype({"tied_with_best": "boolean"})


def _place(column: str) -> int:
    """Place of a column's group, whichever trial has it first."""
    groups = ("param_", "seconds", "risk_", "failure", "tied_with_best")
    return next((k for k, start in enumerate(groups, 1) if column.startswith(start)), 0)
