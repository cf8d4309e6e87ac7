"""Limits outside of which the weights of a source are not trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune.ratio.verdict import Reason, Verdict

# A source with a lower mean weight stands for less than a hundredth of the target.
NEGLIGIBLE = 0.01


@dataclass(frozen=True, slots=True)
class Guard:
    r"""Limits outside of which a source is left out, because its weights are not plausible.

    The mean of true density ratios over a source's own rows is 1: :math:`E_j[w_j] = 1`. Where
    the source has no rows like the target's, their sample mean is not: the weights are ~0 on
    all rows, so the weighted losses hardly vary, so the source looks as if it knew the risk
    (~0) exactly, and an inverse-variance mean gives it all the mass. The guard looks at the
    weights alone, so that it decides alike for every model that is compared.

    The limits have small errors of the estimated risk over generated problems (mean absolute log
    error 0.17, against 0.42 for the naive mean and 1.17 without a guard) and do not silence small
    sources by chance; tighter ones gain little (benchmarks/guard.py).

    Parameters
    ----------
    min_mean_weight, max_mean_weight : float
        The mean weight must lie between these.
    min_ess : float
        At least so many effective rows, :math:`(\sum w)^2 / \sum w^2`; a source that is small
        but whose rows count about alike (at least a quarter of them effective) is used.
    min_ess_together : float
        Where no source can be used by itself, those with a mean weight of at least 0.01 still show
        which of their rows are most like the target's, if they have so many effective rows in
        all: where the assumption holds, a choice by logistic ratios then costs a third to a
        seventh of what the naive one costs (benchmarks/fallback.py). See `shiftune.risk.estimate`.
    prior_rows : float
        The divergence of a source is an estimate too, and a wild one from few rows; taken at
        face value, the source that happens to vary least gets most of the mass. So that of the
        source is mixed with the value that its weights and the other sources' noise suggest, as
        if that had been seen on so many rows. See `shiftune.risk.lambdas`.

    Examples
    --------
    >>> Guard().objection(n=300, mean_weight=0.97, ess=120.0) is None
    True
    >>> print(Guard().objection(n=300, mean_weight=2e-7, ess=1.4))
    no target-like rows: mean weight 2e-07
    """

    min_mean_weight: float = 0.6
    max_mean_weight: float = 1 / 0.6
    min_ess: float = 10.0
    min_ess_together: float = 3.0
    prior_rows: float = 80.0

    def objection(self, n: int, mean_weight: float, ess: float) -> Verdict | None:
        """Return why a source is left out; None if it is used."""
        if n < 2:
            return Verdict(Reason.ONE_ROW)
        if not mean_weight >= self.min_mean_weight:
            few = mean_weight >= NEGLIGIBLE
            reason = Reason.FEW_TARGET_LIKE_ROWS if few else Reason.NO_TARGET_LIKE_ROWS
            return Verdict(reason, mean_weight)
        if mean_weight > self.max_mean_weight:
            return Verdict(Reason.RATIO_FAILED, mean_weight)
        if ess < min(self.min_ess, n / 4):
            return Verdict(Reason.FEW_EFFECTIVE_ROWS, ess)
        return None


def effective_rows(w: NDArray[np.float64], starts: ArrayLike = (0,)) -> NDArray[np.float64]:
    r"""Effective sample sizes :math:`(\sum w)^2 / \sum w^2`, each from 1 to n (0 if all w are 0).

    Parameters
    ----------
    w : array of shape (n,)
        Weights of all sources, one after the other.
    starts : k positions
        Where each source begins.

    >>> effective_rows(np.array([1.0, 1.0, 0.0, 0.0, 3.0]), starts=[0, 4])
    array([2., 1.])
    """
    first = np.asarray(starts, dtype=np.intp)
    top = np.maximum.reduceat(w, first)
    sizes = np.diff(np.append(first, len(w)))
    v = w / np.repeat(np.where(top > 0, top, 1), sizes)  # squares of tiny weights would vanish
    squares = np.add.reduceat(v**2, first)
    return np.asarray(np.add.reduceat(v, first) ** 2 / np.where(squares > 0, squares, 1))
