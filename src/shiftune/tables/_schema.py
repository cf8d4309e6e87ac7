"""The columns that a model reads: their kinds, their profile in training, and new rows.

`Schema` reads a table again as a file was read. `Profile` keeps what the columns held in training;
`NewRows` reads new files by it, however they are written, and reports what is unusual.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from scipy.stats import binom

from shiftune._wording import alike, count, listed, number, percent
from shiftune.errors import DataError
from shiftune.problem._columns import ColumnKind, days_in, kind_of
from shiftune.tables._columns import is_code
from shiftune.tables._formats import (
    MISSING_CODES,
    MISSING_TEXTS,
    PLAIN,
    DateFormats,
    NumberFormat,
    NumberFormats,
    Tally,
    are_whole,
    as_numbers,
    format_in_words,
    parse_dates,
    without_zeros,
)


@dataclass(frozen=True)
class Schema:
    """Names, kinds and date formats of columns: enough to read the next file in the same way.

    Attributes
    ----------
    kinds : mapping from column names to "number", "category" or "date"
    date_formats : mapping from column names to formats of `pandas.to_datetime`
        For dates written as text; default ISO8601.
    number_formats : mapping from column names to text
        What is unusual about numbers written as text (`NumberFormat.words`).
    missing_texts : mapping from column names to lists of texts
        What counted as missing among numbers and dates.

    Examples
    --------
    >>> schema = Schema({"age": "number", "seen": "date", "sex": "category"})
    >>> table = pd.DataFrame({"id": [7, 8], "sex": ["f", None], "seen": ["1970-01-11", "?"],
    ...                       "age": ["50", "unknown"]})
    >>> schema.read(table)
        age  seen   sex
    0  50.0  10.0     f
    1   NaN   NaN  None
    """

    kinds: Mapping[str, ColumnKind]
    date_formats: Mapping[str, str] = field(default_factory=dict)
    number_formats: Mapping[str, str] = field(default_factory=dict)
    missing_texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def categories(self) -> list[str]:
        """Names of the category columns."""
        return [str(name) for name, kind in self.kinds.items() if kind == "category"]

    @property
    def numbers(self) -> list[str]:
        """Names of the other columns: numbers, and dates as days."""
        return [str(name) for name, kind in self.kinds.items() if kind != "category"]

    def read(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return these columns of any table that has them, as floats and text.

        Numbers are floats (text among them is missing), dates are days since 1970. Categories are
        text; codes lose their leading zeros, which `pandas.read_csv` drops. A stored model can
        therefore read the user's next file directly. Names become text.
        """
        if not isinstance(table, pd.DataFrame):
            raise DataError(
                f"the model reads a DataFrame with the columns {list(self.kinds)}, got "
                f"{type(table).__name__}"
            )
        if lacking := [name for name in self.kinds if name not in table.columns]:
            raise DataError(f"the table lacks the column(s) {lacking}, which the model reads")
        return pd.DataFrame({str(name): self._read(table[name], name) for name in self.kinds})

    def _read(self, column: pd.Series, name: str) -> pd.Series:
        if self.kinds[name] == "category":
            return as_text(column)
        if self.kinds[name] == "date":
            if kind_of(column) != "date":
                column = parse_dates(column, self.date_formats.get(str(name), "ISO8601"))
            return pd.Series(days_in(column), column.index)
        if kind_of(column) == "number":
            return pd.Series(column.to_numpy(dtype=float, na_value=np.nan), column.index)
        return pd.to_numeric(column, errors="coerce").astype(float)


def as_text(column: pd.Series) -> pd.Series:
    """Return categories as text, None where they are missing; codes lose their leading zeros."""
    if types.is_float_dtype(column) and are_whole(column.dropna()):
        column = column.astype("Int64")
    codes, texts = pd.factorize(column.astype("string"))
    levels = np.array([*map(without_zeros, texts), None], dtype=object)
    return pd.Series(levels[codes], column.index, dtype=object)


# Columns with more levels are not compared level by level.
_MOST_LEVELS = 5_000


