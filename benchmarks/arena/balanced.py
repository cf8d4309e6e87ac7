"""One ratio of the target to all sources together: the balance heuristic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from shiftune.ratio._density import DensityRatio, ratio_named
from shiftune.risk import RiskEstimate, estimate


def self_normalised(losses: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> RiskEstimate:
    """Weighted mean over the rows of all sources, sum of w L over sum of w.

    The estimates in `benchmarks/results/arena.md` are the same; their intervals are by influence
    values that also count the error of the sum of the weights.
    """
    mean = np.concatenate(list(weights)).mean()
    return estimate(losses, [own / mean for own in weights], "unbiased", guard=False)


class BalancedRatio(DensityRatio):
    r"""Density ratio of the target to the mixture of all sources.

    .. math:: w(x) = \frac{p_T(x)}{\sum_j \pi_j p_j(x)}
                   = \Big(\sum_j \frac{\pi_j}{w_j(x)}\Big)^{-1}, \qquad \pi_j = n_j / n

    Every row gets the weight of the mixture, whichever source it comes from. It is enough that
    the sources *together* cover the target, and where one of them does, the weights are far
    smaller than those of each source by itself (multiple importance sampling, Veach and Guibas
    1995). The mean weight is 1 over the rows of all sources together, not over those of each, so
    use it with `self_normalised`.

    Parameters
    ----------
    ratio : str or DensityRatio
        How the ratios :math:`w_j` of the single sources are estimated.
    random_state : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> left, right = rng.normal(-2, 1, (500, 1)), rng.normal(2, 1, (500, 1))
    >>> target = rng.normal(0, 1, (500, 1))
    >>> w = BalancedRatio().fit(target, [left, right]).weights([left, right])
    >>> bool(abs(np.concatenate(w).mean() - 1) < 0.1)
    True
    """

    def __init__(self, ratio: str | DensityRatio = "logistic", *, random_state: int = 0) -> None:
        self.ratio = ratio
        self.random_state = random_state

    def fit(self, X_target: Any, X_sources: Sequence[Any]) -> Self:
        self.single_ = clone(ratio_named(self.ratio, self.random_state)).fit(X_target, X_sources)
        n = np.array([len(X) for X in X_sources])
        self.shares_, self.n_sources_ = n / n.sum(), len(n)
        return self

    def weights(self, X_sources: Sequence[Any]) -> list[np.ndarray]:
        weights = []
        for X in X_sources:
            by_source = self.single_.weights([X] * self.n_sources_)
            with np.errstate(divide="ignore"):  # where the target has no rows the weight is 0
                inverse = sum(s / w for s, w in zip(self.shares_, by_source, strict=True))
                weights.append(np.asarray(1 / inverse))
        return weights
