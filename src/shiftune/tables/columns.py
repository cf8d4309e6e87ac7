"""Kinds of the columns of a file: numbers, categories, dates, or nothing of use to a model."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune.errors import DataError
from shiftune.problem.columns import ColumnKind, kind_of
from shiftune.tables.codes import first_code
from shiftune.tables.dates import DateFormats, find_format, format_in_words, parse_dates
from shiftune.tables.identifiers import ROW_SHARE, may_name_cases, names_rows
from shiftune.tables.numbers import MISSING_CODES, MISSING_TEXTS, PLAIN, NumberFormats
from shiftune.wording import listed

# A text column is read as numbers or dates if at most this share of its values is neither.
MOST_STRANGE = 0.1
# ... and at most this many different texts stand among its numbers ("unknown", ">90"). Codes such
# as 250, V45, E909 have more, and are categories.
MOST_STRANGE_TEXTS = 5
MANY_CATEGORIES = 50
# An identifier of cases has many values, and not many rows of each.
MOST_ROWS_OF_A_CASE = 20


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column with its kind.

    Attributes
    ----------
    series : Series
    kind : {"number", "category", "date"}
    used : bool
        Whether it is a feature.
    identifier : bool
        Whether it only identifies cases.
    remark : str
        What was noticed or done; empty if nothing.
    date_format : str
        Format of dates written as text; empty otherwise.
    number_format : str
        What is unusual about numbers written as text (`NumberFormat.words`).
    missing_texts : tuple of str
        Texts among numbers or dates that count as missing.
    """

    series: pd.Series
    kind: ColumnKind
    distinct: int
    """Number of different values, missing ones not counted."""
    used: bool = True
    identifier: bool = False
    remark: str = ""
    date_format: str = ""
    number_format: str = ""
    missing_texts: tuple[str, ...] = ()

    @property
    def missing(self) -> float:
        """Share of the rows without a value."""
        return float(self.series.isna().mean())

    @property
    def present(self) -> int:
        """Number of rows with a value."""
        return int(self.series.count())

    @property
    def repeats(self) -> bool:
        """Whether many rows share their value with another row."""
        return self.distinct <= ROW_SHARE * self.present

    def left_out(self, why: str, *, identifier: bool = False) -> ReadColumn:
        """Return the same column, not used."""
        return replace(self, used=False, identifier=identifier, remark=f"left out: {why}")


