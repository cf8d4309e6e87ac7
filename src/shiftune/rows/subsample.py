"""Random subsets of rows, for figures that need no more."""

from __future__ import annotations

import numpy as np

from shiftune.problem.site import Features, rows_of


def subsample(X: Features, most: int, random_state: int = 0) -> Features:
    """Return at most `most` rows, drawn without replacement and kept in their order.

    >>> subsample(np.arange(10.0)[:, None], 3).ravel().tolist() == sorted(
    ...     subsample(np.arange(10.0)[:, None], 3).ravel().tolist())
    True
    """
    if len(X) <= most:
        return X
    rng = np.random.default_rng(random_state)
    rows: Features = rows_of(X, np.sort(rng.choice(len(X), most, replace=False)))
    return rows
