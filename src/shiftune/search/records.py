"""What a study keeps of every trial, and the table made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from optuna.trial import TrialState

from shiftune.risk.result import RiskEstimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    import optuna

# User attributes of a trial.
RISK = "risk"
MEAN_LOSS = "mean_loss"
SECONDS = "seconds"
FAILURE = "failure"

FINISHED = (TrialState.COMPLETE, TrialState.FAIL)


def finished_trials(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the trials that came to an end, good or bad."""
    return study.get_trials(deepcopy=False, states=FINISHED)


def risk_of(trial: optuna.trial.FrozenTrial) -> RiskEstimate | None:
    """Return the estimated risk of a trial; None for one that failed."""
    record = trial.user_attrs.get(RISK)
    return None if record is None else RiskEstimate.from_record(record)


def table(
    trials: list[optuna.trial.FrozenTrial], risks: Mapping[int, RiskEstimate], tied: set[int]
) -> pd.DataFrame:
    """Return one row per trial.

    Parameters
    ----------
    trials : the finished trials
    risks : the estimated risks of those that have one, by their numbers
    tied : numbers of those that tie with the best
    """
    rows = []
    for trial in trials:
        row: dict[str, Any] = {"trial": trial.number, "state": trial.state.name}
        risk = risks.get(trial.number)
        if risk is not None:
            low, high = risk.interval()
            row |= {"risk": risk.value, "stderr": risk.stderr, "low": low, "high": high}
            row["mean_loss"] = trial.user_attrs.get(MEAN_LOSS, np.nan)
        row |= {f"param_{name}": value for name, value in trial.params.items()}
        row["seconds"] = trial.user_attrs.get(SECONDS, np.nan)
        if risk is not None:
            row |= {f"risk_{n}": m for n, m in zip(risk.names, risk.estimates, strict=True)}
        row["failure"] = trial.user_attrs.get(FAILURE, "")
        row["tied_with_best"] = trial.number in tied
        rows.append(row)
    return pd.DataFrame(rows).set_index("trial")
