"""Variance of an estimate: sampling error of the rows, and differences between the sites."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Fewest rows of a site from which the variance between sites is estimated, if others have them.
FEWEST_ROWS = 5
# Chosen in `benchmarks/arena/intervals.py`: the variance between sites is at least a part of the
# variance of the sites' estimates, and of that of one row's loss. A few sites show too little, so
# that with fewer than five a prior, also a part of one row's variance, counts as one site more.
PART_OF_ESTIMATES = 1 / 2
PART_OF_ONE_ROW = 1 / 200
FEW_SITES = 5
PRIOR_OF_ONE_ROW = 1 / 30


def pooled_variance(
    influence: Floats, block_counts: NDArray[np.intp], effective: Floats
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


def squares_by_source(influence: Floats, block_counts: NDArray[np.intp]) -> Floats:
    """Sum of the squared contributions of every source's rows, shape (k,)."""
    starts = np.concatenate([[0], np.cumsum(block_counts)[:-1]])
    return np.asarray(np.add.reduceat(influence**2, starts))


def variance_between(
    estimates: Floats,
    divergences: Floats,
    n: NDArray[np.intp],
    stretch: float = 1.0,
    *,
    groups: NDArray[np.intp] | None = None,
    design: float = 1.0,
) -> float:
    r"""Variance :math:`\tau^2` between the sites' true values.

    .. math:: \tau^2 = \max(T, \tfrac{1}{200} V), \qquad
              T = s \max(S^2 - \bar v,\ \tfrac{1}{2} S^2), \qquad
              v_j = \frac{\mathrm{Div}_j}{n_j - 1},

    with :math:`S^2` the variance of the sites' estimates, :math:`\bar v` the mean of their sampling
    variances and V that of one row. :math:`S^2 - \bar v` alone is below 0 for a third of real
    tables, where sites differ nevertheless: a few sites show little of their variance, and losses
    are skewed, so sampling variances are overestimated as easily as underestimated. With fewer than
    five sites what other tables show counts as one site more,

    .. math:: \tau^2 = \frac{(k - 1)\, T + \tfrac{1}{30} V}{k} .

    Parameters
    ----------
    estimates, divergences, n : arrays of shape (k,)
        Each site's estimate, the variance of one row's contribution, and the rows; without any
        site the variance is 0. Sites of fewer than five rows are left out if two others remain: one
        or two rows show no difference between sites.
    stretch : float
        s, the variance of the sites' true values over that of their estimates.
    groups : array of shape (k,), optional
        Independent groups of rows, which count instead of the rows where a site is left out.
    design : float
        Variance by groups over that by rows, which the divergences include and V does not.

    Examples
    --------
    >>> float(variance_between(np.array([1.0, 3.0]), np.array([9.9, 9.9]), np.array([100, 100])))
    1.115
    >>> ones = np.ones(5)
    >>> float(variance_between(ones, 9.9 * ones, np.full(5, 100)))
    0.0495
    """
    if not len(n):
        return 0.0
    large = large_enough(n if groups is None else groups)
    estimates, divergences, n = estimates[large], divergences[large], n[large]
    seen = float(estimates.var(ddof=1)) if len(n) > 1 else 0.0
    chance = float(np.mean(divergences / np.maximum(n - 1, 1)))
    one_row = float(np.average(divergences, weights=n)) / design
    seen = stretch * max(seen - chance, PART_OF_ESTIMATES * seen)
    k = len(n)
    if k < FEW_SITES:
        return ((k - 1) * seen + PRIOR_OF_ONE_ROW * one_row) / k
    return max(seen, PART_OF_ONE_ROW * one_row)


def large_enough(n: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Mark the sites from which the variance between sites is estimated; all, if few are large."""
    large = n >= FEWEST_ROWS
    return large if large.sum() >= 2 else np.ones(len(n), dtype=bool)


def degrees_between(n: NDArray[np.intp]) -> int:
    """Degrees of freedom of the variance between sites of n rows; a prior counts as one site.

    >>> degrees_between(np.array([90, 90, 90])), degrees_between(np.array([90] * 6 + [2]))
    (3, 5)
    """
    k = int(large_enough(n).sum())
    return max(k if k < FEW_SITES else k - 1, 1)
