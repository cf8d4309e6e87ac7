r"""Variance of the risk at a new site.

Notation: source j has n_j rows, the mean loss L_j and the adjusted estimate m_j, with the sampling
variance v_j; psi_ij is the influence of its row i, and Div_j the variance of one row's
contribution. Influence values lie end to end, source after source, and may be summed in blocks of
rows (groups, or `condensed`), `block_counts` of each source.
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

# A priori all standard deviations between sites are alike, up to 0.4 of one row's, or twice that of
# the sources, whichever is larger. Chosen on simulated sites and real tables
# (`benchmarks/results/judge.md`): with lower bounds, and where sampling error is taken off the
# sources' differences, intervals cover too little; with higher ones those of two have no end.
_SPREADS = (np.arange(50) + 0.5) / 50
_OF_ONE_ROW, _OF_SOURCES = 0.4, 2.0


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


def never_zero(values: Floats, plain: float) -> Floats:
    r"""Adjusted means of losses that are never negative, kept above 0.

    Below half the plain mean of all sources, h, an extrapolation falls like
    :math:`h \exp(x / h - 1)`, which is x to first order.
    """
    half = plain / 2
    return np.where(values < half, half * np.exp(np.minimum(values / half - 1, 0.0)), values)


def observed_to_expected(means: Floats, estimates: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Mean loss of every source over what its columns let expect, and the latter; shapes (k,).

    The adjustment moves a mean by the difference of its columns to the target's, so that the
    target's estimate less this move is expected at the source.
    """
    expected = never_zero(shares @ estimates + means - estimates, float(shares @ means))
    return means / expected, expected


