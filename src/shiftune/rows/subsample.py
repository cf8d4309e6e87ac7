"""Random subsets of rows, for figures that need no more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shiftune.problem.site import Features, rows_of


def subsample(X: Features, most: int, random_state: int = 0) -> Features:
    """Return at most `most` rows, drawn without replacement and kept in their order.

    >>> subsample(np.arange(10.0)[:, None], 3).ravel().tolist() == sorted(
    ...     subsample(np.arange(10.0)[:, None], 3).ravel().tolist())
    True
    """
    if len(X) <= most:
        return X
    rows: Features = rows_of(X, drawn_rows(len(X), most, random_state))
    return rows


def drawn_rows(n: int, most: int, random_state: int = 0) -> NDArray[np.intp]:
    """Return the numbers of at most `most` of n rows, drawn at random, in their order."""
    if n <= most:
        return np.arange(n)
    rng = np.random.default_rng(random_state)
    return np.sort(rng.choice(n, most, replace=False))
