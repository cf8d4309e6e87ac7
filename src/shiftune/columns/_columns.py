"""Columns of a problem and of its models, by which new rows are read and compared.

`Columns` is what problems and models keep. `NewRows` reads rows that come in parts, and finds what
differs from the rows of training; how numbers, dates and categories are read follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.api import types
from scipy.special import bdtr, bdtrc

from shiftune._wording import alike, count, listed, number, percent
from shiftune.columns._column import (
    MOST_OUTSIDE,
    PARTS,
    REQUESTED,
    TREND,
    Column,
    ColumnKind,
    TableRows,
    as_text,
    days_in,
    described,
    in_utc,
    is_code,
    kind_of,
    spelled_like,
    unreadable,
)
from shiftune.columns._formats import (
    MISSING_CODES,
    MISSING_TEXTS,
    PLAIN,
    DateFormats,
    NumberFormat,
    NumberFormats,
    Tally,
    are_like_dates,
    as_numbers,
    counted,
    format_in_words,
    stripped,
    without_zeros,
)
from shiftune.errors import DataError


@dataclass(frozen=True, repr=False)
class Columns(Mapping[str, Column]):
    """Columns of a problem, by name: those that are features; `left_out` has all others.

    Examples
    --------
    >>> columns = Columns.of_kinds({"age": "number", "seen": "date", "sex": "category"})
    >>> table = pd.DataFrame({"id": [7, 8], "sex": ["f", None], "seen": ["1970-01-11", "?"],
    ...                       "age": ["50", "unknown"]})
    >>> columns.read(table)
        age  seen_month  seen_weekday  seen_hour  seen_days   sex
    0  50.0         1.0           6.0        0.0       10.0     f
    1   NaN         NaN           NaN        NaN        NaN  None
    """

    _used: dict[str, Column]
    _left_out: dict[str, Column] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Names of the site, the label and further columns that were never looked at."""
    as_given: bool = False
    """Whether rows stay as they are: nothing was decided."""

    @classmethod
    def of(cls, columns: Iterable[Column], others: Sequence[str] = ()) -> Self:
        """Return columns, those that are used apart from those that are not."""
        named = {str(column.name): column for column in columns}
        return cls(
            {name: column for name, column in named.items() if column.used},
            {name: column for name, column in named.items() if not column.used},
            tuple(map(str, others)),
        )

    @classmethod
    def of_kinds(cls, kinds: Mapping[Any, ColumnKind]) -> Self:
        """Return columns of which only the kinds are known."""
        parts: dict[ColumnKind, tuple[str, ...]] = {"date": (*PARTS, TREND)}
        return cls(
            {str(n): Column(name=n, kind=k, parts=parts.get(k, ())) for n, k in kinds.items()}
        )

    @classmethod
    def of_rows(cls, sites: Mapping[str, pd.DataFrame], target: str) -> Self:
        """Return the columns of rows in which nothing is decided; `sites` include the target."""
        columns = {}
        for name in sites[target].columns:
            values = pd.concat([X[name] for X in sites.values()], ignore_index=True)
            columns[str(name)] = Column(name=name, kind=kind_of(values))
        return cls(columns, as_given=True).of_target(sites, target)

    def of_target(self, sites: Mapping[str, pd.DataFrame], target: str) -> Self:
        """Return the same columns with what the rows of another target hold; `sites` include it."""
        where = np.repeat(list(sites), [len(X) for X in sites.values()])
        rows, used = TableRows(pd.Series(where, dtype=object), target), dict(self._used)
        every = pd.concat(sites.values(), ignore_index=True)
        for name, column in self.items():
            if not column.parts:
                used[name] = described(column, every[column.name], rows)
        return replace(self, _used=used)

    @property
    def left_out(self) -> Mapping[str, Column]:
        """The columns that are not features."""
        return MappingProxyType(self._left_out)

    @property
    def categories(self) -> list[Any]:
        """Names of the features that are categories."""
        return [column.name for column in self.values() if column.kind == "category"]

    @property
    def numbers(self) -> list[Any]:
        """Names of all other features: numbers, and parts of dates."""
        numbers = (column for column in self.values() if column.kind != "category")
        return [name for column in numbers for name in column.features]

    @property
    def identifiers(self) -> list[str]:
        """Names of the columns that identify rows or cases."""
        return [name for name, column in self.left_out.items() if column.identifier]

    @property
    def uncompared(self) -> list[Any]:
        """Features that differ in any later rows: days and months of dates."""
        later = ("month", TREND)
        return [f"{c.name}_{part}" for c in self.values() for part in later if part in c.parts]

    @property
    def decisions(self) -> list[str]:
        """What was decided or noticed, by column; those that were left out come first."""
        return self._told(lambda column: True)

    @property
    def surprises(self) -> list[str]:
        """Decisions that were not asked for; ranges of the target's numbers are notes alone."""
        return self._told(
            lambda column: bool(
                column.unseen or (column.remark and not column.remark.endswith(REQUESTED))
            )
        )

    def _told(self, wanted: Callable[[Column], bool]) -> list[str]:
        """Put what was decided in words, once for columns that are left out for the same reason."""
        alike: dict[str, list[tuple[str, str]]] = {}
        for name, column in [*self._left_out.items(), *self._used.items()]:
            remark = column.remarked(column.beyond).remark
            if remark and wanted(column):
                same = remark if column.used else remark.partition("; ")[0].partition(" (")[0]
                alike.setdefault(same, []).append((name, remark))
        return [
            f"column {some[0][0]!r}: {some[0][1]}"
            if len(some) == 1
            else f"columns {listed([name for name, _ in some], 6)}: {same}"
            for same, some in alike.items()
        ]

    def read(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the features of any table that has these columns, as those of training.

        Rows that were read already stay as they are.
        """
        rows = NewRows(self)
        rows.check_names(table.columns)
        return rows.add(table, compare=False).read(table)

    def overview(self) -> pd.DataFrame:
        """Return a row for every column, used or not: kind, distinct, missing, used, ..."""
        facts = ("kind", "distinct", "missing", "used", "identifier", "remark")
        every = {**self._used, **self._left_out}
        noted = [column.remarked(column.beyond) for column in every.values()]
        rows = [[getattr(column, fact) for fact in facts] for column in noted]
        return pd.DataFrame(rows, pd.Index(every, name="column"), list(facts))

    def __getitem__(self, name: str) -> Column:
        return self._used[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._used)

    def __len__(self) -> int:
        return len(self._used)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it cannot be changed, and every clone of a model asks for a copy

    def __repr__(self) -> str:
        return f"Columns({list(self)})"


# Shares of missing values are reported from this difference on, if it
# cannot be chance: a tail of the binomial distribution.
_MOST_DIFFERENT = 0.1
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
    """New rows in parts, which all decide how a column is read; `decimal` is the file's sign."""

    def __init__(self, columns: Columns, decimal: str = ".") -> None:
        self.columns = columns
        self.rows = 0
        kinds: dict[ColumnKind, type[_Numbers | _Dates | _Categories]]
        kinds = {"number": _Numbers, "date": _Dates, "category": _Categories}
        self._readers = [kinds[column.kind](column, decimal) for column in columns.values()]

    def check_names(self, names: Iterable[Any]) -> None:
        """Refuse new rows that lack a column, or have it twice."""
        names = list(map(str, names))
        index, columns = pd.Index(names, dtype=object), self.columns
        there = set(names)
        if lacking := [n for n in columns if n not in there and not _was_read(columns[n], index)]:
            near = [alike(name, there - set(columns)) for name in lacking]
            add = f"; add {'it' if len(lacking) == 1 else 'them'}, with empty cells if unknown"
            meant = next((f"; is it {names[0]!r}?" for names in near if names), add)
            raise DataError(
                f"the new rows lack {count(len(lacking), 'column')} that the model reads: "
                f"{listed(lacking, 8)}{meant}"
            )
        if doubled := sorted(set(index[index.duplicated()]) & set(columns)):
            raise DataError(f"the new rows have the column {doubled[0]!r} twice; rename one")

    def about_names(self, names: Iterable[Any], identifiers: Sequence[str] = ()) -> list[str]:
        """Note the columns that training did not have."""
        expected = {*self.columns, *self.columns.left_out, *self.columns.others, *identifiers}
        expected |= {name for column in self.columns.values() for name in map(str, column.features)}
        if not (unknown := [name for name in map(str, names) if name not in expected]):
            return []
        verb = "column is" if len(unknown) == 1 else "columns are"
        return [f"{len(unknown)} {verb} ignored, being unknown from training: {listed(unknown)}"]

    def add(self, table: pd.DataFrame, *, compare: bool = True) -> Self:
        """Count what a part holds; without `compare`, only what decides how it is read."""
        self.rows += len(table)
        for reader in self._readers:
            if not _was_read(reader.column, table.columns):
                values = _in_table(table, reader.column)
                if compare or not reader.is_typed(values):
                    reader.add(values)
        return self

    def read(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the features of a part that was added, as in training."""
        features: dict[Any, pd.Series] = {}
        for reader in self._readers:
            column = reader.column
            if _was_read(column, table.columns):
                features |= {name: table[name] for name in column.features}
            else:
                features |= column.expand(reader.read(_in_table(table, column)))
        return pd.DataFrame(features, index=table.index)

    def findings(self) -> list[Finding]:
        """Return what is unusual about the rows that were added; the serious ones first."""
        both = ([*r.about(self.rows), *r.about_missing(self.rows)] for r in self._readers)
        return sorted(
            chain.from_iterable(both) if self.rows else (), key=lambda finding: not finding.serious
        )


def _was_read(column: Column, names: pd.Index) -> bool:
    """Whether a table has the parts of a date instead of the date."""
    return column.name not in names and all(name in names for name in column.features)


def _in_table(table: pd.DataFrame, column: Column) -> pd.Series:
    """Return the values of a column; names that are numbers may be text in a table."""
    return table[column.name if column.name in table.columns else str(column.name)]


class _Reader:
    """One column of new rows: counts of all parts, then how it is read."""

    def __init__(self, column: Column, decimal: str) -> None:
        self.column, self.decimal = column, decimal
        self.empty = 0
        self.missing_texts = {*MISSING_TEXTS, *MISSING_CODES, *column.missing_texts}
        # What values that are not text can be, too: numbers, and dates with day, month and year.
        codes, dates = pd.Series(column.missing_texts, dtype=object), column.kind == "date"
        self.codes = codes[are_like_dates(codes) if dates else as_numbers(codes).notna()]

    def is_typed(self, values: pd.Series) -> bool:
        """Whether values are read one by one: how they are written need not be known."""
        if self.column.kind == "number":
            return values.dtype.kind == "m" or types.is_numeric_dtype(values)
        return self.column.kind in ("category", kind_of(values))

    def given(self, values: pd.Series) -> pd.Series:
        """Return values, without those that training took for missing; text without spaces."""
        if not self.is_typed(values):
            values = stripped(values.astype("string"), self.missing_texts)
        for code in self.codes:
            values = values.mask(is_code(values, code))
        return values

    def about_missing(self, rows: int) -> Iterator[Finding]:
        share, (low, high) = self.empty / rows, self.column.missing_at_sites
        chance = 1.0
        if share > high + _MOST_DIFFERENT:
            chance = float(bdtrc(self.empty - 1, rows, high))
        elif share < low - _MOST_DIFFERENT:
            chance = float(bdtr(self.empty, rows, low))
        if chance < _LEAST_LIKELY:
            before = percent(low) if low == high else f"{percent(low)} to {percent(high)}"
            yield self.finding(f"{percent(share)} of the values are missing (in training {before})")

    def finding(self, text: str, *, serious: bool = True) -> Finding:
        return Finding(str(self.column.name), text, serious)

    def unreadable(self, strange: Tally) -> Iterator[Finding]:
        if n := strange.total:
            yield self.finding(unreadable(self.column.kind, n, strange.shown))


class _Numbers(_Reader):
    def __init__(self, column: Column, decimal: str) -> None:
        super().__init__(column, decimal)
        self.formats = NumberFormats(column.low, column.high, decimal, column.number_format)

    def add(self, values: pd.Series) -> None:
        if self.is_typed(values):
            present = self.read(values).dropna()
            self.formats.add_numbers(present.to_numpy(dtype=float))
        else:
            present = self.given(values).dropna()
            self.formats.add(present)
        self.empty += len(values) - len(present)

    def read(self, values: pd.Series) -> pd.Series:
        if values.dtype.kind == "m":
            values = pd.Series(days_in(values), values.index)
        present = self.given(values)
        if not self.is_typed(values):
            return self.formats.decided().read(present)
        return present.astype(float) if types.is_bool_dtype(present) else present

    def about(self, rows: int) -> Iterator[Finding]:
        yield from self.unreadable(self.formats.strange)
        written = self.formats.decided()
        usual = (PLAIN.words, NumberFormat(self.decimal).words, self.column.number_format.words)
        if written.words not in usual:
            shown = next(iter(self.formats.odd.texts))
            text = f"numbers with {written.words} ({shown!r}), read as such"
            yield self.finding(text, serious=False)
        places = (("below the smallest", self.column.low), ("above the largest", self.column.high))
        for n, (where, limit) in zip(self.formats.outside, places, strict=True):
            many = n > MOST_OUTSIDE * rows
            if many and bdtrc(n - 1, rows, MOST_OUTSIDE / 10) < _LEAST_LIKELY:
                yield self.finding(
                    f"{count(n, 'value')} ({percent(n / rows)}) {'is' if n == 1 else 'are'} "
                    f"{where} in training ({number(limit)})"
                )


class _Dates(_Reader):
    def __init__(self, column: Column, decimal: str) -> None:
        super().__init__(column, decimal)
        self.formats = DateFormats(column.date_format or "ISO8601")
        self.earlier = self.later = 0

    def add(self, values: pd.Series) -> None:
        if not self.is_typed(values):
            self.formats.add(self.given(values).dropna())
        days = days_in(self.read(values))
        self.empty += int(np.isnan(days).sum())
        self.earlier += int((days < np.floor(self.column.low)).sum())
        self.later += int((days >= np.floor(self.column.high) + 1).sum())

    def read(self, values: pd.Series) -> pd.Series:
        present = self.given(values)
        return in_utc(present) if self.is_typed(values) else self.formats.read(present)

    def about(self, rows: int) -> Iterator[Finding]:
        yield from self.unreadable(self.formats.strange)
        trained = format_in_words(self.formats.expected)
        for date_format, dates in self.formats.others.items():
            verb = "date is" if dates == 1 else "dates are"
            yield self.finding(
                f"{dates:,} {verb} written {format_in_words(date_format)} (in training {trained}) "
                "and read as such",
                serious=False,
            )
        present = rows - self.empty
        for n, which, since, day in (
            (self.later, "later", "until", self.column.high),
            (self.earlier, "earlier", "since", self.column.low),
        ):
            if n > MOST_OUTSIDE * rows:
                many = "all dates are" if n == present else f"{n:,} of {present:,} dates are"
                limit = f"{pd.Timestamp(0) + pd.Timedelta(days=day):%Y-%m-%d}"
                text = f"{many} {which} than those in training ({since} {limit})"
                later = which == "later"
                yield self.finding(text + ", as expected" * later, serious=not later)


class _Categories(_Reader):
    def __init__(self, column: Column, decimal: str) -> None:
        super().__init__(column, decimal)
        self.known = frozenset(column.levels or ())
        self.alike, self.unseen = Tally(), Tally()
        self.same: dict[str, str] = {}

    def add(self, values: pd.Series) -> None:
        levels = self._levels(values).dropna()
        self.empty += len(values) - len(levels)
        if self.column.levels is None:
            return
        counts = counted(levels)
        self.same |= (same := spelled_like(self.known, counts.index))
        for level, n in counts.items():
            if level not in self.known and without_zeros(same.get(str(level), "")) != level:
                (self.alike if level in same else self.unseen).count({str(level): int(n)})

    def read(self, values: pd.Series) -> pd.Series:
        if types.is_bool_dtype(values):
            return values
        codes, levels = pd.factorize(self._levels(values))
        same = spelled_like(self.known, levels)
        if isinstance(values.dtype, pd.CategoricalDtype) and not same:
            return values.where(codes >= 0)
        # Of very many codes, those without the zeros that spreadsheets drop.
        texts = (without_zeros(x) if self.column.levels is None else same.get(x, x) for x in levels)
        read = np.array([*texts, None], dtype=object)[codes]
        dtype = "category" if isinstance(values.dtype, pd.CategoricalDtype) else object
        return pd.Series(read, values.index, dtype=dtype)

    def _levels(self, values: pd.Series) -> pd.Series:
        levels = as_text(values)
        empty = {*MISSING_TEXTS, *self.column.missing_texts} - self.known
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
            text = f"{first!r} is read as {self.same[first]!r}{more}"
            yield self.finding(text, serious=False)