@dataclass(frozen=True)
class ColumnProfile:
    """Values of one column in the rows of a search."""

    kind: ColumnKind
    date_format: str = ""
    """Of dates written as text; empty otherwise."""
    number_format: str = ""
    """What is unusual about numbers written as text; empty if nothing."""
    missing_texts: list[str] = field(default_factory=list)
    """Texts that count as missing among numbers and dates."""
    missing: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest share of rows without a value, over all sites."""
    low: float = np.nan
    """Smallest number, or day since 1970, of all sites; NaN for categories."""
    high: float = np.nan
    """Largest number, or day since 1970, of all sites; NaN for categories."""
    levels: list[str] | None = None
    """Categories in the rows with labels, as text; None where there are too many."""


@dataclass(frozen=True)
class Profile:
    """Values of the columns that a model reads, and the names of those that it does not read."""

    columns: dict[str, ColumnProfile]
    others: list[str]
    """Further columns of the training table: site, label, what was left out."""


def profile_of(
    labelled: Sequence[pd.DataFrame],
    target: pd.DataFrame,
    schema: Schema,
    others: Sequence[str] = (),
) -> Profile:
    """Return the profile of the rows with labels, and of the target's.

    >>> B = pd.DataFrame({"age": [50.0, None], "sex": ["f", "m"]})
    >>> A = pd.DataFrame({"age": [80.0], "sex": ["f"]})
    >>> found = profile_of([B], A, Schema({"age": "number", "sex": "category"}))
    >>> found.columns["age"].missing, found.columns["age"].high, found.columns["sex"].levels
    ((0.0, 0.5), 80.0, ['f', 'm'])
    """
    tables = [schema.read(X) for X in (*labelled, target)]
    columns = {}
    for name, kind in schema.kinds.items():
        sites = [table[name] for table in tables]
        shares = [float(values.isna().mean()) for values in sites]
        low, high, levels = np.nan, np.nan, None
        if kind == "category":
            seen = sorted(set().union(*(values.dropna().unique() for values in sites[:-1])))
            levels = seen if len(seen) <= _MOST_LEVELS else None
        else:
            given = pd.concat([values.dropna() for values in sites])
            low, high = float(given.min()), float(given.max())
        columns[name] = ColumnProfile(
            kind,
            schema.date_formats.get(name, ""),
            schema.number_formats.get(name, ""),
            list(schema.missing_texts.get(name, ())),
            (min(shares), max(shares)),
            low,
            high,
            levels,
        )
    return Profile(columns, list(others))


# Shares of missing values and of values out of range are reported from this difference on, if it
# cannot be chance: a tail of the binomial distribution.
_MOST_DIFFERENT = 0.1
_MOST_OUTSIDE = 0.05
_LEAST_LIKELY = 1e-3


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a column of new rows."""

    column: str
    text: str
    serious: bool = True
    """Whether predictions suffer: values that cannot be read, categories never seen, more or fewer
    missing values than in training. Otherwise a note on how it was read."""

    def __str__(self) -> str:
        return f"column {self.column!r}: {self.text}"


