"""Labels of a site: checked, and read as classes or as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune.errors import DataError
from shiftune.names import Task

# Whole-number labels with more distinct values than this are read as counts or scores.
MOST_CLASSES = 20


def as_labels(y: Any, site: str, label: str = "y") -> NDArray[Any]:
    """Return labels as an array of shape (n,) in which nothing is missing or infinite.

    >>> as_labels(pd.Series(["no", "yes"], dtype="category"), "B")
    array(['no', 'yes'], dtype=object)
    """
    values = _plain(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.dtype.names is not None:
        raise DataError(
            f"site {site!r}: the label {label!r} is a record of {', '.join(values.dtype.names)}; "
            "survival times with censoring are not supported; use one number or class per row, "
            "such as whether the event came within a year"
        )
    if values.ndim == 2:
        raise DataError(
            f"site {site!r}: {values.shape[1]} columns of labels {label!r}; several labels at once "
            "are not supported: make a search for each"
        )
    if values.ndim != 1:
        raise DataError(
            f"site {site!r}: the labels {label!r} must have shape (n,), got {values.shape}"
        )
    missing = int(is_missing(values).sum())
    if missing:
        raise DataError(
            f"site {site!r}: the label {label!r} is missing in {missing} of {len(values)} rows; "
            "leave those rows out"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(
            f"site {site!r}: the label {label!r} has infinite values; correct them, or leave "
            "those rows out"
        )
    if values.dtype.kind not in "biufO":
        raise DataError(
            f"site {site!r}: the label {label!r} holds values of type {values.dtype}; "
            "labels are numbers, text or booleans"
        )
    if values.dtype.kind == "O" and len(values) and types.infer_dtype(values) != "string":
        kinds = sorted({type(value).__name__ for value in values})
        if len(kinds) == 1:
            raise DataError(
                f"site {site!r}: the label {label!r} holds values of type {kinds[0]}; labels are "
                "numbers, text or booleans"
            )
        raise DataError(
            f"site {site!r}: the label {label!r} mixes {' and '.join(kinds)}; "
            "convert it to one type, for example with y.astype(str)"
        )
    if values.dtype.kind == "O" and any("\0" in value for value in set(values)):
        raise DataError(
            f"site {site!r}: the label {label!r} has values with a NUL character; replace them"
        )
    return values


def is_missing(y: Any) -> NDArray[np.bool_]:
    """Mark the labels that are missing (None, NaN, NaT, pandas NA), shape (n,).

    >>> is_missing(["a", None]).tolist()
    [False, True]
    """
    return np.asarray(pd.isna(_plain(y)), dtype=bool)


def distinct_labels(labels: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Return the labels that occur at any site, sorted.

    >>> distinct_labels([np.array([1, 0, 1]), np.array([2, 2])])
    array([0, 1, 2])
    """
    return np.unique(np.concatenate([pd.unique(y) for y in labels]))  # texts are slow to sort


def task_of(labels: Iterable[NDArray[Any]]) -> Task:
    """Decide between classification and regression by the labels of all sites.

    Text and booleans are classes; so are whole numbers with at most 20 distinct values.

    >>> task_of([np.array([0, 1, 1])]), task_of([np.array([0.5, 1.2])])
    ('classification', 'regression')
    """
    values = np.concatenate([np.asarray(y) for y in labels])
    if values.dtype.kind not in "iuf":
        return "classification"
    whole = bool(np.all(values == np.round(values)))
    return "classification" if whole and len(np.unique(values)) <= MOST_CLASSES else "regression"


def _plain(y: Any) -> NDArray[Any]:
    """Reduce the many forms of text and optional numbers in pandas and NumPy to a few."""
    values = np.asarray(y.to_numpy() if isinstance(y, pd.Series | pd.DataFrame) else y)
    if values.dtype.kind in "US":
        return values.astype(object)
    if values.dtype.kind == "O":
        return np.asarray(pd.Series(values.ravel()).infer_objects()).reshape(values.shape)
    return values
