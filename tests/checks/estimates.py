"""Estimates that the tests of single checks share."""

from __future__ import annotations

import numpy as np

from shiftune.risk import RegressionAdjusted, estimate

NAMES = ["B", "C", "D"]


def estimated(rng, scales=(1.0, 1.0, 1.0), weights=None, n=300, method="variance_reduced"):
    """An estimate from exponential losses of these scales."""
    losses = [rng.exponential(scale, n) for scale in scales]
    return estimate(losses, weights or [np.ones(n)] * 3, method, names=NAMES)


def adjusted(rng, scales, own=()):
    """The same by regression adjustment, with labelled rows of the target where `own` has some."""
    rows = [rng.normal(size=(300, 1)) for _ in range(1 + len(scales))]
    losses = [rng.exponential(scale, 300) for scale in scales]
    more = [np.array(own)] if len(own) else []
    estimator = RegressionAdjusted().fit(rows[0], rows[1:])
    return estimator.estimate(
        [*losses, *more], names=[*NAMES[: len(scales)], *(["A"] if more else [])]
    )
