"""What a column of a file holds: numbers, categories or dates, also if written as text.

`read_column` decides whether a model should see a column, `typed` which kind it has. Then follow
columns that only identify rows or cases, and values that stand for missing ones.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._wording import check_choice, count, listed, number
from shiftune.errors import DataError, SettingsError
from shiftune.problem._columns import ColumnKind, kind_of
from shiftune.tables._formats import (
    MISSING_CODES,
    MISSING_TEXTS,
    MOST_STRANGE,
    PLAIN,
    DateFormats,
    NumberFormats,
    date_formats_by_site,
    find_format,
    first_code,
    format_in_words,
    number_formats_by_site,
    parse_dates,
    stripped,
)

# A text column is read as numbers if at most this many different texts stand among them ("unknown",
# ">90"). Codes such as 250, V45, E909 have more, and are categories.
_MOST_STRANGE_TEXTS = 5
_MANY_CATEGORIES = 50

# A table with fewer rows does not show which columns are identifiers.
_FEWEST_IDENTIFIED_ROWS = 20
# Different values per row above which a column may be an identifier of rows.
_ROW_SHARE = 0.9
# A column named like an identifier of cases with several rows (visits of a patient) may be a code
# with a meaning if it has few values.
_MANY_CODES = 20
# An identifier of cases has many values, and not many rows of each.
_MOST_ROWS_OF_A_CASE = 20

_ROW_NAME = re.compile(
    r"(^|[^a-z])(id|uuid|guid|index|key|nr|row|pid|mrn)([^a-z]|$)|[a-z](ID|Id)$|^unnamed: "
)
# Not index, row or key in front, which also name quantities.
_CASE_NAME = re.compile(
    r"^(id|uuid|guid)([^a-z]|$)|(^|[^a-z])(id|uuid|guid|key|nr|no|pid|mrn)$"
    r"|^(patient|subject|participant|person|customer)$"
)
_CASE_NAME_IN_HUMPS = re.compile(r"[a-z](ID|Id|Nr|No)$")

# Sevens, eights and nines only: 99, 888, -999, ...; of single digits, those below zero.
_CODES = frozenset(
    sign * int(digit * n)
    for digit in "789"
    for n in range(1, 7)
    for sign in (-1, 1)
    if n > 1 or sign < 0
)
_FEWEST_CODED_ROWS = 2
# A code is farther from the other values than this share of their range.
_FAR = 0.5


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column with its kind."""

    series: pd.Series
    kind: ColumnKind
    distinct: int  # number of different values, missing ones not counted
    used: bool = True  # whether it is a feature
    identifier: bool = False  # whether it only identifies cases
    remark: str = ""  # what was noticed or done; empty if nothing
    date_format: str = ""  # of dates written as text; empty otherwise
    number_format: str = ""  # what is unusual about numbers as text (`NumberFormat.words`)
    missing_texts: tuple[str, ...] = ()  # among numbers or dates, those that count as missing

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
        return self.distinct <= _ROW_SHARE * self.present

    def remarked(self, remark: str) -> ReadColumn:
        """Return the same column with one more remark."""
        return replace(self, remark="; ".join(filter(None, (self.remark, remark))))

    def left_out(self, why: str, *, identifier: bool = False) -> ReadColumn:
        """Return the same column, not used."""
        return replace(self, used=False, identifier=identifier, remark=f"left out: {why}")


def read_column(
    column: pd.Series,
    inside: NDArray[np.bool_],
    *,
    keep: bool = False,
    date_format: str | None = None,
    sites: pd.Series | None = None,
) -> ReadColumn:
    """Decide what a column of the whole table holds, and whether a model should see it.

    `inside` marks the target's rows, shape (n,); with `keep` the column is used in any case.
    `date_format` and `sites` are those of `typed`.
    """
    target = "" if sites is None else str(sites[inside].iloc[0])
    found = typed(column, date_format, sites, target)
    if found.kind == "number":
        found = found.remarked(question_about(found.series))
    if keep:
        return found
    if why := _useless(found, inside):
        return found.left_out(why)
    if _names_rows(found):
        return found.left_out(
            "a different value in almost every row, like an identifier", identifier=True
        )
    if not _may_name_cases(found):
        return found
    remark = f"named like an identifier, {found.distinct} values in {found.present} rows; "
    name = shlex.quote(str(column.name))
    rows_of_a_case = found.present / found.distinct
    if found.distinct > _MANY_CATEGORIES and rows_of_a_case <= _MOST_ROWS_OF_A_CASE:
        return found.left_out(f"{remark}to use it: --keep {name}", identifier=True)
    return found.remarked(f"{remark}if it is one: --id {name}")  # it may be a code


