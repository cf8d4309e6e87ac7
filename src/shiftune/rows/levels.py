"""Levels of category columns: missing is a level, rare levels share one."""

from __future__ import annotations

from sklearn.preprocessing import OneHotEncoder

MISSING = "(missing)"
# All other levels of a column share one. Each level costs a column, and nothing can be learned in
# a direction that only a handful of rows take.
MOST_LEVELS = 20


def one_hot() -> OneHotEncoder:
    """Return an encoder to 0/1 columns: the 20 most frequent levels, and one for all others.

    >>> import numpy as np
    >>> letters = np.array([*"abcdefghijklmnopqrstuvwxyz", *"xyz"])[:, None]
    >>> one_hot().fit_transform(letters).sum(axis=0).max()  # the rare ones share a column
    np.float64(6.0)
    """
    return OneHotEncoder(
        max_categories=MOST_LEVELS + 1,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    )
