"""Agreement of the sources: the estimate read as a meta-analysis of k studies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtrc

from shiftune._wording import check_choice
from shiftune.errors import DataError
from shiftune.ratio._overlap import Guard
from shiftune.risk._estimate import shrink_divergences
from shiftune.risk._result import RiskEstimate

Floats = NDArray[np.float64]

# Student's t with one or two degrees of freedom has no variance: with fewer rows than this the
# error of a source's own estimate is unknown.
_FEWEST_EFFECTIVE_ROWS = 4.0
# Estimators in which all rows of a source count alike for that source.
_UNWEIGHTED = ("naive", "adjusted")


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
    p_value : float
        Of the hypothesis that all estimate the same value.
    i_squared : float
        Share of the variation that is not sampling error, :math:`I^2 = \max(0, 1 - E[Q] / Q)`,
        where E[Q] is k - 1, and more where variances are estimated from few rows.
    """

    k: int
    q: float
    p_value: float
    i_squared: float


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
    >>> found.q, found.i_squared
    (2.0, 0.0)
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
    q = float(np.sum(a * (m - a @ m / a.sum()) ** 2))
    expected, p_value = float(k - 1), float(chdtrc(k - 1, q))
    if dof is not None:
        A = float(np.sum((1 - a / a.sum()) ** 2 / np.asarray(dof, dtype=float)))
        expected = (k - 1) * (1 + 2 * (k - 2) * A / (k**2 - 1))
        p_value = float(fdtrc(k - 1, (k**2 - 1) / (3 * A), q / expected))
    return Heterogeneity(
        k=k,
        q=q,
        p_value=p_value,
        i_squared=max(0.0, 1 - expected / q) if q > 0 else 0.0,
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
    rows = risk.n.astype(float) if risk.method in _UNWEIGHTED else risk.ess
    enough = np.minimum(rows, risk.units) >= _FEWEST_EFFECTIVE_ROWS
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


# A share so close to 1 leaves nothing to estimate from.
ALL = 1 - 1e-9


def without_source(risk: RiskEstimate, name: str) -> RiskEstimate:
    r"""Return the estimate as it would be without one source.

    .. math:: \hat f_{-j} = \frac{\hat f - s_j m_j}{1 - s_j}, \qquad s_j = \lambda_j n_j :

    the other sources keep their weights relative to each other (and labelled rows of the target,
    where there are some, their share). For "naive", "unbiased" and the published
    "variance_reduced" that is the estimate computed anew. The model is the same: it has still been
    trained on the source.

    Parameters
    ----------
    risk : RiskEstimate
    name : str
        A source whose share is below 1.

    Examples
    --------
    >>> from shiftune.risk import estimate
    >>> risk = estimate([[1.0, 2.0], [3.0, 5.0], [7.0, 9.0]], method="naive", names=list("BCD"))
    >>> round(without_source(risk, "D").value, 6)  # the mean of 1, 2, 3, 5
    2.75
    """
    j = risk.names.index(check_choice(name, risk.names, "source"))
    share = float(risk.lam[j] * risk.n[j])
    if share >= ALL:
        raise DataError(f"the estimate rests on {name!r} alone; without it there is none")
    of_target = risk.lam[-1] * risk.n[-1] * (risk.labelled_target and name != risk.names[-1])
    rest = 1 - share - of_target
    if rest <= 1 - ALL:  # nothing but the target's own rows is left
        of_target, rest = 0.0, 1 - share
    scale = np.full(len(risk.n), (1 - of_target) / rest)
    if of_target:
        scale[-1] = 1.0
    scale[j] = 0.0
    return risk.with_shares(scale)


def values_without(risk: RiskEstimate, estimates: Floats) -> NDArray[np.float64]:
    """Values of `without_source` for every site, shape (k,); NaN where an estimate rests on one.

    `estimates` are those of the sources, or their means, for the criterion.
    """
    share = risk.lam * risk.n
    parts = share * estimates
    of_target = np.zeros(len(share))
    if risk.labelled_target:
        of_target[:-1] = share[-1]
        of_target[1 - share - of_target <= 1 - ALL] = 0.0
    # The target's own rows keep their share, all others but one are scaled up.
    kept = np.where(of_target > 0, parts[-1], 0.0)
    others = parts.sum() - parts - kept
    with np.errstate(divide="ignore", invalid="ignore"):
        values = (1 - of_target) * others / (1 - share - of_target) + kept
    return np.where(share >= ALL, np.nan, values)