def _useless(column: ReadColumn, inside: NDArray[np.bool_]) -> str:
    present = column.series.notna().to_numpy()
    if not present.any():
        return "empty"
    if column.distinct == 1 and present.all():
        value = column.series.iloc[0]
        text = repr(value.item() if isinstance(value, np.generic) else value)
        shown = text if len(text) <= 30 else text[:29] + "…"
        return f"the same value in every row ({shown})"
    if not present[inside].any():
        return "empty at the target, so no model can use it there"
    if not present[~inside].any():
        return "empty at every source, so no model can learn from it"
    return ""


class _Reading(NamedTuple):
    """Texts read as dates or numbers: missing where they are none, and how they are written."""

    kind: ColumnKind
    found: pd.Series
    how: str
    date_format: str = ""
    number_format: str = ""


def typed(
    column: pd.Series,
    date_format: str | None = None,
    sites: pd.Series | None = None,
    target: str = "",
) -> ReadColumn:
    """Return a column with its kind; text that is nearly all numbers or dates is converted.

    `date_format` is a format of `pandas.to_datetime` to try first. With the site of every row in
    `sites`, sites may write numbers and dates in different ways; new rows will be written as those
    of `target` are.
    """
    try:
        distinct = int(column.nunique())
    except TypeError as error:
        raise DataError(
            f"column {column.name!r} holds lists or other nested values; features are numbers, "
            "text, booleans or dates: leave it out"
        ) from error
    if types.is_object_dtype(column) and column.count():
        column = _of_one_type(column)
    found = ReadColumn(column, kind_of(column), distinct)
    given = column.dropna()
    is_text = types.is_object_dtype(column) or types.is_string_dtype(column)
    if not is_text or given.empty or types.infer_dtype(given) != "string":
        return found
    text = stripped(given)
    missing = text.isin(MISSING_TEXTS | MISSING_CODES)
    given, codes = text[~missing], text[missing]
    if given.empty:
        return found

    read = None
    if sites is not None and date_format is None:
        read = _dates_by_site(given, sites, target)
    read = read or _dates(given, date_format) or _numbers(given, sites, target)
    strange = given[read.found[given.index].isna()]
    if read.kind == "number":
        if _are_many(strange, given):
            return replace(found, remark=_about_text(distinct, strange, given))
        if code := first_code(given.unique()):  # 007 is a code, not a number
            remark = f"codes with leading zeros ({code!r}): read as categories"
            return replace(found, remark=remark + _about_rare(distinct))
    values = read.found.reindex(column.index)
    remarks = [read.how, _about_codes(codes), _about_strange(strange, read.kind)]
    return ReadColumn(
        values,
        read.kind,
        int(values.nunique()),
        remark="; ".join(filter(None, remarks)) or "numbers written as text",
        date_format=read.date_format,
        number_format=read.number_format,
        missing_texts=tuple(strange.unique()),
    )


def _of_one_type(column: pd.Series) -> pd.Series:
    """Return cells of a spreadsheet or of JSON as dates, or as text if any of them is text."""
    given = column.dropna()
    if types.infer_dtype(given) in ("date", "datetime", "datetime64"):
        return pd.to_datetime(column, utc=True).dt.tz_localize(None)
    if any(isinstance(value, str) for value in given):
        return column.where(column.isna(), column.map(str))
    return column


def _dates(given: pd.Series, preferred: str | None) -> _Reading | None:
    expected = find_format(given, preferred)
    if expected is None:
        return None
    formats = DateFormats(expected)
    formats.add(given)
    if formats.strange.total > MOST_STRANGE * len(given):
        return None
    others = [format_in_words(each) for each in formats.others]
    also = f", also {listed(others, quoted=False)}" if others else ""
    how = f"dates ({format_in_words(expected)}{also}{_also_possible(given, expected)})"
    return _Reading("date", formats.read(given), how, date_format=expected)


