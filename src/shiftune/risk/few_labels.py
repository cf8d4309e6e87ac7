"""Share of a few labelled target rows in the estimate, against that of all sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from shiftune.risk.result import RiskEstimate

Floats = NDArray[np.float64]

# The prior of how far sites differ counts as much as this many sites.
PRIOR_SITES = 5
# The variance of the sources' rows counts as much as this many rows of the target.
PRIOR_ROWS = 10


def source_pseudo_rows(risks: Sequence[RiskEstimate], prior: float) -> float:
    r"""Number of labelled target rows that carry as much information as all sources.

    .. math:: m_0 = \frac{V}{T}, \qquad
              T = \frac{k\, \hat T + \hat T_0 + 5\, V / m_{\text{prior}}}{k + 1 + 5}

    Models are compared by the differences of their risks. V is the variance of one row's loss at
    the target (with the sources' as a prior of ten rows), T that of the sites' own risks around
    their mean, both of what differs between the models: the mean of m rows has the variance V / m,
    that of the sources, for a new site, T. Labelled rows of the target show its own distance from
    the sources' estimate; the square of it, less the sampling error of the rows of both and never
    below 0, is :math:`\hat T_0`, and the target counts as one of the sites. Without labels that
    term and the 1 in the denominator are dropped.

    All are averaged over the better half of the models, in the order of the prior: differences
    among the worse half do not matter for the choice.

    Parameters
    ----------
    risks : estimates of several models on the same rows, by `RegressionAdjusted`
    prior : float
        Prior value of :math:`m_0`.
    """
    n, own_rows = risks[0].n, risks[0].labelled_target
    k = len(n) - own_rows
    if len(risks) < 2 or k < 2:
        return prior
    risks = _better_half(risks, prior)
    chance = np.array([chance_of_differences(risks, j) for j in range(len(n))])
    one_row = float(np.average((chance * n)[:k], weights=n[:k]))
    if own_rows:
        one_row = (n[-1] * (chance * n)[-1] + PRIOR_ROWS * one_row) / (n[-1] + PRIOR_ROWS)
    if one_row == 0:
        return prior
    stretch = 1.0 if risks[0].new_site is None else risks[0].new_site.stretch
    seen = differences_between_sites(np.array([risk.estimates[:k] for risk in risks]))
    between = k * stretch * max(0.0, seen - float(chance[:k].mean()))
    sites = k + PRIOR_SITES
    if own_rows:
        away = np.array([risk.estimates[-1] - _from_sources(risk) for risk in risks])
        of_sources = float(_shares_of_sources(risks[0]) ** 2 @ chance[:k])
        between += max(0.0, float(away.var()) - one_row / n[-1] - of_sources)
        sites += 1
    return float(one_row * sites / (between + PRIOR_SITES * one_row / prior))


def trusting_labels(risks: Sequence[RiskEstimate], prior: float) -> list[RiskEstimate]:
    """Give the target's own rows a share that depends on their number and noise.

    `risks` are those of all trials of a study, computed with the value `prior` of :math:`m_0`.
    Estimates without labelled rows of the target are returned as they are.
    """
    if not risks or not all(risk.labelled_target for risk in risks):
        return list(risks)
    m = int(risks[0].n[-1])
    share = m / (m + source_pseudo_rows(risks, prior))
    return [with_share(risk, share) for risk in risks]


def shared_alike(risk: RiskEstimate, like: RiskEstimate) -> RiskEstimate:
    """Give the target's own rows, if there are any, the share they have in another estimate."""
    if not (risk.labelled_target and like.labelled_target):
        return risk
    return with_share(risk, float(like.lam[-1] * like.n[-1]))


def combined(risk: RiskEstimate, of_sources: RiskEstimate) -> RiskEstimate:
    """Give the target's labelled rows a share by the variances of their mean and of the sources.

    Where the two are farther apart than chance explains, the target differs from the sources by
    more than these do from each other: the excess of the squared distance is a part of the
    variance of the sources' estimate, which other shares scale and differences of models pair.
    """
    m, one_row = int(risk.n[-1]), float(risk.divergences[-1])
    apart = float(risk.estimates[-1]) - of_sources.value
    excess = max(0.0, apart**2 - one_row / m - of_sources.variance)
    site = risk.new_site
    if site is not None:
        distance = float(site.leverage.sum()) * np.copysign(np.sqrt(excess), apart)
        site = replace(site, extrapolation=np.append(site.extrapolation, distance))
    units = float(risk.units[-1])  # ten labels of three patients show no more than three
    share = share_of_labels(units, one_row * units / m, of_sources.variance + excess)
    return with_share(replace(risk, new_site=site), share)


def share_of_labels(m: float, one_row: float, of_sources: float) -> float:
    """Share of m labelled rows by variances: of one row, and of the sources' estimate.

    At most m / (m + 10), since few rows do not show their own variance.
    """
    total = of_sources + one_row / m
    most = m / (m + PRIOR_ROWS)
    return min(of_sources / total, most) if total > 0 else most


def contributions(risks: Sequence[RiskEstimate], j: int) -> Floats:
    """Effects of blocks of source j's rows on its own estimate, for every model, shape (T, b)."""
    starts = np.cumsum(risks[0].block_counts) - risks[0].block_counts
    rows = slice(starts[j], starts[j] + risks[0].block_counts[j])
    return np.array([risk.new_site.row_effects[rows] for risk in risks if risk.new_site])


def chance_of_differences(risks: Sequence[RiskEstimate], j: int) -> float:
    """Sampling variance of source j's estimates, of what differs between the models."""
    moved = contributions(risks, j)
    return float(np.mean(np.sum((moved - moved.mean(axis=0)) ** 2, axis=1)))


def differences_between_sites(estimates: Floats) -> float:
    """Variance between sites of what differs between models; estimates have shape (T, k)."""
    apart = estimates - estimates.mean(axis=1, keepdims=True)
    apart = apart - apart.mean(axis=0)
    k = estimates.shape[1]
    return float(np.mean(apart**2) * k / (k - 1))


def _better_half(risks: Sequence[RiskEstimate], prior: float) -> list[RiskEstimate]:
    """Return the better half of the models, at least two, whatever share the labels have now."""
    values = np.array([_from_sources(risk) for risk in risks])
    if risks[0].labelled_target:
        own = np.array([risk.estimates[-1] for risk in risks])
        values = values + (own - values) * risks[0].n[-1] / (risks[0].n[-1] + prior)
    kept = max(2, (len(risks) + 1) // 2)
    return [risks[i] for i in np.argsort(values, kind="stable")[:kept]]


def _from_sources(risk: RiskEstimate) -> float:
    """Estimate from the sources alone."""
    shares = _shares_of_sources(risk)
    return float(shares @ risk.estimates[: len(shares)])


def _shares_of_sources(risk: RiskEstimate) -> Floats:
    """Shares of the sources among themselves, shape (k,)."""
    k = len(risk.n) - risk.labelled_target
    shares = (risk.lam * risk.n)[:k]
    return np.asarray(shares / shares.sum())


def with_share(risk: RiskEstimate, share: float) -> RiskEstimate:
    """Give the target's own rows this share of the estimate."""
    before = float(risk.lam[-1] * risk.n[-1])
    change = np.full(len(risk.n), (1 - share) / (1 - before))
    change[-1] = share / before
    return risk.with_shares(change)
