"""Records of trials in a study, and the table made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import optuna
import pandas as pd
from optuna.trial import TrialState

from shiftune.risk.estimator import RiskEstimator
from shiftune.risk.result import RiskEstimate
from shiftune.search.comparison import tied_with_best
from shiftune.search.trial import Outcome

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
