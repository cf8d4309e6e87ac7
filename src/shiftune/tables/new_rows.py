"""New rows for a model: read as they are written, and compared with the training rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from scipy.stats import binom

from shiftune.errors import DataError
from shiftune.problem.columns import kind_of
from shiftune.spelling import alike
from shiftune.tables.dates import DateFormats, format_in_words
from shiftune.tables.missing_codes import is_code
from shiftune.tables.numbers import MISSING_CODES, MISSING_TEXTS, PLAIN, NumberFormat, NumberFormats
from shiftune.tables.profile import ColumnProfile, Profile
from shiftune.tables.schema import as_text
from shiftune.tables.tally import Tally
from shiftune.wording import count, listed, number, percent

# Shares of missing values and of values out of range are reported from this difference on, if it
# cannot be chance: a tail of the binomial distribution.
MOST_DIFFERENT = 0.1
MOST_OUTSIDE = 0.05
LEAST_LIKELY = 1e-3


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a column of new rows.

    Attributes
    ----------
    column : str
    text : str
    serious : bool
        Whether predictions suffer: values that cannot be read, categories never seen, more or
        fewer missing values than in training. Otherwise a note on how it was read.
    """

    column: str
    text: str
    serious: bool = True

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
        kinds: dict[str, type[_Numbers | _Dates | _Categories]]
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

    def __init__(self, name: str, profile: ColumnProfile) -> None:
        self.name, self.profile = name, profile
        self.missing_texts = {*MISSING_TEXTS, *MISSING_CODES, *profile.missing_texts}
        self.empty = 0

    @abstractmethod
    def add(self, column: pd.Series) -> None:
        """Count the values of a part."""

    @abstractmethod
    def read(self, column: pd.Series) -> pd.Series:
        """Return the values of a part."""

    @abstractmethod
    def about(self, rows: int) -> Iterator[Finding]:
        """Yield what is particular to the kind of column."""

    def findings(self, rows: int) -> Iterator[Finding]:
        yield from self.about(rows)
        share, (low, high) = self.empty / rows, self.profile.missing
        more = share > high + MOST_DIFFERENT and binom.sf(self.empty - 1, rows, high)
        fewer = share < low - MOST_DIFFERENT and binom.cdf(self.empty, rows, low)
        if any(chance is not False and chance < LEAST_LIKELY for chance in (more, fewer)):
            before = percent(low) if low == high else f"{percent(low)} to {percent(high)}"
            yield self.finding(f"{percent(share)} of the values are missing, in training {before}")

    def finding(self, text: str, *, serious: bool = True) -> Finding:
        return Finding(self.name, text, serious)

    def counted(self, column: pd.Series) -> pd.Series:
        """Return the values as text, and count the missing ones."""
        texts = self.texts(column)
        self.empty += len(column) - len(texts)
        return texts

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
        super().__init__(name, profile)
        self.formats = NumberFormats(profile.low, profile.high, decimal)
        self.codes = [text for text in profile.missing_texts if PLAIN.reads(text)]

    def add(self, column: pd.Series) -> None:
        if _are_numbers(column):
            given = self._without_codes(column).dropna()
            self.empty += len(column) - len(given)
            self.formats.add_numbers(given.to_numpy(dtype=float))
        else:
            self.formats.add(self.counted(column))

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
        usual = (PLAIN.words, NumberFormat(self.formats.decimal).words, self.profile.number_format)
        if written.words not in usual:
            shown = next(iter(self.formats.odd.texts))
            text = f"numbers with {written.words} ({shown!r}), read as such"
            yield self.finding(text, serious=False)
        below, above = self.formats.outside
        yield from self._outside(below, "below the smallest", self.profile.low, rows)
        yield from self._outside(above, "above the largest", self.profile.high, rows)

    def _outside(self, n: int, where: str, limit: float, rows: int) -> Iterator[Finding]:
        likely = binom.sf(n - 1, rows, MOST_OUTSIDE / 10)
        if n > MOST_OUTSIDE * rows and likely < LEAST_LIKELY:
            yield self.finding(
                f"{count(n, 'value')} ({percent(n / rows)}) {'is' if n == 1 else 'are'} {where} "
                f"in training ({number(limit)})"
            )


class _Dates(_Column):
    def __init__(self, name: str, profile: ColumnProfile, decimal: str) -> None:
        super().__init__(name, profile)
        self.formats = DateFormats(profile.date_format or "ISO8601")

    def add(self, column: pd.Series) -> None:
        if kind_of(column) == "date":
            self.empty += int(column.isna().sum())
        else:
            self.formats.add(self.counted(column))

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
        super().__init__(name, profile)
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
