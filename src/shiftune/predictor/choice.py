"""Choice of what is handed over: the best trial, or a weighted mean of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shiftune.evaluate.answers import Answers
from shiftune.evaluate.fitting import StudyData
from shiftune.evaluate.losses import Loss
from shiftune.predictor.selection import Candidates
from shiftune.risk.estimator import RiskEstimator
from shiftune.risk.few_labels import shared_alike
from shiftune.risk.result import Estimate, RiskEstimate

# Trials from which it is learned how far to trust the adjustment.
MOST_COMPARED = 24

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Trials that are handed over, their weights, and the estimated risk of their weighted mean.

    Attributes
    ----------
    weights : dict from trial number to weight
        The members, the heaviest first; weights add up to 1.
    risk : RiskEstimate
        On sites that had no say in the choice of trials.
    gain : Estimate or None
        Risk of the best single trial less that of the ensemble, paired row by row, both judged on
        sites that had no say. None where no ensemble was tried.
    answers : Answers or None
        On the validation rows, by trials that were chosen without the site.
    """

    weights: dict[int, float]
    risk: RiskEstimate
    gain: Estimate | None = None
    answers: Answers | None = None


def choose(
    alone: Choice,
    answers: Mapping[int, Answers],
    data: StudyData,
    loss: Loss,
    estimator: RiskEstimator,
    estimate: Callable[[Sequence[Floats]], RiskEstimate],
) -> Choice:
    """Choose members and weights on the answers of trials.

    One trial is handed over where it is all that is chosen, or where the ensemble is worse beyond
    doubt (95 % interval), both judged on sites that had no say in the choice. Where the
    difference may be chance, the ensemble is kept (`benchmarks/arena/ensembles.py`).

    Parameters
    ----------
    alone : Choice
        Of the best trial (`best_alone`).
    answers : answers of trials by their numbers
        Members are chosen among the best of them.
    data : StudyData
        Labels of the rows that were answered.
    loss : Loss
    estimator : RiskEstimator
        Fitted; its `row_shares` compare ensembles.
    estimate : function
        From the losses of every site, k arrays, to the risk.
    """
    row_shares = estimator.row_shares(_better_half(alone.risk, answers, data, loss), alone.risk)
    shares = data.row_coefficients(row_shares)
    candidates = Candidates(answers, data.y_validation, shares, loss, data.classes)

    def judged(nested: Answers) -> RiskEstimate:
        return shared_alike(estimate(data.losses(nested, loss)), alone.risk)

    nested = candidates.nested_answers()
    together = judged(nested)
    gain = judged(candidates.nested_answers(1)).minus(together)
    weights = candidates.weights()
    if np.count_nonzero(weights) == 1 or gain.interval()[1] < 0:
        return replace(alone, gain=gain)
    return Choice(candidates.members(weights), together, gain, nested)


def _better_half(
    best: RiskEstimate,
    answers: Mapping[int, Answers],
    data: StudyData,
    loss: Loss,
) -> Floats:
    """Losses of the better half of the trials by their mean over the sites, (at most 24, n)."""
    plain = np.repeat(best.lam, best.n)

    def losses(number: int) -> Floats:
        return np.concatenate(data.losses(answers[number], loss))

    order = sorted(answers, key=lambda number: float(plain @ losses(number)))
    kept = order[: min((len(order) + 1) // 2, MOST_COMPARED)]
    return np.array([losses(number) for number in kept])
