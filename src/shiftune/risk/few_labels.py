"""How far to trust a few labelled rows of the target against all sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shiftune.risk.result import RiskEstimate

    Floats = NDArray[np.float64]

# What is known of how far sites differ before a study's own sites are looked at counts as much as
# this many sites.
PRIOR_SITES = 5
# What the sources' rows show of a row's variance counts as much as this many rows of the target.
PRIOR_ROWS = 10


def sources_worth(risks: Sequence[RiskEstimate], prior: float) -> float:
    r"""Tell of how many labelled rows of the target all sources together are worth.

    .. math:: m_0 = \frac{V}{T}, \qquad
              T = \frac{k\, \hat T + 5\, V / m_{\text{prior}}}{k + 5}

    Models are compared by the differences of their risks. V is the variance of one row's loss at
    the target (with the sources' as a prior of ten rows), T that of the sites' own risks around
    their mean, both of what differs between the models and averaged over them: the mean of m rows
    errs by V / m, that of the sources, for one more site, by T.

    Parameters
    ----------
    risks : estimates of several models on the same rows, by `Adjusted`
    prior : float
        Of :math:`m_0`.
    """
    k = len(risks[0].n) - risks[0].labelled_target
    if len(risks) < 2 or k < 2:
        return prior
    n = risks[0].n
    chance = np.array([chance_of_differences(risks, j) for j in range(len(n))])
    one_row = float(np.average((chance * n)[:k], weights=n[:k]))
    if risks[0].labelled_target:
        one_row = (n[-1] * (chance * n)[-1] + PRIOR_ROWS * one_row) / (n[-1] + PRIOR_ROWS)
    if one_row == 0:
        return prior
    stretch = 1.0 if risks[0].one_more_site is None else risks[0].one_more_site.stretch
    seen = differences_between_sites(np.array([risk.estimates[:k] for risk in risks]))
    between = stretch * max(0.0, seen - float(chance[:k].mean()))
    return float(one_row / ((k * between + PRIOR_SITES * one_row / prior) / (k + PRIOR_SITES)))


def trusting_labels(risks: Sequence[RiskEstimate], prior: float) -> list[RiskEstimate]:
    """Give the target's own rows the share that their number and noise earn them.

    Estimates without labelled rows of the target are returned as they are.

    Parameters
    ----------
    risks : the estimates of all trials of a study
    prior : float
        Worth of the sources with which they were made.
    """
    if not risks or not all(risk.labelled_target for risk in risks):
        return list(risks)
    m = int(risks[0].n[-1])
    share = m / (m + sources_worth(risks, prior))
    return [_with_share(risk, share) for risk in risks]


def shared_alike(risk: RiskEstimate, like: RiskEstimate) -> RiskEstimate:
    """Give the target's own rows, if there are any, the share they have in another estimate."""
    if not (risk.labelled_target and like.labelled_target):
        return risk
    return _with_share(risk, float(like.lam[-1] * like.n[-1]))


def contributions(risks: Sequence[RiskEstimate], j: int) -> Floats:
    """How blocks of source j's rows move its own estimate, for every model, shape (T, b)."""
    starts = np.cumsum(risks[0].cells) - risks[0].cells
    rows = slice(starts[j], starts[j] + risks[0].cells[j])
    return np.array([risk.one_more_site.own[rows] for risk in risks if risk.one_more_site])


def chance_of_differences(risks: Sequence[RiskEstimate], j: int) -> float:
    """Variance of source j's estimate by its rows, of what differs between the models."""
    moved = contributions(risks, j)
    return float(np.mean(np.sum((moved - moved.mean(axis=0)) ** 2, axis=1)))


def differences_between_sites(estimates: Floats) -> float:
    """Variance between sites of what differs between models; estimates have shape (T, k)."""
    apart = estimates - estimates.mean(axis=1, keepdims=True)
    apart = apart - apart.mean(axis=0)
    k = estimates.shape[1]
    return float(np.mean(apart**2) * k / (k - 1))


def _with_share(risk: RiskEstimate, share: float) -> RiskEstimate:
    before = float(risk.lam[-1] * risk.n[-1])
    change = np.full(len(risk.n), (1 - share) / (1 - before))
    change[-1] = share / before
    return risk.with_shares(change)
