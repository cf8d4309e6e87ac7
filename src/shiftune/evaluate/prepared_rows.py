"""Rows as a pipeline's transformers return them, computed once per study."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

# Bytes that the prepared rows of a study may take in all worker processes of a machine together;
# the rows of further fits are prepared anew in every trial. 100,000 rows in 115 columns, for five
# fits, take 300 MB. A Dask cluster, whose workers may be on other machines, counts as one.
MOST_BYTES = 512 * 2**20


class PreparedRows:
    """Prepared training and validation rows of every fit of a trial, kept for the next trial.

    What the transformers of a pipeline learn depends on the training rows alone. Trials that tune
    only the last step therefore train on the same prepared rows, to the last digit.

    >>> rows = PreparedRows()
    >>> for trial in range(3):
    ...     Z, = rows.get("all sites", lambda: print("prepared") or (np.zeros((2, 1)),))
    prepared

    Parameters
    ----------
    sharers : int
        Number of objects like this one, in all processes, among which `MOST_BYTES` is divided.
    """

    def __init__(self, sharers: int = 1) -> None:
        self._sharers = sharers
        self._kept: dict[Hashable, tuple[Any, ...]] = {}
        self._bytes = 0.0

    def get(self, key: Hashable, prepare: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return what `prepare` returned for this key, copied: a model may overwrite its input."""
        if key not in self._kept:
            found = prepare()
            size = sum(map(_bytes_of, found))
            if self._bytes + size > MOST_BYTES / self._sharers:
                return found
            self._kept[key] = found
            self._bytes += size
        return deepcopy(self._kept[key])

    def of(self, transformers: Hashable) -> PreparedRows:
        """Return the rows as prepared by some of several transformers, which share the memory."""
        return _Part(self, transformers)

    def __reduce__(self) -> tuple[type[PreparedRows], tuple[int]]:
        # Every process prepares its own rows, which costs less than sending them.
        return PreparedRows, (self._sharers,)


class _Part(PreparedRows):
    """Rows of one preparation among several."""

    def __init__(self, whole: PreparedRows, transformers: Hashable) -> None:
        self._whole, self._transformers = whole, transformers

    def get(self, key: Hashable, prepare: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the rows of a key, kept with those of all preparations."""
        return self._whole.get((self._transformers, key), prepare)


def tunes_last_step(model: Any, params: Mapping[str, Any]) -> bool:
    """Whether a model is a pipeline with transformers, none of which has a parameter among these.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> model = make_pipeline(StandardScaler(), Ridge())
    >>> tunes_last_step(model, {"ridge__alpha": 1.0}), tunes_last_step(model, {"ridge": Ridge()})
    (True, False)
    """
    # Subclasses may do more than transform rows: imbalanced-learn's resample them.
    if type(model) is not Pipeline or len(model.steps) < 2:
        return False
    last = f"{model.steps[-1][0]}__"
    return all(name.startswith(last) for name in params)


def _bytes_of(rows: Any) -> float:
    if isinstance(rows, pd.DataFrame):
        return float(rows.memory_usage(deep=True).sum())
    if isinstance(rows, np.ndarray):
        return float(rows.nbytes)
    if hasattr(rows, "nnz"):  # sparse
        return 16.0 * int(rows.nnz)  # values and their places
    return math.inf  # lists, tables of other libraries: nobody knows, so they are not kept
