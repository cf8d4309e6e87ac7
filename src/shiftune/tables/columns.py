"""Which columns of a file a model should see."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.tables.identifiers import may_name_cases, names_rows
from shiftune.tables.missing_codes import question_about
from shiftune.tables.typed_columns import MANY_CATEGORIES, ReadColumn, typed

# An identifier of cases has many values, and not many rows of each.
MOST_ROWS_OF_A_CASE = 20


def read_column(
    column: pd.Series,
    inside: NDArray[np.bool_],
    *,
    keep: bool = False,
    date_format: str | None = None,
    sites: pd.Series | None = None,
) -> ReadColumn:
    """Decide what a column of the whole table holds, and whether a model should see it.

    Parameters
    ----------
    column : Series of n values
    inside : bool array of shape (n,)
        Which rows are the target's.
    keep : bool
        Use it in any case.
    date_format : str, optional
        Format of `pandas.to_datetime` to try first.
    sites : Series of n names, optional
        Sites may write numbers and dates in different ways.

    Examples
    --------
    >>> text = pd.Series(["12", "15", "unknown"] * 3 + ["9"] * 30)
    >>> found = read_column(text, np.arange(39) < 9)
    >>> found.kind, found.remark
    ('number', "3 values are not numbers ('unknown') and count as missing")
    """
    target = "" if sites is None else str(sites[inside].iloc[0])
    found = _with_question(typed(column, date_format, sites, target))
    if keep:
        return found
    if why := _useless(found, inside):
        return found.left_out(why)
    if names_rows(found.series, found.kind, found.distinct):
        return found.left_out(
            "a different value in almost every row, like an identifier", identifier=True
        )
    return _of_cases(found) if may_name_cases(found.series, found.kind, found.distinct) else found


def _with_question(column: ReadColumn) -> ReadColumn:
    question = question_about(column.series) if column.kind == "number" else ""
    remarks = filter(None, (column.remark, question))
    return replace(column, remark="; ".join(remarks)) if question else column


def _useless(column: ReadColumn, inside: NDArray[np.bool_]) -> str:
    present = column.series.notna().to_numpy()
    if not present.any():
        return "empty"
    if column.distinct == 1 and present.all():
        return f"the same value in every row ({_short(column.series.iloc[0])})"
    if not present[inside].any():
        return "empty at the target, so no model can use it there"
    if not present[~inside].any():
        return "empty at every source, so no model can learn from it"
    return ""


def _of_cases(column: ReadColumn) -> ReadColumn:
    """Leave out an identifier that repeats; only point it out where it may be a code."""
    remark = f"named like an identifier, {column.distinct} values in {column.present} rows; "
    name = shlex.quote(str(column.series.name))
    rows_of_a_case = column.present / column.distinct
    if column.distinct > MANY_CATEGORIES and rows_of_a_case <= MOST_ROWS_OF_A_CASE:
        return column.left_out(f"{remark}to use it: --keep {name}", identifier=True)
    remark += f"if it is one: --id {name}"
    return replace(column, remark=f"{column.remark}; {remark}" if column.remark else remark)


def _short(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 30 else text[:29] + "…"
