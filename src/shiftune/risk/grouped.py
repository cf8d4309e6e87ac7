"""Variance of an estimate whose rows belong to groups, such as visits of a patient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.ratio.guard import effective_rows
from shiftune.risk.result import RiskEstimate
from shiftune.risk.variance import squares_by_source, variance_between

Floats = NDArray[np.float64]


def by_group(risk: RiskEstimate, groups: Sequence[NDArray[np.intp]]) -> RiskEstimate:
    r"""Return the same estimate, with a variance in which groups are independent, not rows.

    .. math:: V_j = c_j \sum_g \Big(\sum_{i \in g} \psi_{ij}\Big)^2, \qquad
              c_j = \frac{G_j}{G_j - 1} \cdot \frac{n_j - 1}{n_j},

    the cluster-robust variance: influence values are added up within a group before they are
    squared. The divergences, hence each source's own sampling variance and the variance between
    sites, follow from the same sums. Groups of one row change nothing. The degrees of freedom are
    those of :math:`(\sum_g m_g)^2 / \sum_g m_g^2` groups, for groups of :math:`m_g` rows.

    A group of a source with a single one shows no sampling error: its divergence is the mean of
    the others'.

    Parameters
    ----------
    risk : RiskEstimate
        Not condensed.
    groups : k arrays of shape (n_j,)
        Codes of the groups.

    Examples
    --------
    Every loss is there twice, so half of the rows carry all information:

    >>> from shiftune.risk import estimate
    >>> losses = np.random.default_rng(0).exponential(size=50)
    >>> once = estimate([losses], method="naive")
    >>> twice = by_group(estimate([np.repeat(losses, 2)], method="naive"), [np.arange(100) // 2])
    >>> bool(abs(twice.stderr / once.stderr - 1) < 0.01), float(twice.units[0])
    (True, 50.0)
    """
    if not np.array_equal([len(own) for own in groups], risk.block_counts):
        raise DataError(
            f"there are groups of {[len(own) for own in groups]} rows, but influence values of "
            f"{risk.block_counts.tolist()}"
        )
    codes = [np.unique(own, return_inverse=True)[1] for own in groups]
    G = np.array([own.max() + 1 for own in codes], dtype=np.intp)
    place = np.concatenate(codes) + np.repeat(np.cumsum(G) - G, risk.n)
    c = np.where(G > 1, G * (risk.n - 1) / np.maximum((G - 1) * risk.n, 1), 1.0)

    def summed(rows: Floats) -> Floats:
        return np.asarray(np.bincount(place, rows, int(G.sum())) * np.repeat(np.sqrt(c), G))

    own = _own_effects(risk)
    of_rows, of_groups = squares_by_source(own, risk.n), squares_by_source(summed(own), G)
    divergences = _divergences(risk, of_rows, of_groups, G)
    found = replace(
        risk,
        divergences=divergences,
        influence=summed(risk.influence),
        block_counts=G,
        units=effective_rows(np.bincount(place).astype(float), np.cumsum(G) - G),
    )
    site, k = risk.new_site, len(risk.n) - risk.labelled_target
    if site is not None:
        counts = site.leverage != 0
        before, after = (float(risk.n[:k] ** 2 @ each[:k]) for each in (of_rows, of_groups))
        design = after / before if before > 0 and after > 0 else 1.0
        between = variance_between(
            risk.estimates[:k][counts],
            divergences[:k][counts],
            risk.n[:k][counts],
            site.stretch,
            groups=G[:k][counts],
            design=design,
        )
        site = replace(site, between=between, row_effects=summed(own), design=design)
    return found.with_variance(site)


def _own_effects(risk: RiskEstimate) -> Floats:
    """Effects of the rows on their own source's estimate, up to a factor, shape (n,)."""
    if risk.new_site is not None:
        return risk.new_site.row_effects
    starts = np.cumsum(risk.n) - risk.n
    means = np.add.reduceat(risk.influence, starts) / risk.n
    return np.asarray(risk.influence - np.repeat(means, risk.n))


def _divergences(
    risk: RiskEstimate, of_rows: Floats, of_groups: Floats, G: NDArray[np.intp]
) -> Floats:
    """Return the divergences times the sources' design effects, shape (k,)."""
    design = np.divide(of_groups, of_rows, out=np.ones(len(G)), where=of_rows > 0)
    found = risk.divergences * design
    unknown = (G == 1) & (risk.n > 1)
    if unknown.any() and not unknown.all():
        found[unknown] = np.average(found[~unknown], weights=risk.n[~unknown])
    return np.asarray(np.where(unknown.all(), risk.divergences, found))
