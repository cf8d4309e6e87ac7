"""What the search gained, as far as its rows can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shiftune.report.tables import completed
from shiftune.search.selection import paired_difference

if TYPE_CHECKING:
    from shiftune.risk.result import Estimate, RiskEstimate
    from shiftune.search import ShiftSearch


@dataclass(frozen=True, slots=True)
class Rival:
    """Another choice that could have been made, beside the one that was.

    Attributes
    ----------
    risk : RiskEstimate
        Estimated at the target, on the same rows as the chosen model.
    mean_loss : float
        Over the same rows, without correction; NaN where it was not recorded.
    gap : Estimate
        Its risk minus that of the chosen model, paired row by row.
    trial : int, optional
        None for the model as it was given.
    """

    risk: RiskEstimate
    mean_loss: float
    gap: Estimate
    trial: int | None = None

    @property
    def verdict(self) -> str:
        """Whether the rows can tell it from the chosen one: "worse", "better" or "tied"."""
        low, high = self.gap.interval()
        return "worse" if low > 0 else "better" if high < 0 else "tied"


def as_given(search: ShiftSearch) -> Rival | str:
    """Judge the model with the parameters it came with; the reason where that fails."""
    outcome = search._default_outcome()
    if outcome.risk is None:
        return outcome.failure
    return Rival(outcome.risk, outcome.mean_loss, paired_difference(outcome.risk, search.risk_))


def naive_choice(search: ShiftSearch) -> Rival | None:
    """Return the trial that has the lowest mean loss at the sources, without correction.

    None where the search itself was naive, or was about known target labels, or is an old study
    that did not record it.
    """
    trials = completed(search.trials_)
    if not search._judging().risk.corrects or trials["mean_loss"].isna().any():
        return None
    number = int(trials.index[int(np.argmin(trials["mean_loss"]))])
    risk = risk_of_trial(search, number)
    return Rival(
        risk, trials["mean_loss"].to_dict()[number], paired_difference(risk, search.risk_), number
    )


def risk_of_trial(search: ShiftSearch, number: int) -> RiskEstimate:
    """Return the estimate of a completed trial."""
    trials, risks = search._judged()
    (risk,) = [risk for trial, risk in zip(trials, risks, strict=True) if trial.number == number]
    return risk