def _dates_by_site(given: pd.Series, sites: pd.Series, target: str) -> _Reading | None:
    """Read dates with slashes if some sites write the day first, and others the month."""
    formats = date_formats_by_site(given, sites)
    if not formats:
        return None
    of_rows = sites[given.index].map(formats)
    dates = pd.concat([parse_dates(part, each) for each, part in given.groupby(of_rows)])
    if dates.isna().mean() > MOST_STRANGE:
        return None
    how = _at_sites({site: format_in_words(each) for site, each in formats.items()})
    expected = formats.get(target, of_rows.iloc[0])
    return _Reading("date", dates, f"dates ({how})", date_format=expected)


def _also_possible(given: pd.Series, expected: str) -> str:
    """Point out that day and month may be the other way round."""
    swapped = {"%m": "%d", "%d": "%m"}
    other = "".join(swapped.get(part, part) for part in re.split("(%[dm])", expected))
    clear = "." in expected or other == expected
    if clear or parse_dates(given, other).isna().any():
        return ""
    return f"; {format_in_words(other)} would fit as well: --date-format {shlex.quote(other)}"


def _numbers(given: pd.Series, sites: pd.Series | None, target: str) -> _Reading:
    formats = NumberFormats()
    formats.add(given)
    written = formats.decided()
    how, numbers = written.words, written.read(given)
    if sites is not None and formats.odd.total and _are_many(given[numbers.isna()], given):
        by_site = number_formats_by_site(given, sites)
        parts = given.groupby(sites[given.index])
        numbers = pd.concat([by_site[str(site)].read(part) for site, part in parts])
        how = _at_sites({site: each.words for site, each in by_site.items() if each != PLAIN})
        written = by_site.get(target, PLAIN)
    if how:
        how = f"numbers with {how} ({next(iter(formats.odd.texts), '')!r})"
    return _Reading("number", numbers, how, number_format=written.words)


def _at_sites(words: dict[str, str]) -> str:
    """Put what differs by site in words."""
    sites: dict[str, list[str]] = defaultdict(list)
    for site, word in words.items():
        sites[word].append(site)
    return ", ".join(f"{word} at {listed(each, 4)}" for word, each in sites.items())


def _are_many(strange: pd.Series, given: pd.Series) -> bool:
    """Whether many texts, or many different ones, are no numbers."""
    return len(strange) > MOST_STRANGE * len(given) or strange.nunique() > _MOST_STRANGE_TEXTS


def _about_codes(codes: pd.Series) -> str:
    """Name texts such as "." that stand for missing values."""
    if codes.empty:
        return ""
    return f"{listed(map(str, codes.unique()))} in {count(len(codes), 'row')} counts as missing"


def _about_text(distinct: int, strange: pd.Series, given: pd.Series) -> str:
    share = len(strange) / len(given)
    if share >= 0.5:
        many = distinct > _MANY_CATEGORIES
        return f"{distinct} different texts{_about_rare(distinct)}" if many else ""
    numeric = f"{int(100 * (1 - share))} % numeric"
    texts = strange.unique()
    if len(texts) == 1:
        return (
            f"{numeric}; the rest is {texts[0]!r}. Is that a code for missing? Read as categories"
        )
    return (
        f"{numeric}; the rest is {len(texts)} different texts ({_shown(texts)}). Read as categories"
    )


def _about_rare(distinct: int) -> str:
    return "; rare ones share one category" if distinct > _MANY_CATEGORIES else ""


def _about_strange(strange: pd.Series, kind: str) -> str:
    if strange.empty:
        return ""
    shown = _shown(strange.unique())
    if len(strange) == 1:
        return f"1 value is not a {kind} ({shown}) and counts as missing"
    return f"{len(strange)} values are not {kind}s ({shown}) and count as missing"


def _shown(texts: NDArray[Any]) -> str:
    most = _MOST_STRANGE_TEXTS
    return ", ".join(map(repr, texts[:most])) + (", ..." if len(texts) > most else "")


