"""Numbers that may stand for missing values, such as 999: asked about, and taken as requested."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from pandas.api import types

from shiftune.errors import DataError, SettingsError
from shiftune.spelling import check_choice
from shiftune.wording import count, listed, number

# Sevens, eights and nines only: 99, 888, -999, ...; of single digits, those below zero.
CODES = frozenset(
    sign * int(digit * n)
    for digit in "789"
    for n in range(1, 7)
    for sign in (-1, 1)
    if n > 1 or sign < 0
)
FEWEST_ROWS = 2
# A code is farther from the other values than this share of their range.
FAR = 0.5


def question_about(values: pd.Series) -> str:
    """Ask about numbers far outside the others that look like codes; empty if there are none.

    >>> question_about(pd.Series([18, 97, 999, 45, 999], name="age"))
    '999 in 2 rows, far from the other values (18 to 97): a code for missing? --missing age=999'
    """
    given = values.dropna().to_numpy(dtype=float)
    if not len(given) or not {given.min(), given.max()} & CODES:
        return ""
    is_code = np.isin(given, list(CODES))
    others = given[~is_code]
    if not len(others):
        return ""
    low, high = others.min(), others.max()
    seen, rows = np.unique(given[is_code], return_counts=True)
    far = np.maximum(low - seen, seen - high) > FAR * (high - low)
    codes = {int(code): int(n) for code, n in zip(seen[far], rows[far], strict=True)}
    codes = {code: n for code, n in codes.items() if n >= FEWEST_ROWS}
    if not codes or high == low:
        return ""
    shown = [f"{code} in {n} rows" for code, n in codes.items()]
    options = [f"--missing {shlex.quote(f'{values.name}={code}')}" for code in codes]
    return (
        f"{listed(shown, quoted=False)}, far from the other values ({number(low)} to "
        f"{number(high)}): {'a code' if len(codes) == 1 else 'codes'} for missing? "
        f"{' '.join(options)}"
    )


def codes_by_column(entries: Collection[str], columns: Collection[str]) -> dict[str, list[str]]:
    """Read entries of the form COLUMN=VALUE.

    >>> codes_by_column(["age=999", "age=-9"], ["age"])
    {'age': ['999', '-9']}
    """
    found: dict[str, list[str]] = {}
    for entry in entries:
        name, sign, value = entry.rpartition("=")
        if not sign or not value.strip():
            raise SettingsError(f"--missing needs COLUMN=VALUE, such as age=999, got {entry!r}")
        column = check_choice(name, columns, "column", DataError)
        found.setdefault(column, []).append(value.strip())
    return found


def without_codes(
    df: pd.DataFrame, codes: Mapping[str, Collection[str]]
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table in which these values of columns are missing, with notes."""
    columns, notes = {}, []
    for name, values in codes.items():
        columns[name] = df[name]
        for value in values:
            hit = is_code(df[name], value)
            if not hit.any():
                raise DataError(f"column {name!r} has no value {value}, which --missing names")
            columns[name] = columns[name].mask(hit)
            rows = count(int(hit.sum()), "row")
            notes.append(f"column {name!r}: {value} in {rows} counts as missing, as requested")
    return df.assign(**columns), notes


def is_code(column: pd.Series, value: str) -> pd.Series:
    """Mark the rows that have a value: numbers by their size, anything else as text.

    >>> is_code(pd.Series(["999", "999.0", " 999", "99"]), "999").to_list()
    [True, True, True, False]
    """
    number_of = pd.to_numeric(value, errors="coerce")
    if types.is_numeric_dtype(column) and not types.is_bool_dtype(column):
        return (column == number_of).fillna(False).astype(bool)
    text = column.astype("string").str.strip().fillna("")
    same = text == value
    if not pd.isna(number_of):
        same |= pd.to_numeric(text, errors="coerce") == number_of
    return same.astype(bool)
