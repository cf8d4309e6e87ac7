"""Columns of a data frame as arrays: numbers and days as floats, categories as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.problem.columns import ColumnKind, column_kinds, days_in, kind_of, plain_numbers
from shiftune.problem.site import Features
from shiftune.rows.levels import MISSING
from shiftune.tables.schema import as_text


def kinds_of(tables: Sequence[Features]) -> dict[Any, ColumnKind]:
    """Return the kind of every column, from all tables together; empty for arrays."""
    frames = {f"table {t}": X for t, X in enumerate(tables) if isinstance(X, pd.DataFrame)}
    return column_kinds(frames) if frames else {}


def number_columns(X: Features, kinds: Mapping[Any, ColumnKind]) -> NDArray[np.float64]:
    """Return the columns of numbers and dates (as days), shape (n, p), in the order of `kinds`."""
    if not isinstance(X, pd.DataFrame):
        return X
    names = [name for name, kind in kinds.items() if kind != "category"]
    found, plain = np.empty((len(X), len(names))), plain_numbers(X)
    at_once = [c for c, name in enumerate(names) if name in plain and kinds[name] == "number"]
    found[:, at_once] = X.reindex(columns=[names[c] for c in at_once]).to_numpy(dtype=float)
    for c in sorted(set(range(len(names))) - set(at_once)):
        column = X[names[c]]
        if kinds[names[c]] == "date":
            found[:, c] = days_in(column)
        elif column.notna().any() and kind_of(column) != "number":
            raise DataError(
                f"column {names[c]!r} had numbers in the rows of fit and has other values here"
            )
        else:
            found[:, c] = column.to_numpy(dtype=float, na_value=np.nan)
    return found


def level_columns(X: Features, kinds: Mapping[Any, ColumnKind]) -> NDArray[np.object_]:
    """Return the category columns as text, shape (n, q), in the order of `kinds`."""
    names = [name for name, kind in kinds.items() if kind == "category"]
    found = np.empty((len(X), len(names)), dtype=object)
    if isinstance(X, pd.DataFrame):
        for c, name in enumerate(names):
            found[:, c] = as_text(X[name]).fillna(MISSING)
    return found


def raw_numbers(X: Features, site: str) -> NDArray[np.float64]:
    """Return the columns unscaled, if all hold numbers or dates and none has gaps."""
    kinds = kinds_of([X])
    for name, kind in kinds.items():
        if kind == "category":
            raise DataError(
                f"{site}: column {name!r} holds categories, which have no raw numbers; "
                "use scale=True"
            )
    numbers = number_columns(X, kinds)
    missing = np.isnan(numbers).sum(axis=0)
    if missing.any():
        column = int(np.argmax(missing > 0))
        where = X.columns[column] if isinstance(X, pd.DataFrame) else column
        raise DataError(
            f"{site}: column {where!r} has {missing[column]} missing value(s), which unscaled "
            "features cannot have; use scale=True, which encodes them"
        )
    return numbers
