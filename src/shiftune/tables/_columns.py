"""Kinds of the columns of a file: numbers, categories or dates, also if written as text."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

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

# Sevens, eights and nines only: 99, 888, -999, ...; of single digits, those below zero.
CODES = frozenset(
    sign * int(digit * n)
    for digit in "789"
    for n in range(1, 7)
    for sign in (-1, 1)
    if n > 1 or sign < 0
)
FEWEST_CODED_ROWS = 2
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
    codes = {code: n for code, n in codes.items() if n >= FEWEST_CODED_ROWS}
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


# A table with fewer rows does not show which columns are identifiers.
FEWEST_IDENTIFIED_ROWS = 20
# Different values per row above which a column may be an identifier of rows.
ROW_SHARE = 0.9
# A column named like an identifier of cases with several rows (visits of a patient) may be a code
# with a meaning if it has few values.
MANY_CODES = 20

ROW_NAME = re.compile(
    r"(^|[^a-z])(id|uuid|guid|index|key|nr|row|pid|mrn)([^a-z]|$)|[a-z](ID|Id)$|^unnamed: "
)
# Not index, row or key in front, which also name quantities.
CASE_NAME = re.compile(
    r"^(id|uuid|guid)([^a-z]|$)|(^|[^a-z])(id|uuid|guid|key|nr|no|pid|mrn)$"
    r"|^(patient|subject|participant|person|customer)$"
)
CASE_NAME_IN_HUMPS = re.compile(r"[a-z](ID|Id|Nr|No)$")


def names_rows(values: pd.Series, kind: ColumnKind, distinct: int) -> bool:
    """Whether a column identifies rows and has no other meaning.

    Text that differs in almost every row; whole numbers that do, if they are consecutive or named
    like identifiers (an income in full euros also differs in almost every row).
    """
    rows = len(values)
    if rows < FEWEST_IDENTIFIED_ROWS or distinct <= ROW_SHARE * rows or kind == "date":
        return False
    if kind == "category":
        return True
    if not _whole(values):
        return False
    consecutive = float(values.max()) - float(values.min()) + 1 <= 1.1 * rows
    return consecutive or named_like_row(str(values.name))


def may_name_cases(values: pd.Series, kind: ColumnKind, distinct: int) -> bool:
    """Whether a column may identify cases that have several rows each."""
    if distinct <= MANY_CODES or not named_like_case(str(values.name)):
        return False
    return kind == "category" or (kind == "number" and _whole(values))


def named_like_case(name: str) -> bool:
    """Whether a column is named like an identifier of patients or other cases.

    >>> names = ("patient_id", "ID", "id_2", "caseNr", "subject", "price_index", "nr_of_visits")
    >>> [name for name in names if named_like_case(name)]
    ['patient_id', 'ID', 'id_2', 'caseNr', 'subject']
    """
    return bool(CASE_NAME.search(name.lower()) or CASE_NAME_IN_HUMPS.search(name))


def named_like_row(name: str) -> bool:
    """Whether a column is named like an identifier of rows.

    >>> [name for name in ("patient_id", "ID", "age", "paid", "visitId") if named_like_row(name)]
    ['patient_id', 'ID', 'visitId']
    """
    return bool(ROW_NAME.search(name) or ROW_NAME.search(name.lower()))


def _whole(values: pd.Series) -> bool:
    numbers = values.dropna().to_numpy(dtype=float)
    return bool(np.all(numbers == np.round(numbers)))


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
    formats = date_formats_by_site(given, sites, MOST_STRANGE)
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
