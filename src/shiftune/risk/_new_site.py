r"""Variance of the risk at a new site.

Notation: source j has n_j rows and the estimate m_j; psi_ij is the influence of its row i, and
Div_j the variance of one row's contribution. Influence values lie end to end, source after source,
and may be summed in blocks of rows (groups, or `condensed`), `block_counts` of each source.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.intp]

# Fewest rows of a site from which the variance between sites is estimated, if others have them.
FEWEST_ROWS = 5
# Chosen in `benchmarks/arena/intervals.py`: the variance between sites is at least a part of the
# variance of the sites' estimates, and of that of one row's loss. A few sites show too little, so
# that with fewer than five a prior, also a part of one row's variance, counts as one site more.
_PART_OF_ESTIMATES = 1 / 2
_PART_OF_ONE_ROW = 1 / 200
_FEW_SITES = 5
_PRIOR_OF_ONE_ROW = 1 / 30


def pooled_variance(
    influence: Floats, block_counts: Counts, effective: Floats
) -> tuple[float, float]:
    r"""Variance of a sum of centred row contributions, and its degrees of freedom.

    .. math:: V = \sum_j V_j, \quad V_j = \sum_i \psi_{ij}^2 = \lambda_j^2 n_j \mathrm{Div}_j,
              \qquad \nu = \frac{V^2}{\sum_j V_j^2 / (m_j - 1)},

    with :math:`m_j` the effective rows of source j: where 8 of 300 rows carry the weight, only 8
    show the spread.
    """
    by_source = squares_by_source(influence, block_counts)
    total = float(by_source.sum())
    if total == 0:
        return 0.0, 1.0
    shares = by_source / total
    return total, float(max(1 / np.sum(shares**2 / np.maximum(effective - 1, 1)), 1.0))


def squares_by_source(influence: Floats, block_counts: Counts) -> Floats:
    """Sum of the squared contributions of every source's rows, shape (k,)."""
    return np.asarray(np.add.reduceat(influence**2, np.cumsum(block_counts) - block_counts))


def variance_between(
    estimates: Floats,
    divergences: Floats,
    n: Counts,
    stretch: float = 1.0,
    *,
    groups: Counts | None = None,
    design: float = 1.0,
) -> float:
    r"""Variance :math:`\tau^2` between the sites' true values, from figures of shape (k,).

    .. math:: \tau^2 = \max(T, \tfrac{1}{200} V), \qquad
              T = s \max(S^2 - \bar v,\ \tfrac{1}{2} S^2), \qquad
              v_j = \frac{\mathrm{Div}_j}{n_j - 1},

    with :math:`S^2` the variance of the sites' estimates, :math:`\bar v` the mean of their sampling
    variances, V that of one row, and s (`stretch`) the variance of the sites' true values over that
    of their estimates. :math:`S^2 - \bar v` alone is below 0 for a third of real tables, where
    sites differ nevertheless: a few sites show little of their variance, and losses are skewed, so
    sampling variances are overestimated as easily as underestimated. With fewer than five sites
    what other tables show counts as one site more,

    .. math:: \tau^2 = \frac{(k - 1)\, T + \tfrac{1}{30} V}{k} .

    Sites of fewer than five rows (or `groups` of rows) are left out if two others remain: one or
    two rows show no difference between sites. `design` is the variance by groups over that by
    rows, which the divergences include and V does not.
    """
    if not len(n):
        return 0.0
    large = _large_enough(n if groups is None else groups)
    estimates, divergences, n = estimates[large], divergences[large], n[large]
    seen = float(estimates.var(ddof=1)) if len(n) > 1 else 0.0
    chance = float(np.mean(divergences / np.maximum(n - 1, 1)))
    one_row = float(np.average(divergences, weights=n)) / design
    seen = stretch * max(seen - chance, _PART_OF_ESTIMATES * seen)
    k = len(n)
    if k < _FEW_SITES:
        return ((k - 1) * seen + _PRIOR_OF_ONE_ROW * one_row) / k
    return max(seen, _PART_OF_ONE_ROW * one_row)


def degrees_between(n: Counts) -> int:
    """Degrees of freedom of the variance between sites of n rows; a prior counts as one site."""
    k = int(_large_enough(n).sum())
    return max(k if k < _FEW_SITES else k - 1, 1)


def _large_enough(n: Counts) -> NDArray[np.bool_]:
    """Mark the sites from which the variance between sites is estimated; all, if few are large."""
    large = n >= FEWEST_ROWS
    return large if large.sum() >= 2 else np.ones(len(n), dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class NewSiteVariance:
    """Variance of the risk at a new site: between-site variance plus extrapolation error.

    Its parts are linear in the losses, or squares of linear parts, so the variance of the
    difference of two models has the same form.
    """

    # Variance tau^2 of the sites' true values.
    between: float
    # Derivative of the estimate by each source's own deviation, (k,): its share, unless the
    # adjustment also learns from the source.
    leverage: Floats
    # Variance of the sites' true values over that of their adjusted estimates: an adjustment
    # learned from few sites takes some of their differences for effects of the columns.
    stretch: float
    # Effect of each row (block) on the estimate of its own source, (sum of block_counts,).
    row_effects: Floats
    # Numbers whose squares add up to the variance of the adjustment, (r,): the sampling error of
    # the target's rows, and the penalty's bias.
    extrapolation: Floats
    # Further variance of the adjustment, per variance of one row's loss.
    noise: float
    # Variance by groups of rows over that by rows; 1 where rows are independent.
    design: float = 1.0

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            getattr(self, name).flags.writeable = False

    def variance(
        self, influence: Floats, block_counts: Counts, n: Counts, effective: Floats
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
        self, other: NewSiteVariance, estimates: Floats, block_counts: Counts, n: Counts
    ) -> NewSiteVariance:
        """Parts of the variance of a difference of two models; `estimates` are differences (k,)."""
        apart = replace(
            self,
            row_effects=self.row_effects - other.row_effects,
            extrapolation=self.extrapolation - other.extrapolation,
        )
        # Fewer than five blocks: as few rows or groups.
        return apart.with_between(estimates, apart._divergences(block_counts, n), n, block_counts)

    def with_between(
        self, estimates: Floats, divergences: Floats, n: Counts, groups: Counts
    ) -> NewSiteVariance:
        """The same with the variance between the sources that figures of shape (k,) give."""
        counts = np.flatnonzero(self.leverage != 0)
        between = variance_between(
            estimates[counts],
            divergences[counts],
            n[counts],
            self.stretch,
            groups=groups[counts],
            design=self.design,
        )
        return replace(self, between=between)

    def _divergences(self, block_counts: Counts, n: Counts) -> Floats:
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


_ARRAYS = ("leverage", "row_effects", "extrapolation")


def packed(values: Floats) -> str:
    """Write an array of shape (n,), seven digits of each, on the scale of the largest."""
    exponent = int(np.frexp(np.max(np.abs(values), initial=0.0))[1])
    scaled = np.ldexp(values, -exponent).astype("<f4")
    return f"{exponent}:{b64encode(scaled.tobytes()).decode()}"


def unpacked(text: str) -> Floats:
    """Read what `packed` wrote."""
    exponent, numbers = text.split(":")
    scaled = np.frombuffer(b64decode(numbers), dtype="<f4").astype(float)
    return np.asarray(np.ldexp(scaled, int(exponent)))
