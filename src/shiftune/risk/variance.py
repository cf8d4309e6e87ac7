"""Variance of an estimate: sampling error of the rows, and differences between the sites."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shiftune.ratio.guard import Guard
from shiftune.risk.heterogeneity import heterogeneity
from shiftune.risk.lambdas import shrink_divergences

Floats = NDArray[np.float64]

# Fewest rows of a site from which the variance between sites is estimated, if others have them.
FEWEST_ROWS = 5


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


def variance_between(estimates: Floats, divergences: Floats, n: NDArray[np.intp]) -> float:
    r"""Variance :math:`\tau^2` between the sites' true values (Paule and Mandel).

    Parameters
    ----------
    estimates, divergences, n : arrays of shape (k,)
        Each site's estimate, the variance of one row's contribution, and the rows. Variances of
        small sites are shrunk as those of the guard are. Sites of fewer than five rows are left
        out if two others remain: one or two rows show no difference between sites.

    Returns
    -------
    float
        0 for a single site, which cannot be compared with others.

    Examples
    --------
    >>> variance_between(np.array([1.0, 3.0]), np.array([0.01, 0.01]), np.array([100, 100])) > 1.9
    True
    """
    if len(n) < 2:
        return 0.0
    large = n >= FEWEST_ROWS
    if 2 <= large.sum() < len(n):
        return variance_between(estimates[large], divergences[large], n[large])
    if not divergences.any():  # one row of each, or no error anywhere: all that differs counts
        return float(estimates.var(ddof=1))
    one = np.ones(len(n))
    variances = shrink_divergences(n, divergences, one, one, Guard().prior_rows) / np.maximum(
        n - 1, 1
    )
    return heterogeneity(estimates, variances).tau_squared


def combined_variance(
    influence: Floats,
    block_counts: NDArray[np.intp],
    effective: Floats,
    *,
    between: float,
    shares: Floats,
    besides: float = 0.0,
) -> tuple[float, float]:
    r"""Variance of an estimate of a new site's value, and its degrees of freedom.

    .. math:: V = \sum_i \psi_i^2 + \tau^2 \Big(\sum_j s_j^2 + \big(\sum_j s_j\big)^2\Big) + V_0 :

    the sampling error of the rows, the differences between the sites (the sources, and the new
    site), and other known parts (`besides`).

    Parameters
    ----------
    influence, block_counts, effective
        As for `pooled_variance`.
    between : float
        :math:`\tau^2`.
    shares : array of shape (k,)
        :math:`s_j` of the sources; less than 1 in all where the target has labelled rows.
    """
    rows, rows_dof = pooled_variance(influence, block_counts, effective)
    sites = between * float(shares @ shares + shares.sum() ** 2)
    total = rows + sites + besides
    spread = rows**2 / rows_dof + sites**2 / max(len(shares) - 1, 1)
    return total, float(max(total**2 / spread, 1.0)) if spread > 0 else 1.0
