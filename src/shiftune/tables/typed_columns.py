"""Kinds of the columns of a file: numbers, categories or dates, also if written as text."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune.errors import DataError
from shiftune.problem.columns import ColumnKind, kind_of
from shiftune.tables.codes import first_code
from shiftune.tables.dates import (
    DateFormats,
    find_format,
    format_in_words,
    formats_by_site,
    parse_dates,
)
from shiftune.tables.distinct import stripped
from shiftune.tables.identifiers import ROW_SHARE
from shiftune.tables.numbers import MISSING_CODES, MISSING_TEXTS, PLAIN, NumberFormats
from shiftune.tables.numbers import formats_by_site as number_formats_by_site
from shiftune.wording import listed

# A text column is read as numbers or dates if at most this share of its values is neither.
MOST_STRANGE = 0.1
# ... and at most this many different texts stand among its numbers ("unknown", ">90"). Codes such
# as 250, V45, E909 have more, and are categories.
MOST_STRANGE_TEXTS = 5
MANY_CATEGORIES = 50


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


def typed(
    column: pd.Series,
    date_format: str | None = None,
    sites: pd.Series | None = None,
    target: str = "",
) -> ReadColumn:
    """Return a column with its kind; text that is nearly all numbers or dates is converted.

    Parameters
    ----------
    column : Series of n values
    date_format : str, optional
        Format of `pandas.to_datetime` to try first.
    sites : Series of n names, optional
        Sites may write numbers and dates in different ways.
    target : str
        The site whose way new rows will have.
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
    text = stripped(column.dropna())
    missing = text.isin(MISSING_TEXTS | MISSING_CODES)
    given, codes = text[~missing], text[missing]
    if given.empty:
        return found
    return (
        (
            sites is not None
            and date_format is None
            and _dates_by_site(found, given, codes, sites, target)
        )
        or _as_dates(found, given, codes, date_format)
        or _as_numbers(found, given, codes, sites, target)
    )


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
    others = [format_in_words(each) for each in formats.others]
    also = f", also {listed(others, quoted=False)}" if others else ""
    how = f"{format_in_words(expected)}{also}{_also_possible(given, expected)}"
    return _dates(text.series.index, given, codes, formats.read(given), how, expected)


def _dates_by_site(
    text: ReadColumn, given: pd.Series, codes: pd.Series, sites: pd.Series, target: str
) -> ReadColumn | None:
    """Read dates with slashes if some sites write the day first, and others the month."""
    formats = formats_by_site(given, sites, MOST_STRANGE)
    if not formats:
        return None
    own = sites[given.index].map(formats)
    read = pd.concat([parse_dates(part, each) for each, part in given.groupby(own)])
    if read.isna().mean() > MOST_STRANGE:
        return None
    how = _at_sites({site: format_in_words(each) for site, each in formats.items()})
    expected = formats.get(target, own.iloc[0])
    return _dates(text.series.index, given, codes, read, how, expected)


def _dates(
    rows: pd.Index,
    given: pd.Series,
    codes: pd.Series,
    read: pd.Series,
    how: str,
    expected: str,
) -> ReadColumn:
    dates = read.reindex(rows)
    strange = given[dates[given.index].isna()]
    remarks = [f"dates ({how})", _about_codes(codes), _count_as_missing(strange, "date")]
    return ReadColumn(
        dates,
        "date",
        int(dates.nunique()),
        remark="; ".join(filter(None, remarks)),
        date_format=expected,
        missing_texts=tuple(strange.unique()),
    )


def _at_sites(words: dict[str, str]) -> str:
    """Put what differs by site in words."""
    sites: dict[str, list[str]] = defaultdict(list)
    for site, word in words.items():
        sites[word].append(site)
    return ", ".join(f"{word} at {listed(each, 4)}" for word, each in sites.items())


def _also_possible(given: pd.Series, expected: str) -> str:
    """Point out that day and month may be the other way round."""
    swapped = {"%m": "%d", "%d": "%m"}
    other = "".join(swapped.get(part, part) for part in re.split("(%[dm])", expected))
    clear = "." in expected or other == expected
    if clear or parse_dates(given, other).isna().any():
        return ""
    return f"; {format_in_words(other)} would fit as well: --date-format {shlex.quote(other)}"


def _as_numbers(
    text: ReadColumn,
    given: pd.Series,
    codes: pd.Series,
    sites: pd.Series | None,
    target: str,
) -> ReadColumn:
    """Read text as numbers if nearly all of it is numeric; 007 is a code, not a number."""
    formats = NumberFormats()
    formats.add(given)
    written = formats.decided()
    how, read = written.words, written.read(given)
    if _many_strange(given, read) and sites is not None and formats.odd.total:
        by_site = number_formats_by_site(given, sites)
        parts = given.groupby(sites[given.index])
        read = pd.concat([by_site[str(site)].read(part) for site, part in parts])
        how = _at_sites({site: each.words for site, each in by_site.items() if each != PLAIN})
        written = by_site.get(target, PLAIN)
    numbers = read.reindex(text.series.index)
    strange = given[numbers[given.index].isna()]
    if _many_strange(given, read):
        return replace(text, remark=_about_text(text.distinct, strange, len(strange) / len(given)))
    if code := first_code(given.unique()):
        remark = f"codes with leading zeros ({code!r}): read as categories"
        return replace(text, remark=_with_many(remark, text.distinct))
    example = next(iter(formats.odd.texts), "")
    how = f"numbers with {how} ({example!r})" if how else ""
    remarks = [how, _about_codes(codes), _count_as_missing(strange, "number")]
    return ReadColumn(
        numbers,
        "number",
        int(numbers.nunique()),
        remark="; ".join(filter(None, remarks)) or "numbers written as text",
        number_format=written.words,
        missing_texts=tuple(strange.unique()),
    )


def _many_strange(given: pd.Series, read: pd.Series) -> bool:
    """Whether many texts, or many different ones, are no numbers."""
    strange = given[read[given.index].isna()]
    return len(strange) > MOST_STRANGE * len(given) or strange.nunique() > MOST_STRANGE_TEXTS


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