def between_sites(seen: float, dof: int, bound: float) -> tuple[float, float]:
    r"""Posterior mean and variance of :math:`\tau^2`, the variance between sites.

    .. math:: p(\tau) \propto \tau^{-\nu} \exp\Big(-\frac{\nu S^2}{2 \tau^2}\Big), \ 0 < \tau < b

    for normal deviations whose variance :math:`S^2` was seen with :math:`\nu` degrees of freedom,
    and a uniform prior.

    >>> mean, _ = between_sites(0.01, 2, 1.0)
    >>> round(mean, 3)  # three sites show little
    0.106
    """
    tau = bound * _SPREADS
    log = -dof * (np.log(tau) + seen / tau**2 / 2)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    mean = float(weights @ tau**2)
    return mean, float(weights @ (tau**2 - mean) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class NewSiteVariance:
    """Variance of the risk at a new site: between-site variance plus extrapolation error.

    Its parts are linear in the losses, or squares of linear parts, so the variance of the
    difference of two models has the same form.
    """

    # Derivative of the estimate by each source's own deviation, (k,): its share, unless the
    # adjustment also learns from the source.
    leverage: Floats
    # Variance of the sites' adjusted estimates over that of their true values.
    deflation: float
    # Effect of each row (block) on the estimate of its own source, (sum of block_counts,).
    row_effects: Floats
    # Numbers whose squares add up to the variance of the adjustment, (r,): the sampling error of
    # the target's rows, the penalty's bias, and rows that no source comes near.
    extrapolation: Floats
    # Posterior mean and variance of tau^2, the variance of the sites' true values.
    between: float = 0.0
    uncertainty: float = 0.0
    # Variance by groups of rows over that by rows; 1 where rows are independent.
    design: float = 1.0

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            getattr(self, name).flags.writeable = False

    def variance(self, influence: Floats) -> tuple[float, float]:
        r"""Variance of the estimate with these influence values, and its degrees of freedom.

        .. math:: V = \sum_i \psi_i^2 + a \tau^2 + \frac{k + 1}{k - 1} V_0, \qquad
                  a = \sum_j s_j^2 + \big(\sum_j s_j\big)^2 :

        the sampling error of the rows, the differences between the sites (the sources, and the new
        site) with their leverage s, and the error of the adjustment, which as many sites show as
        there are: the factor is the variance of Student's t with k + 1 degrees of freedom. Where
        the target has labelled rows, the leverage of the sources adds up to less than 1.

        Over the posterior of :math:`\tau^2`, V has the mean E and the variance D. Student's t with
        :math:`\nu = 4 + 2 E^2 / D` degrees of freedom, times the root of
        :math:`E (\nu - 2) / \nu`, has the same first four moments as this mixture of normal
        distributions.
        """
        k, s = int(np.count_nonzero(self.leverage)), self.leverage
        of_sites = float(s @ s + s.sum() ** 2)
        besides = float(self.extrapolation @ self.extrapolation) * (k + 1) / max(k - 1, 1)
        mean = float(np.sum(influence**2)) + of_sites * self.between + besides
        spread = of_sites**2 * self.uncertainty
        if mean == 0 or spread < 1e-12 * mean**2:
            return mean, _MOST_DEGREES
        dof = min(4 + 2 * mean**2 / spread, _MOST_DEGREES)
        return mean * (dof - 2) / dof, dof

    def minus(
        self, other: NewSiteVariance, estimates: Floats, block_counts: Counts, n: Counts
    ) -> NewSiteVariance:
        """Parts of the variance of a difference of two models; `estimates` are differences (k,)."""
        apart = replace(
            self,
            row_effects=self.row_effects - other.row_effects,
            extrapolation=self.extrapolation - other.extrapolation,
        )
        return apart.of_any_sign(estimates, block_counts, n)

    def of_any_sign(self, estimates: Floats, block_counts: Counts, n: Counts) -> NewSiteVariance:
        """The same with the variance between sites of losses that may be negative."""
        return self._with_between(estimates, 1.0, block_counts, n)

    def never_negative(
        self, means: Floats, estimates: Floats, shares: Floats, block_counts: Counts, n: Counts
    ) -> NewSiteVariance:
        r"""The same with the variance between sites of losses that are never negative.

        The deviation of a source is :math:`y_j = 2 \sqrt{L_j / E_j}`, with :math:`E_j` the mean
        loss that its columns let expect: under random effects a site's loss is skewed, and its
        spread in proportion to its size. Shares add up to 1; all arguments have shape (k,).
        """
        plain = float(shares @ means)
        if plain <= 0:
            return replace(self, between=0.0, uncertainty=0.0)
        ratio, _ = observed_to_expected(means, estimates, shares)
        size = max(float(shares @ estimates), plain)
        return self._with_between(2 * np.sqrt(ratio), size, block_counts, n)

    def _with_between(
        self, y: Floats, size: float, block_counts: Counts, n: Counts
    ) -> NewSiteVariance:
        """The same with the variance between sites that deviations in units of a size show."""
        k = len(self.leverage)  # labelled rows of the target come last
        y = y[:k][self.leverage != 0]
        seen = size**2 * float(y.var(ddof=1)) / (self.deflation or 1.0) if len(y) > 1 else 0.0
        rows = squares_by_source(self.row_effects, block_counts)[:k] * n[:k]
        one_row = float(np.average(rows, weights=n[:k])) / self.design
        bound = max(_OF_ONE_ROW * np.sqrt(one_row), _OF_SOURCES * np.sqrt(seen))
        if not len(y) or bound == 0:
            return replace(self, between=0.0, uncertainty=0.0)
        # In units of the bound, so that numbers of any size can be computed with.
        mean, variance = between_sites(seen / bound**2, len(y) - 1, 1.0)
        return replace(self, between=mean * bound**2, uncertainty=variance * bound**4)

    def scaled(self, change: Floats) -> NewSiteVariance:
        """Parts of the variance after the sources' shares are multiplied by factors (k,)."""
        before = float(self.leverage.sum())
        leverage = self.leverage * change
        factor = float(leverage.sum()) / before if before else 0.0
        return replace(self, leverage=leverage, extrapolation=factor * self.extrapolation)

    def to_record(self) -> dict[str, Any]:
        """Return numbers and text that JSON can hold."""
        record = {name: getattr(self, name) for name in _NUMBERS}
        return record | {name: packed(getattr(self, name)) for name in _ARRAYS}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> NewSiteVariance:
        """Read what `to_record` wrote."""
        return cls(**{**record, **{name: unpacked(record[name]) for name in _ARRAYS}})


_NUMBERS = ("between", "uncertainty", "deflation", "design")
_ARRAYS = ("leverage", "row_effects", "extrapolation")
# So many are as good as infinitely many.
_MOST_DEGREES = 1e6


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
