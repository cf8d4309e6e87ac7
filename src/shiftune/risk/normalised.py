"""Estimates from weights that matter only relative to each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.ratio.guard import effective_rows
from shiftune.risk.assembly import estimated
from shiftune.risk.result import RiskEstimate
from shiftune.risk.sample import Sample
from shiftune.risk.variance import pooled_variance

Floats = NDArray[np.float64]


# Share of a source's weight that its other rows must have for a mean without one row.
SMALLEST_REST = 1e-6


def self_normalised(sample: Sample) -> RiskEstimate:
    r"""Weighted mean over the rows of all sources.

    .. math:: \hat f = \frac{\sum_i w_i L_i}{\sum_i w_i}, \qquad
              \psi_i = \frac{w_i (L_i - \hat f)}{\sum_i w_i}

    A source's share is that of its weights, and its own estimate is normalised by itself.
    """
    total = float(sample.w.sum())
    if total == 0:
        raise DataError("all weights of all sources are 0; the density ratio has failed")
    sums, ess = sample.sums(sample.w), effective_rows(sample.w, sample.starts)
    value = float(sample.w @ sample.L) / total
    estimates = _means(sample, sums)
    influence = sample.w * (sample.L - value) / total
    variance, dof = pooled_variance(influence, sample.n, ess)
    return RiskEstimate(
        value=value,
        variance=variance,
        dof=dof,
        method="self_normalised",
        names=sample.names,
        n=sample.n,
        estimates=estimates,
        divergences=_divergences(sample, sums, estimates),
        lam=sums / total / sample.n,
        mean_weights=np.ones(len(sample.n)),
        ess=ess,
        left_out=(None,) * len(sample.n),
        influence=influence,
        block_counts=sample.n.copy(),
        units=sample.n.astype(float),
        nonnegative=bool(sample.L.min() >= 0),
    )


def normalised_by_source(sample: Sample, shares: Floats) -> RiskEstimate:
    r"""Mean of the sources' self-normalised means, with the given shares, shape (k,).

    .. math:: m_j = \sum_i p_{ij} L_{ij}, \quad p_{ij} = w_{ij} / \textstyle\sum_i w_{ij}, \qquad
              \psi_{ij} = \mathrm{share}_j\, \frac{p_{ij} (L_{ij} - m_j)}{1 - p_{ij}}

    Weights that are all too low or too high by some factor, as they are where a source hardly
    overlaps, then do no harm: only their ratios within a source matter. The influence values are
    those of leaving a row out. Without the 1 - p, a source with nearly all its weight on one row
    would have an estimated variance near 0, as its mean is that row's loss.
    """
    sums = sample.sums(sample.w)
    estimates = _means(sample, sums)
    p = sample.w / sample.rows(np.where(sums > 0, sums, 1.0))
    gap = sample.L - sample.rows(estimates)
    others = 1.0 - p
    # A row with all the weight can be compared with the other sources only.
    alone = others < SMALLEST_REST
    gap[alone] = sample.L[alone] - shares @ estimates
    others[alone] = 1.0
    centred = sample.rows(sample.n) * p * gap / others
    return estimated(sample, sample.rows(shares / sample.n), estimates, centred, "self-normalised")


def _means(sample: Sample, sums: Floats) -> Floats:
    """Every source's weighted mean loss; its plain mean where it has no weight."""
    weighted = sample.sums(sample.w * sample.L) / np.where(sums > 0, sums, 1.0)
    return np.where(sums > 0, weighted, sample.means(sample.L))


def _divergences(sample: Sample, sums: Floats, estimates: Floats) -> Floats:
    """Variance of one row's contribution to its source's normalised mean, times n."""
    relative = sample.w * sample.rows(sample.n / np.where(sums > 0, sums, 1.0))
    return sample.means((relative * (sample.L - sample.rows(estimates))) ** 2)