class NewRows:
    """New rows in one or several parts: all parts decide how a column is read.

    Parameters
    ----------
    profile : Profile
    decimal : "." or ","
        Decimal sign of the file, for 1,234.

    Examples
    --------
    >>> profile = Profile({"seen": ColumnProfile("date", "%d.%m.%Y")}, [])
    >>> rows = NewRows(profile)
    >>> table = pd.DataFrame({"seen": ["2020-05-31", "soon"]})
    >>> rows.add(table)
    >>> rows.read(table)["seen"].to_list()
    [Timestamp('2020-05-31 00:00:00'), NaT]
    >>> [str(each) for each in rows.findings()]
    ["column 'seen': 1 value is no date ('soon') and counts as missing",
     "column 'seen': 1 date is written year-month-day, in training day.month.year; read as such"]
    """

    def __init__(self, profile: Profile, decimal: str = ".") -> None:
        self.profile = profile
        self.rows = 0
        kinds: dict[str, type[_Column]]
        kinds = {"number": _Numbers, "date": _Dates, "category": _Categories}
        self._columns = {
            name: kinds[column.kind](name, column, decimal)
            for name, column in profile.columns.items()
        }

    def check_names(self, names: Iterable[Any], identifiers: Sequence[str] = ()) -> list[str]:
        """Check the column names of new rows; return those that training did not have."""
        names = list(map(str, names))
        if lacking := [name for name in self.profile.columns if name not in names]:
            near = [alike(name, set(names) - set(self.profile.columns)) for name in lacking]
            meant = next((f"; is it {found[0]!r}?" for found in near if found), "")
            raise DataError(
                f"the new rows lack {count(len(lacking), 'column')} that the model reads: "
                f"{listed(lacking, 8)}{meant}"
            )
        if doubled := sorted({n for n in self.profile.columns if names.count(n) > 1}):
            raise DataError(f"the new rows have the column {doubled[0]!r} twice; rename one")
        known = {*self.profile.columns, *self.profile.others, *identifiers}
        return [name for name in names if name not in known]

    def add(self, table: pd.DataFrame) -> None:
        """Count what a part holds."""
        self.rows += len(table)
        for name, column in self._columns.items():
            column.add(table[name])

    def read(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the columns of a part that was added: floats, dates and text."""
        found = {name: each.read(table[name]) for name, each in self._columns.items()}
        return pd.DataFrame(found, index=table.index)

    def findings(self) -> list[Finding]:
        """Return what is unusual about the rows that were added; the serious ones first."""
        if not self.rows:
            return []
        found = [each for column in self._columns.values() for each in column.findings(self.rows)]
        return sorted(found, key=lambda each: not each.serious)


class _Column(ABC):
    """One column of new rows: counts of all parts, then how it is read."""

    def __init__(self, name: str, profile: ColumnProfile, decimal: str) -> None:
        self.name, self.profile, self.decimal = name, profile, decimal
        self.missing_texts = {*MISSING_TEXTS, *MISSING_CODES, *profile.missing_texts}
        self.empty = 0

    @abstractmethod
    def add(self, column: pd.Series) -> None: ...

    @abstractmethod
    def read(self, column: pd.Series) -> pd.Series: ...

    @abstractmethod
    def about(self, rows: int) -> Iterator[Finding]: ...

    def findings(self, rows: int) -> Iterator[Finding]:
        yield from self.about(rows)
        share, (low, high) = self.empty / rows, self.profile.missing
        chance = 1.0
        if share > high + _MOST_DIFFERENT:
            chance = binom.sf(self.empty - 1, rows, high)
        elif share < low - _MOST_DIFFERENT:
            chance = binom.cdf(self.empty, rows, low)
        if chance < _LEAST_LIKELY:
            before = percent(low) if low == high else f"{percent(low)} to {percent(high)}"
            yield self.finding(f"{percent(share)} of the values are missing, in training {before}")

    def finding(self, text: str, *, serious: bool = True) -> Finding:
        return Finding(self.name, text, serious)

    def texts(self, column: pd.Series) -> pd.Series:
        """Return the values as text without spaces around it; missing ones are left out."""
        text = column.dropna().astype(str).str.strip().astype(object)
        return text[~text.isin(self.missing_texts)]

    def unreadable(self, strange: Tally, what: str) -> Iterator[Finding]:
        if n := strange.total:
            verbs = ("is", "counts") if n == 1 else ("are", "count")
            yield self.finding(
                f"{count(n, 'value')} {verbs[0]} no {what} ({strange.shown}) and {verbs[1]} as "
                "missing"
            )


class _Numbers(_Column):
    def __init__(self, name: str, profile: ColumnProfile, decimal: str) -> None:
        super().__init__(name, profile, decimal)
        self.formats = NumberFormats(profile.low, profile.high, decimal)
        texts = pd.Series(profile.missing_texts, dtype=object)
        self.codes = texts[as_numbers(texts).notna()].to_list()

    def add(self, column: pd.Series) -> None:
        if _are_numbers(column):
            given = self._without_codes(column).dropna()
            self.empty += len(column) - len(given)
            self.formats.add_numbers(given.to_numpy(dtype=float))
        else:
            texts = self.texts(column)
            self.empty += len(column) - len(texts)
            self.formats.add(texts)

    def read(self, column: pd.Series) -> pd.Series:
        if _are_numbers(column):
            given = self._without_codes(column)
            return pd.Series(given.to_numpy(dtype=float, na_value=np.nan), column.index)
        return self.formats.decided().read(self.texts(column)).reindex(column.index)

    def texts(self, column: pd.Series) -> pd.Series:
        return self._without_codes(super().texts(column)).dropna()

    def _without_codes(self, column: pd.Series) -> pd.Series:
        """Leave out numbers that stood for missing values in training, such as 999."""
        for code in self.codes:
            column = column.mask(is_code(column, code))
        return column

    def about(self, rows: int) -> Iterator[Finding]:
        yield from self.unreadable(self.formats.strange, "number")
        written = self.formats.decided()
        usual = (PLAIN.words, NumberFormat(self.decimal).words, self.profile.number_format)
        if written.words not in usual:
            shown = next(iter(self.formats.odd.texts))
            text = f"numbers with {written.words} ({shown!r}), read as such"
            yield self.finding(text, serious=False)
        below, above = self.formats.outside
        yield from self._outside(below, "below the smallest", self.profile.low, rows)
        yield from self._outside(above, "above the largest", self.profile.high, rows)

    def _outside(self, n: int, where: str, limit: float, rows: int) -> Iterator[Finding]:
        likely = binom.sf(n - 1, rows, _MOST_OUTSIDE / 10)
        if n > _MOST_OUTSIDE * rows and likely < _LEAST_LIKELY:
            yield self.finding(
                f"{count(n, 'value')} ({percent(n / rows)}) {'is' if n == 1 else 'are'} {where} "
                f"in training ({number(limit)})"
            )


class _Dates(_Column):
    def __init__(self, name: str, profile: ColumnProfile, decimal: str) -> None:
        super().__init__(name, profile, decimal)
        self.formats = DateFormats(profile.date_format or "ISO8601")

    def add(self, column: pd.Series) -> None:
        if kind_of(column) == "date":
            self.empty += int(column.isna().sum())
        else:
            texts = self.texts(column)
            self.empty += len(column) - len(texts)
            self.formats.add(texts)

    def read(self, column: pd.Series) -> pd.Series:
        if kind_of(column) == "date":
            return column
        return self.formats.read(self.texts(column)).reindex(column.index)

    def about(self, rows: int) -> Iterator[Finding]:
        yield from self.unreadable(self.formats.strange, "date")
        trained = format_in_words(self.formats.expected)
        for date_format, dates in self.formats.others.items():
            verb = "date is" if dates == 1 else "dates are"
            yield self.finding(
                f"{dates:,} {verb} written {format_in_words(date_format)}, in training {trained}; "
                "read as such",
                serious=False,
            )


class _Categories(_Column):
    def __init__(self, name: str, profile: ColumnProfile, decimal: str) -> None:
        super().__init__(name, profile, decimal)
        levels = profile.levels or []
        self.known = set(levels)
        plain = Counter(map(_loose, levels))
        self.same = {_loose(level): level for level in levels if plain[_loose(level)] == 1}
        self.alike, self.unseen = Tally(), Tally()

    def add(self, column: pd.Series) -> None:
        levels = self._levels(column).dropna()
        self.empty += len(column) - len(levels)
        for each, n in levels.value_counts().items():
            level = str(each)
            if level not in self.known and self.profile.levels is not None:
                tally = self.alike if _loose(level) in self.same else self.unseen
                tally.count(level, int(n))

    def read(self, column: pd.Series) -> pd.Series:
        levels = self._levels(column)
        return levels.map(
            lambda level: level if level in self.known else self.same.get(_loose(level), level),
            na_action="ignore",
        )

    def _levels(self, column: pd.Series) -> pd.Series:
        levels = as_text(column)
        empty = {*MISSING_TEXTS, *self.profile.missing_texts} - self.known
        return levels.mask(levels.isin(empty), None)

    def about(self, rows: int) -> Iterator[Finding]:
        if n := self.unseen.total:
            yield self.finding(
                f"{count(n, 'value')} ({percent(n / rows)}) {'is' if n == 1 else 'are'} of "
                f"categories that training did not have: {self.unseen.shown}"
            )
        if self.alike.total:
            first, *others = self.alike.texts
            more = f", and {len(others)} more likewise" if others else ""
            text = f"{first!r} is read as {self.same[_loose(first)]!r}{more}"
            yield self.finding(text, serious=False)


def _are_numbers(column: pd.Series) -> bool:
    return kind_of(column) == "number" or types.is_bool_dtype(column)


def _loose(level: str) -> str:
    """Return a level without differences that spreadsheets and people make."""
    return " ".join(level.split()).casefold().removesuffix(".0")
