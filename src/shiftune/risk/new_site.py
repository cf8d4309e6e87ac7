"""Variance of the risk at a new site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.risk.packing import packed, unpacked
from shiftune.risk.variance import (
    degrees_between,
    pooled_variance,
    squares_by_source,
    variance_between,
)

Floats = NDArray[np.float64]

_ARRAYS = ("leverage", "row_effects", "extrapolation")


@dataclass(frozen=True, slots=True, eq=False)
class NewSiteVariance:
    r"""Variance of the risk at a new site: between-site variance plus extrapolation error.

    Its parts are linear in the losses, or squares of linear parts, so the variance of the
    difference of two models has the same form.

    Attributes
    ----------
    between : float
        Variance :math:`\tau^2` of the sites' true values.
    leverage : array of shape (k,)
        Derivative of the estimate by each source's own deviation: its share, unless the adjustment
        also learns from the source.
    stretch : float
        Variance of the sites' true values over that of their adjusted estimates: an adjustment
        learned from few sites takes some of their differences for effects of the columns.
    row_effects : array of shape (sum of block_counts,)
        Effect of each row on the estimate of its own source.
    extrapolation : array of shape (r,)
        Numbers whose squares add up to the variance of the adjustment: the sampling error of the
        target's rows, and the penalty's bias.
    noise : float
        Further variance of the adjustment, per variance of one row's loss.
    design : float
        Variance by groups of rows over that by rows; 1 where rows are independent.
    """

    between: float
    leverage: Floats
    stretch: float
    row_effects: Floats
    extrapolation: Floats
    noise: float
    design: float = 1.0

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            getattr(self, name).flags.writeable = False

    def variance(
        self,
        influence: Floats,
        block_counts: NDArray[np.intp],
        n: NDArray[np.intp],
        effective: Floats,
    ) -> tuple[float, float]:
        r"""Variance of the estimate with these influence values, and its degrees of freedom.

        .. math:: \sum_i \psi_i^2 + \tau^2 \Big(\sum_j s_j^2 + \big(\sum_j s_j\big)^2\Big) + V_0 :

        the sampling error of the rows, the differences between the sites (the sources, and the new
        site) with their leverage s, and the error of the adjustment. Where the target has labelled
        rows, the leverage of the sources adds up to less than 1.
        """
        k = len(self.leverage)
        one_row = float(np.average(self._divergences(block_counts, n), weights=n[:k])) / self.design
        rows, rows_dof = pooled_variance(influence, block_counts, effective)
        sites = self.between * float(self.leverage @ self.leverage + self.leverage.sum() ** 2)
        besides = float(self.extrapolation @ self.extrapolation) + self.noise * one_row
        total = rows + sites + besides
        counted = block_counts[:k][self.leverage != 0]
        spread = rows**2 / rows_dof + sites**2 / degrees_between(counted)
        return total, float(max(total**2 / spread, 1.0)) if spread > 0 else 1.0

    def minus(
        self,
        other: NewSiteVariance,
        estimates: Floats,
        block_counts: NDArray[np.intp],
        n: NDArray[np.intp],
    ) -> NewSiteVariance:
        """Parts of the variance of a difference of two models; `estimates` are differences (k,)."""
        k = len(self.leverage)
        apart = replace(
            self,
            row_effects=self.row_effects - other.row_effects,
            extrapolation=self.extrapolation - other.extrapolation,
        )
        counts = self.leverage != 0
        between = variance_between(
            estimates[:k][counts],
            apart._divergences(block_counts, n)[counts],
            n[:k][counts],
            self.stretch,
            groups=block_counts[:k][counts],  # fewer than five blocks: as few rows or groups
            design=self.design,
        )
        return replace(apart, between=between)

    def _divergences(self, block_counts: NDArray[np.intp], n: NDArray[np.intp]) -> Floats:
        k = len(self.leverage)
        return squares_by_source(self.row_effects, block_counts)[:k] * n[:k]

    def scaled(self, change: Floats) -> NewSiteVariance:
        """Parts of the variance after the sources' shares are multiplied by factors (k,)."""
        before = float(self.leverage.sum())
        leverage = self.leverage * change
        factor = float(leverage.sum()) / before if before else 0.0
        return replace(
            self,
            leverage=leverage,
            extrapolation=factor * self.extrapolation,
            noise=factor**2 * self.noise,
        )

    def to_record(self) -> dict[str, Any]:
        """Return numbers and text that JSON can hold."""
        record: dict[str, Any] = {
            "between": self.between,
            "stretch": self.stretch,
            "noise": self.noise,
            "design": self.design,
        }
        return record | {name: packed(getattr(self, name)) for name in _ARRAYS}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> NewSiteVariance:
        """Read what `to_record` wrote."""
        return cls(**{**record, **{name: unpacked(record[name]) for name in _ARRAYS}})
