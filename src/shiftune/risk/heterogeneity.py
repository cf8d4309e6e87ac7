"""Agreement of the sources: the estimate read as a meta-analysis of k studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import chdtrc, fdtrc, stdtrit

from shiftune.errors import DataError
from shiftune.ratio.guard import Guard
from shiftune.risk.lambdas import shrink_divergences

if TYPE_CHECKING:
    from shiftune.risk.result import RiskEstimate

Floats = NDArray[np.float64]

# Student's t with one or two degrees of freedom has no variance: with fewer rows than this the
# error of a source's own estimate is unknown.
FEWEST_EFFECTIVE_ROWS = 4.0
# Estimators in which all rows of a source count alike for that source.
UNWEIGHTED = ("naive", "adjusted")


@dataclass(frozen=True, slots=True)
class Heterogeneity:
    r"""Differences between k estimates beyond what their standard errors explain.

    Attributes
    ----------
    k : int
        Number of estimates.
    q : float
        Cochran's :math:`Q = \sum_j a_j (m_j - \bar m)^2`, with :math:`a_j = 1/v_j` and
        :math:`\bar m` the mean of the estimates weighted by them.
    expected : float
        Expectation of Q if all estimate the same value: k - 1, and more where variances are
        estimated from few rows.
    p_value : float
        Of the hypothesis that all estimate the same value.
    i_squared : float
        Share of the variation that is not sampling error, :math:`I^2 = \max(0, 1 - E[Q] / Q)`.
    tau_squared : float
        Variance between the sources (Paule and Mandel).
    mean, stderr : float
        Random-effects mean, :math:`\sum_j m_j / (v_j + \tau^2)` over the sum of the weights.
    """

    k: int
    q: float
    expected: float
    p_value: float
    i_squared: float
    tau_squared: float
    mean: float
    stderr: float

    def prediction_interval(self, level: float = 0.95) -> tuple[float, float]:
        r"""Interval for the true value of a new source.

        .. math:: \mu \pm t_{k-1} \sqrt{\tau^2 + \mathrm{se}^2}

        >>> heterogeneity([1.0, 1.0, 1.0], [0.1, 0.1, 0.1]).prediction_interval()[0] < 1
        True
        """
        half = float(stdtrit(self.k - 1, 0.5 + level / 2))
        half *= float(np.sqrt(self.tau_squared + self.stderr**2))
        return self.mean - half, self.mean + half


def heterogeneity(
    estimates: ArrayLike, variances: ArrayLike, dof: ArrayLike | None = None
) -> Heterogeneity:
    r"""Compare k estimates with known or estimated variances.

    Q is chi-square with k - 1 degrees of freedom where the variances are known. Estimated from a
    few rows they make Q too large too often; with `dof` the p value is Welch's, which is right to
    the first order in 1/dof:

    .. math:: \frac{Q / (k - 1)}{1 + 2 (k - 2) A / (k^2 - 1)} \sim F_{k - 1,\ (k^2 - 1) / (3 A)},
              \qquad A = \sum_j \frac{(1 - a_j / \sum_l a_l)^2}{\nu_j} .

    Parameters
    ----------
    estimates, variances : k numbers
        :math:`m_j` and :math:`v_j > 0`.
    dof : k numbers, optional
        Degrees of freedom :math:`\nu_j` of the variances. Default: they are known.

    Examples
    --------
    Three studies; by hand: weights 1, 1, 2, mean 2, Q = 1 + 1 + 0.

    >>> found = heterogeneity([1.0, 3.0, 2.0], [1.0, 1.0, 0.5])
    >>> found.q, found.i_squared, found.tau_squared
    (2.0, 0.0, 0.0)
    """
    m, v = np.asarray(estimates, dtype=float), np.asarray(variances, dtype=float)
    k = len(m)
    if m.ndim != 1 or m.shape != v.shape or k < 2:
        raise DataError(
            f"at least two estimates, with a variance each, can be compared; got {m.shape} "
            f"estimates and {v.shape} variances"
        )
    if not (v > 0).all():
        raise DataError("variances must be above 0; leave out estimates that have none")
    a = 1 / v
    q = _spread(m, a)
    expected, p_value = float(k - 1), float(chdtrc(k - 1, q))
    if dof is not None:
        A = float(np.sum((1 - a / a.sum()) ** 2 / np.asarray(dof, dtype=float)))
        expected = (k - 1) * (1 + 2 * (k - 2) * A / (k**2 - 1))
        p_value = float(fdtrc(k - 1, (k**2 - 1) / (3 * A), q / expected))
    tau_squared = _between(m, v, expected)
    b = 1 / (v + tau_squared)
    return Heterogeneity(
        k=k,
        q=q,
        expected=expected,
        p_value=p_value,
        i_squared=max(0.0, 1 - expected / q) if q > 0 else 0.0,
        tau_squared=tau_squared,
        mean=float(b @ m / b.sum()),
        stderr=float(1 / np.sqrt(b.sum())),
    )


def heterogeneity_of(risk: RiskEstimate) -> Heterogeneity | None:
    r"""Compare the sources' own estimates, each with its effective rows.

    The test compares the self-normalised risks :math:`m_j / \bar w_j`: weights of a source that are
    all too low or too high by a factor do not concern its labels. Where losses are small they
    also vary less, so a source whose estimate is low by chance would seem precise, and Q would be
    far too large (at 20 sources of 40 rows in a third of all cases, nominally 5 %). The
    divergences are therefore shrunk as the guard does it (`Guard.prior_rows`), and taken
    without what normalising saves. With estimated weights the p value then falls below 5 % in at
    most about 5 % of cases (benchmarks/stability.py).

    Sources with share 0 are not compared, nor are those with fewer than 4 effective rows, nor the
    target's own labelled rows. None where fewer than two are left, or no loss varies.
    """
    # An estimate that fell back is normalised already, or does not use the weights at all.
    scale = np.ones(len(risk.n)) if risk.fallback else risk.mean_weights
    rows = risk.n.astype(float) if risk.method in UNWEIGHTED else risk.ess
    enough = np.minimum(rows, risk.units) >= FEWEST_EFFECTIVE_ROWS
    compared = (risk.lam > 0) & enough & (scale > 0)
    compared[len(risk.source_names) :] = False
    if compared.sum() < 2 or not risk.divergences[compared].any():
        return None
    n, ess, mean_weights = risk.n[compared], rows[compared], scale[compared]
    square = mean_weights**2 * n / ess
    div = shrink_divergences(
        n, risk.divergences[compared], square, mean_weights, Guard().prior_rows
    )
    # Div divides by the rows; an unbiased variance by one effective row less.
    variances = div / n * ess / (ess - 1)
    dof = np.minimum(ess, risk.units[compared]) - 1
    return heterogeneity(risk.estimates[compared] / mean_weights, variances, dof)


def _spread(m: Floats, a: Floats) -> float:
    return float(np.sum(a * (m - a @ m / a.sum()) ** 2))


def _between(m: Floats, v: Floats, expected: float) -> float:
    """Variance between sources that brings Q down to its expectation (Paule and Mandel)."""

    def excess(tau_squared: float) -> float:
        return _spread(m, 1 / (v + tau_squared)) - expected

    if excess(0.0) <= 0:
        return 0.0
    high = float(np.var(m)) * len(m)
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-12 * high))
