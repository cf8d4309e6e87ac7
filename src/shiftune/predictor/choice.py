"""Choice of what is handed over: the best trial, or a weighted mean of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.evaluate.answers import Answers
from shiftune.evaluate.losses import Loss
from shiftune.predictor.selection import ROUNDS, Candidates
from shiftune.risk.few_labels import shared_alike
from shiftune.risk.result import Estimate, RiskEstimate

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Trials that are handed over, their weights, and the estimated risk of their weighted mean.

    Attributes
    ----------
    weights : dict from trial number to weight
        The members, the heaviest first; weights add up to 1.
    risk : RiskEstimate
        Of an ensemble, on sites that had no say in the choice of its members; of a single trial,
        its own.
    gain : Estimate or None
        Risk of the best single trial less that of the ensemble, paired row by row, both judged on
        sites that had no say. None where no ensemble was tried.
    """

    weights: dict[int, float]
    risk: RiskEstimate
    gain: Estimate | None = None


def best_alone(risks: Mapping[int, RiskEstimate]) -> Choice:
    """Hand over the trial of lowest risk."""
    best = min(risks, key=lambda number: risks[number].value)
    return Choice({best: 1.0}, risks[best])


def choose(
    risks: Mapping[int, RiskEstimate],
    answers: Mapping[int, Answers],
    y: Sequence[NDArray[Any]],
    loss: Loss,
    classes: NDArray[Any] | None,
    estimate: Callable[[list[Floats]], RiskEstimate],
) -> Choice:
    """Choose members and weights on the answers of trials.

    One trial is handed over where it is all that is chosen, or where the ensemble is worse beyond
    doubt (95 % interval), both judged on sites that had no say in the choice. A difference that
    could be chance speaks for the ensemble: in `benchmarks/arena` handing over one trial wherever
    the ensemble's estimate was higher cost a third of its gain.

    Parameters
    ----------
    risks : estimates of all trials by their numbers
    answers : answers of trials by their numbers
        Members are chosen among the best of them.
    y : k arrays of shape (n_j,)
        Labels of the rows that were answered.
    loss : Loss
    classes : array of shape (C,), or None for quantities
    estimate : function
        From the losses of every site, k arrays, to the risk.
    """
    alone = best_alone(risks)
    if len(answers) < 2:
        return alone
    shares = alone.risk.lam * alone.risk.n
    ends = np.cumsum([len(own) for own in y])[:-1]
    candidates = Candidates(answers, y, shares, loss, classes)

    def judged(rounds: int) -> RiskEstimate:
        nested = np.split(candidates.nested_losses(rounds), ends)
        return shared_alike(estimate(nested), alone.risk)

    together, single = judged(ROUNDS), judged(1)
    gain = single.minus(together)
    weights = candidates.weights()
    if np.count_nonzero(weights) == 1 or gain.interval()[1] < 0:
        return Choice(alone.weights, single, gain)
    return Choice(candidates.members(weights), together, gain)
