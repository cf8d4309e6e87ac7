"""The winning trial, those that cannot be distinguished from it, and other choices.

All comparisons are paired: the models were evaluated on the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import ProblemError
from shiftune.evaluate.answers import Answers
from shiftune.risk.result import Estimate, RiskEstimate

if TYPE_CHECKING:
    from shiftune.search.result import SearchResult


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