def read_column(
    column: pd.Series,
    inside: NDArray[np.bool_],
    *,
    keep: bool = False,
    date_format: str | None = None,
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

    Examples
    --------
    >>> text = pd.Series(["12", "15", "unknown"] * 3 + ["9"] * 30)
    >>> found = read_column(text, np.arange(39) < 9)
    >>> found.kind, found.remark
    ('number', "3 values are not numbers ('unknown') and count as missing")
    """
    found = typed(column, date_format)
    if keep:
        return found
    if why := _useless(found, inside):
        return found.left_out(why)
    if names_rows(found.series, found.kind, found.distinct):
        return found.left_out(
            "a different value in almost every row, like an identifier", identifier=True
        )
    return _of_cases(found) if may_name_cases(found.series, found.kind, found.distinct) else found


def typed(column: pd.Series, date_format: str | None = None) -> ReadColumn:
    """Return a column with its kind; text that is nearly all numbers or dates is converted.

    Parameters
    ----------
    column : Series
    date_format : str, optional
        Format of `pandas.to_datetime` to try first.
    """
    try:
        distinct = int(column.nunique())
    except TypeError as error:
        raise DataError(
            f"column {column.name!r} holds lists or other nested values; features are numbers, "
            "text, booleans or dates: leave it out"
        ) from error
    given = column.dropna()
    if types.is_object_dtype(column) and len(given):
        column = _of_one_type(column, given)
    found = ReadColumn(column, kind_of(column), distinct)
    is_text = types.is_object_dtype(column) or types.is_string_dtype(column)
    if not is_text or given.empty or types.infer_dtype(column.dropna()) != "string":
        return found
    text = column.dropna().astype(object).str.strip()
    missing = text.isin(MISSING_TEXTS | MISSING_CODES)
    given, codes = text[~missing], text[missing]
    if given.empty:
        return found
    return _as_dates(found, given, codes, date_format) or _as_numbers(found, given, codes)


def _of_one_type(column: pd.Series, given: pd.Series) -> pd.Series:
    """Return cells of a spreadsheet or of JSON as dates, or as text if any of them is text."""
    kind = types.infer_dtype(given)
    if kind in ("date", "datetime", "datetime64"):
        return pd.to_datetime(column, utc=True).dt.tz_localize(None)
    if any(isinstance(value, str) for value in given):
        return column.where(column.isna(), column.map(str))
    return column


def _as_dates(
    text: ReadColumn, given: pd.Series, codes: pd.Series, preferred: str | None
) -> ReadColumn | None:
    expected = find_format(given, MOST_STRANGE, preferred)
    if expected is None:
        return None
    formats = DateFormats(expected)
    formats.add(given)
    if formats.strange.total > MOST_STRANGE * len(given):
        return None
    dates = formats.read(given).reindex(text.series.index)
    others = [format_in_words(each) for each in formats.others]
    also = f", also {listed(others, quoted=False)}" if others else ""
    remarks = [f"dates ({format_in_words(expected)}{also}{_also_possible(given, expected)})"]
    strange = given[dates[given.index].isna()]
    remarks += [_about_codes(codes), _count_as_missing(strange, "date")]
    return ReadColumn(
        dates,
        "date",
        int(dates.nunique()),
        remark="; ".join(filter(None, remarks)),
        date_format=expected,
        missing_texts=tuple(strange.unique()),
    )


def _also_possible(given: pd.Series, expected: str) -> str:
    """Point out that day and month may be the other way round."""
    swapped = {"%m": "%d", "%d": "%m"}
    other = "".join(swapped.get(part, part) for part in re.split("(%[dm])", expected))
    if "/" not in expected or parse_dates(given, other).isna().any():
        return ""
    return f"; {format_in_words(other)} would fit as well: --date-format {shlex.quote(other)}"


def _as_numbers(text: ReadColumn, given: pd.Series, codes: pd.Series) -> ReadColumn:
    """Read text as numbers if nearly all of it is numeric; 007 is a code, not a number."""
    formats = NumberFormats()
    formats.add(given)
    written = formats.decided()
    numbers = written.read(given).reindex(text.series.index)
    strange = given[numbers[given.index].isna()]
    share = len(strange) / len(given)
    if share > MOST_STRANGE or strange.nunique() > MOST_STRANGE_TEXTS:
        return replace(text, remark=_about_text(text.distinct, strange, share))
    if code := first_code(given):
        remark = f"codes with leading zeros ({code!r}): read as categories"
        return replace(text, remark=_with_many(remark, text.distinct))
    example = next(iter(formats.odd.texts), "")
    how = "" if written == PLAIN else f"numbers with {written.words} ({example!r})"
    remarks = [how, _about_codes(codes), _count_as_missing(strange, "number")]
    return ReadColumn(
        numbers,
        "number",
        int(numbers.nunique()),
        remark="; ".join(filter(None, remarks)) or "numbers written as text",
        number_format=written.words,
        missing_texts=tuple(strange.unique()),
    )


def _about_codes(codes: pd.Series) -> str:
    """Name texts such as "." that stand for missing values."""
    if codes.empty:
        return ""
    rows = "1 row" if len(codes) == 1 else f"{len(codes)} rows"
    return f"{listed(map(str, codes.unique()))} in {rows} counts as missing"


def _about_text(distinct: int, strange: pd.Series, share: float) -> str:
    if share >= 0.5:
        return (
            _with_many(f"{distinct} different texts", distinct)
            if distinct > MANY_CATEGORIES
            else ""
        )
    numeric = f"{int(100 * (1 - share))} % numeric"
    texts = strange.unique()
    if len(texts) == 1:
        return (
            f"{numeric}; the rest is {texts[0]!r}. Is that a code for missing? Read as categories"
        )
    return (
        f"{numeric}; the rest is {len(texts)} different texts ({_shown(texts)}). Read as categories"
    )


def _with_many(remark: str, distinct: int) -> str:
    rare = "; rare ones share one category"
    return remark + (rare if distinct > MANY_CATEGORIES else "")


def _count_as_missing(strange: pd.Series, what: str) -> str:
    if strange.empty:
        return ""
    shown = _shown(strange.unique())
    if len(strange) == 1:
        return f"1 value is not a {what} ({shown}) and counts as missing"
    return f"{len(strange)} values are not {what}s ({shown}) and count as missing"


def _shown(texts: NDArray[Any]) -> str:
    most = MOST_STRANGE_TEXTS
    return ", ".join(map(repr, texts[:most])) + (", ..." if len(texts) > most else "")


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
