r"""Variance of the risk at a new site.

Notation: source j has n_j rows, the mean loss L_j and the adjusted estimate m_j, with the sampling
variance v_j; psi_ij is the influence of its row i, and Div_j the variance of one row's
contribution. Influence values lie end to end, source after source, and may be summed in blocks of
rows (groups, or `condensed`), `block_counts` of each source.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.intp]

# A priori all standard deviations between sites are alike, up to 0.4 of one row's, or twice that of
# the sources, whichever is larger. Chosen on simulated sites and real tables
# (`benchmarks/results/judge.md`): with lower bounds, and where sampling error is taken off the
# sources' differences, intervals cover too little; with higher ones those of two have no end.
_ENDS = np.geomspace(1e-3, 1.0, 101)
_SPREADS, _STEPS = np.sqrt(_ENDS[1:] * _ENDS[:-1]), np.diff(_ENDS)
OF_ONE_ROW, _OF_SOURCES = 0.4, 2.0


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


def between_sites(y: Floats, v: Floats, deflation: float, bound: float) -> tuple[float, float]:
    r"""Posterior mean and variance of :math:`\tau^2`, the variance between sites.

    .. math:: y_j \sim N(\mu,\ d \tau^2 + v_j), \qquad \tau \sim U(0, b),

    with a flat prior of :math:`\mu` (restricted likelihood), for deviations y with variances v of
    their own, (k,). The deflation d is the variance of adjusted estimates over that of the sites'
    true values: an adjustment learned from few sites takes some of their differences for effects of
    the columns.

    >>> mean, _ = between_sites(np.array([-0.1, 0.0, 0.1]), np.zeros(3), 1.0, 1.0)
    >>> round(mean, 2)  # the variance of y is 0.01, but three sites show little
    0.11
    """
    tau = bound * _SPREADS
    precision = 1 / (deflation * tau[:, None] ** 2 + v)
    total = precision.sum(axis=1)
    away = y - ((precision @ y) / total)[:, None]
    log = (np.log(precision).sum(axis=1) - np.log(total) - (precision * away**2).sum(axis=1)) / 2
    weights = _STEPS * np.exp(log - log.max())
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
    # Variance of the sites' adjusted estimates over that of their true values (`between_sites`).
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
        there are: the factor is the variance of Student's t with k + 1 degrees of freedom, for at
        least two. Where the target has labelled rows, the leverage of the sources adds up to less
        than 1.

        Over the posterior of :math:`\tau^2`, V has the mean E and the variance D. Student's t with
        :math:`\nu = 4 + 2 E^2 / D` degrees of freedom, times the root of
        :math:`E (\nu - 2) / \nu`, has the same first four moments as this mixture of normal
        distributions; the square of this scale is returned.
        """
        k, s = max(int(np.count_nonzero(self.leverage)), 2), self.leverage
        of_sites = float(s @ s + s.sum() ** 2)
        besides = float(self.extrapolation @ self.extrapolation) * (k + 1) / (k - 1)
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
        return apart.with_between(estimates, block_counts, n)

    def with_between(self, y: Floats, block_counts: Counts, n: Counts) -> NewSiteVariance:
        """The same with the variance between sites that deviations of the sources show, (k,).

        The sampling error of the largest source is not taken off; smaller ones have the rest of
        theirs as a variance of their own.
        """
        counts = np.flatnonzero(self.leverage)  # not the target's labelled rows, which come last
        y, v, k, deflation = y[counts], 1 / n[counts], len(counts), self.deflation
        of_rows = squares_by_source(self.row_effects, block_counts) * n
        sources = slice(len(self.leverage))
        one_row = float(np.average(of_rows[sources], weights=n[sources]))
        bound = 0.0
        if k:
            weights = 1 / (v + v.min())
            away = y - np.average(y, weights=weights)
            seen = float(np.average(away**2, weights=weights)) * k / max(k - 1, 1)
            bound = max(
                OF_ONE_ROW * np.sqrt(one_row / self.design),
                _OF_SOURCES * np.sqrt(seen / (deflation or 1.0)),
            )
        if bound == 0:
            return replace(self, between=0.0, uncertainty=0.0)
        # In units of the bound, so that numbers of any size can be computed with.
        v = (v - v.min()) * (one_row / bound**2)
        mean, variance = between_sites(y / bound, v, deflation or 1.0, 1.0)
        return replace(self, between=mean * bound**2, uncertainty=variance * bound**4)

    def scaled(self, change: Floats, factor: float) -> NewSiteVariance:
        """Parts of the variance after the sources' shares are multiplied by factors (k,).

        Together the sources then have this factor of their share.
        """
        leverage = self.leverage * change
        total = float(leverage.sum())
        if total:
            leverage *= factor * float(self.leverage.sum()) / total
        return replace(self, leverage=leverage, extrapolation=factor * self.extrapolation)

    def to_record(self) -> dict[str, Any]:
        """Return numbers and text that JSON can hold."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        return record | {name: packed(record[name]) for name in _ARRAYS}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> NewSiteVariance:
        """Read what `to_record` wrote."""
        return cls(**{**record, **{name: unpacked(record[name]) for name in _ARRAYS}})


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