def _names_rows(column: ReadColumn) -> bool:
    """Whether a column identifies rows and has no other meaning.

    Text that differs in almost every row; whole numbers that do, if they are consecutive or named
    like identifiers (an income in full euros also differs in almost every row).
    """
    values, rows = column.series, len(column.series)
    if rows < _FEWEST_IDENTIFIED_ROWS or column.distinct <= _ROW_SHARE * rows:
        return False
    if column.kind != "number":
        return column.kind == "category"
    if not _are_whole(values):
        return False
    name = str(values.name)
    consecutive = float(values.max()) - float(values.min()) + 1 <= 1.1 * rows
    return consecutive or bool(_ROW_NAME.search(name) or _ROW_NAME.search(name.lower()))


def _may_name_cases(column: ReadColumn) -> bool:
    """Whether a column may identify cases, such as patients, that have several rows each."""
    name = str(column.series.name)
    named_so = _CASE_NAME.search(name.lower()) or _CASE_NAME_IN_HUMPS.search(name)
    if column.distinct <= _MANY_CODES or not named_so:
        return False
    if column.kind == "number":
        return _are_whole(column.series)
    return column.kind == "category"


def _are_whole(values: pd.Series) -> bool:
    numbers = values.dropna().to_numpy(dtype=float)
    return bool(np.all(numbers == np.round(numbers)))


def question_about(values: pd.Series) -> str:
    """Ask about numbers far outside the others that look like codes; empty if there are none.

    >>> question_about(pd.Series([18, 97, 999, 45, 999], name="age"))
    '999 in 2 rows, far from the other values (18 to 97): a code for missing? --missing age=999'
    """
    given = values.dropna().to_numpy(dtype=float)
    if not len(given) or not {given.min(), given.max()} & _CODES:
        return ""
    like_codes = np.isin(given, list(_CODES))
    others = given[~like_codes]
    if not len(others):
        return ""
    low, high = others.min(), others.max()
    seen, rows = np.unique(given[like_codes], return_counts=True)
    far = np.maximum(low - seen, seen - high) > _FAR * (high - low)
    chosen = far & (rows >= _FEWEST_CODED_ROWS)
    codes = {int(code): int(n) for code, n in zip(seen[chosen], rows[chosen], strict=True)}
    if not codes or high == low:
        return ""
    shown = [f"{code} in {n} rows" for code, n in codes.items()]
    options = [f"--missing {shlex.quote(f'{values.name}={code}')}" for code in codes]
    return (
        f"{listed(shown, quoted=False)}, far from the other values ({number(low)} to "
        f"{number(high)}): {'a code' if len(codes) == 1 else 'codes'} for missing? "
        f"{' '.join(options)}"
    )


def without_codes(
    df: pd.DataFrame, entries: Collection[str], notes: list[str]
) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return a table without the values that entries of the form COLUMN=VALUE name, and these."""
    columns: dict[str, pd.Series] = {}
    codes: dict[str, list[str]] = {}
    for entry in entries:
        name, sign, text = entry.rpartition("=")
        value = text.strip()
        if not sign or not value:
            raise SettingsError(f"--missing needs COLUMN=VALUE, such as age=999, got {entry!r}")
        check_choice(name, df.columns, "column", DataError)
        hit = is_code(df[name], value)
        if not hit.any():
            raise DataError(f"column {name!r} has no value {value}, which --missing names")
        columns[name] = columns.get(name, df[name]).mask(hit)
        codes.setdefault(name, []).append(value)
        rows = count(int(hit.sum()), "row")
        notes.append(f"column {name!r}: {value} in {rows} counts as missing, as requested")
    return df.assign(**columns), codes


def is_code(column: pd.Series, value: str) -> pd.Series:
    """Mark the rows that have a value: numbers by their size (999.0 is 999), others as text."""
    number_of = pd.to_numeric(value, errors="coerce")
    if types.is_numeric_dtype(column) and not types.is_bool_dtype(column):
        return (column == number_of).fillna(False).astype(bool)
    text = column.astype("string").str.strip().fillna("")
    same = text == value
    if not pd.isna(number_of):
        same |= pd.to_numeric(text, errors="coerce") == number_of
    return same.astype(bool)
