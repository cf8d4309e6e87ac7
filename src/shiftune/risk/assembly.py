"""From the sources' estimates and the rows' contributions to a RiskEstimate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shiftune.ratio.guard import effective_rows
from shiftune.risk.result import RiskEstimate
from shiftune.risk.sample import Sample
from shiftune.risk.variance import pooled_variance

Floats = NDArray[np.float64]


def estimated(
    sample: Sample, lam_rows: Floats, estimates: Floats, centred: Floats, method: str
) -> RiskEstimate:
    """Combine the sources' estimates, (k,), and the centred contributions of their rows, (n,).

    `lam_rows` are the weights lambda of the rows, (n,).
    """
    ess = effective_rows(sample.w, sample.starts)
    influence = lam_rows * centred
    variance, dof = pooled_variance(influence, sample.n, ess)
    lam = sample.means(lam_rows)
    return RiskEstimate(
        value=float((lam * sample.n) @ estimates),
        variance=variance,
        dof=dof,
        method=method,
        names=sample.names,
        n=sample.n,
        estimates=estimates,
        divergences=sample.means(centred**2),
        lam=lam,
        mean_weights=sample.means(sample.w),
        ess=ess,
        left_out=(None,) * len(sample.n),
        influence=influence,
        block_counts=sample.n.copy(),
        units=sample.n.astype(float),
        nonnegative=bool(sample.L.min() >= 0),
    )
