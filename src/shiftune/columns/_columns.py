"""Columns of a problem and of its models, by which new rows are read and compared.

`Columns` is what problems and models keep. `NewRows` reads rows that come in parts, and finds what
differs from the rows of training; how numbers, dates and categories are read follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.api import types
from scipy.special import bdtr, bdtrc

from shiftune._wording import alike, count, listed, number, percent
from shiftune.columns._column import (
    PARTS,
    REQUESTED,
    TREND,
    Column,
    ColumnKind,
    as_text,
    days_in,
    described,
    distinct_values,
    in_utc,
    is_code,
    kind_of,
)
from shiftune.columns._formats import (
    MISSING_CODES,
    MISSING_TEXTS,
    PLAIN,
    DateFormats,
    NumberFormat,
    NumberFormats,
    Tally,
    as_numbers,
    format_in_words,
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

    used: dict[str, Column]
    left_out: dict[str, Column] = field(default_factory=dict)
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
        where = np.repeat(list(sites), [len(X) for X in sites.values()])
        found = {}
        for name in sites[target].columns:
            values = pd.concat([X[name] for X in sites.values()], ignore_index=True)
            column = Column(name=name, kind=kind_of(values), distinct=distinct_values(values))
            found[str(name)] = described(column, values, where, target)
        return cls(found, as_given=True)

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
        dates = [column for column in self.values() if column.parts]
        later = (TREND, "month")
        return [
            f"{column.name}_{part}" for column in dates for part in column.parts if part in later
        ]

    @property
    def decisions(self) -> list[str]:
        """What was decided or noticed, by column."""
        remarks = self.overview()["remark"]
        return [f"column {name!r}: {remark}" for name, remark in remarks.items() if remark]

    @property
    def surprises(self) -> list[str]:
        """What was decided without being asked for, by column."""
        return [
            f"column {name!r}: {column.remark}"
            for name, column in {**self.used, **self.left_out}.items()
            if column.converted or not (column.used or column.remark.endswith(REQUESTED))
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
        every = {**self.used, **self.left_out}
        noted = [column.remarked(column.beyond) for column in every.values()]
        rows = [[getattr(column, fact) for fact in facts] for column in noted]
        return pd.DataFrame(rows, pd.Index(every, name="column"), list(facts))

    def __getitem__(self, name: str) -> Column:
        return self.used[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.used)

    def __len__(self) -> int:
        return len(self.used)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it cannot be changed, and every clone of a model asks for a copy

    def __repr__(self) -> str:
        return f"Columns({list(self)})"


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
    columns : Columns
    decimal : "." or ","
        Decimal sign of the file, for 1,234.

    Examples
    --------
    >>> columns = Columns({"seen": Column(name="seen", kind="date", date_format="%d.%m.%Y",
    ...                                   parts=("month",), low=18000, high=18500)})
    >>> table = pd.DataFrame({"seen": ["2020-10-31", "soon"]})
    >>> rows = NewRows(columns).add(table)
    >>> rows.read(table)["seen_month"].to_list()
    [10.0, nan]
    >>> [str(each) for each in rows.findings()]
    ["column 'seen': 1 value is no date ('soon') and counts as missing",
     "column 'seen': 1 date is written year-month-day, in training day.month.year; read as such",
     "column 'seen': all dates are later than those in training (until 2020-08-26), as expected"]
    """

    def __init__(self, columns: Columns, decimal: str = ".") -> None:
        self.columns = columns
        self.rows = 0
        kinds: dict[str, type[_Column]]
        kinds = {"number": _Numbers, "date": _Dates, "category": _Categories}
        self._readers = {
            name: kinds[column.kind](column, decimal) for name, column in columns.items()
        }

    def check_names(self, names: Iterable[Any], identifiers: Sequence[str] = ()) -> list[str]:
        """Check the column names of new rows; return those that training did not have."""
        names = list(map(str, names))
        index = pd.Index(names, dtype=object)
        if lacking := [
            name
            for name, column in self.columns.items()
            if name not in names and not _was_read(column, index)
        ]:
            near = [alike(name, set(names) - set(self.columns)) for name in lacking]
            meant = next((f"; is it {found[0]!r}?" for found in near if found), "")
            raise DataError(
                f"the new rows lack {count(len(lacking), 'column')} that the model reads: "
                f"{listed(lacking, 8)}{meant}"
            )
        if doubled := sorted({n for n in self.columns if names.count(n) > 1}):
            raise DataError(f"the new rows have the column {doubled[0]!r} twice; rename one")
        columns = self.columns
        known = {*columns, *columns.left_out, *columns.others, *identifiers}
        return [name for name in names if name not in known]

    def add(self, table: pd.DataFrame, *, compare: bool = True) -> Self:
        """Count what a part holds; without `compare`, only what decides how it is read."""
        self.rows += len(table)
        for reader in self._readers.values():
            if not _was_read(reader.column, table.columns):
                values = table[_name_in(table.columns, reader.column.name)]
                if compare or not reader.is_typed(values):
                    reader.add(values)
        return self

    def read(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the features of a part that was added, as in training."""
        found: dict[Any, pd.Series] = {}
        for reader in self._readers.values():
            column = reader.column
            if _was_read(column, table.columns):
                found |= {name: table[name] for name in column.features}
            else:
                values = table[_name_in(table.columns, column.name)]
                found |= column.expand(reader.read(values))
        return pd.DataFrame(found, index=table.index)

    def findings(self) -> list[Finding]:
        """Return what is unusual about the rows that were added; the serious ones first."""
        if not self.rows:
            return []
        found = [each for reader in self._readers.values() for each in reader.findings(self.rows)]
        return sorted(found, key=lambda each: not each.serious)


def _was_read(column: Column, names: pd.Index) -> bool:
    """Whether a table has the parts of a date instead of the date."""
    return column.name not in names and all(name in names for name in column.features)


def _name_in(names: pd.Index, name: Any) -> Any:
    """Return the name of a column in a table, where numbers may be text."""
    return name if name in names else str(name)


class _Column(ABC):
    """One column of new rows: counts of all parts, then how it is read."""

    def __init__(self, column: Column, decimal: str) -> None:
        self.column, self.decimal = column, decimal
        self.missing_texts = {*MISSING_TEXTS, *MISSING_CODES, *column.missing_texts}
        self.empty = 0

    @abstractmethod
    def is_typed(self, values: pd.Series) -> bool:
        """Whether values are read one by one: how they are written need not be known."""

    @abstractmethod
    def add(self, values: pd.Series) -> None: ...

    @abstractmethod
    def read(self, values: pd.Series) -> pd.Series: ...

    @abstractmethod
    def about(self, rows: int) -> Iterator[Finding]: ...

    def findings(self, rows: int) -> Iterator[Finding]:
        yield from self.about(rows)
        share, (low, high) = self.empty / rows, self.column.missing_at_sites
        chance = 1.0
        if share > high + _MOST_DIFFERENT:
            chance = float(bdtrc(self.empty - 1, rows, high))
        elif share < low - _MOST_DIFFERENT:
            chance = float(bdtr(self.empty, rows, low))
        if chance < _LEAST_LIKELY:
            before = percent(low) if low == high else f"{percent(low)} to {percent(high)}"
            yield self.finding(f"{percent(share)} of the values are missing, in training {before}")

    def finding(self, text: str, *, serious: bool = True) -> Finding:
        return Finding(str(self.column.name), text, serious)

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
    def __init__(self, column: Column, decimal: str) -> None:
        super().__init__(column, decimal)
        self.formats = NumberFormats(column.low, column.high, decimal, column.number_format)
        texts = pd.Series(column.missing_texts, dtype=object)
        self.codes = texts[as_numbers(texts).notna()].to_list()

    def is_typed(self, values: pd.Series) -> bool:
        return values.dtype.kind == "m" or types.is_numeric_dtype(values)

    def add(self, values: pd.Series) -> None:
        given = self.read(values).dropna() if self.is_typed(values) else self.texts(values)
        self.empty += len(values) - len(given)
        if self.is_typed(values):
            self.formats.add_numbers(given.to_numpy(dtype=float))
        else:
            self.formats.add(given)

    def read(self, values: pd.Series) -> pd.Series:
        if values.dtype.kind == "m":
            values = pd.Series(days_in(values), values.index)
        if not self.is_typed(values):
            return self.formats.decided().read(self.texts(values)).reindex(values.index)
        values = self._without_codes(values)
        return values.astype(float) if types.is_bool_dtype(values) else values

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
        usual = (PLAIN.words, NumberFormat(self.decimal).words, self.column.number_format.words)
        if written.words not in usual:
            shown = next(iter(self.formats.odd.texts))
            text = f"numbers with {written.words} ({shown!r}), read as such"
            yield self.finding(text, serious=False)
        below, above = self.formats.outside
        yield from self._outside(below, "below the smallest", self.column.low, rows)
        yield from self._outside(above, "above the largest", self.column.high, rows)

    def _outside(self, n: int, where: str, limit: float, rows: int) -> Iterator[Finding]:
        likely = bdtrc(n - 1, rows, _MOST_OUTSIDE / 10) if n else 1.0
        if n > _MOST_OUTSIDE * rows and likely < _LEAST_LIKELY:
            yield self.finding(
                f"{count(n, 'value')} ({percent(n / rows)}) {'is' if n == 1 else 'are'} {where} "
                f"in training ({number(limit)})"
            )


class _Dates(_Column):
    def __init__(self, column: Column, decimal: str) -> None:
        super().__init__(column, decimal)
        self.formats = DateFormats(column.date_format or "ISO8601")
        self.earlier = self.later = 0

    def is_typed(self, values: pd.Series) -> bool:
        return kind_of(values) == "date"

    def add(self, values: pd.Series) -> None:
        if not self.is_typed(values):
            self.formats.add(self.texts(values))
        days = days_in(self.read(values))
        self.empty += int(np.isnan(days).sum())
        self.earlier += int((days < np.floor(self.column.low)).sum())
        self.later += int((days >= np.floor(self.column.high) + 1).sum())

    def read(self, values: pd.Series) -> pd.Series:
        if self.is_typed(values):
            for code in self.column.missing_texts:
                values = values.mask(is_code(values, code))
            return in_utc(values)
        return self.formats.read(self.texts(values)).reindex(values.index)

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
        present = rows - self.empty
        for n, which, since, day in (
            (self.later, "later", "until", self.column.high),
            (self.earlier, "earlier", "from", self.column.low),
        ):
            if n > _MOST_OUTSIDE * rows:
                many = "all dates are" if n == present else f"{n:,} of {present:,} dates are"
                yield self.finding(
                    f"{many} {which} than those in training ({since} "
                    f"{pd.Timestamp(0) + pd.Timedelta(days=day):%Y-%m-%d}), as expected",
                    serious=False,
                )


class _Categories(_Column):
    def __init__(self, column: Column, decimal: str) -> None:
        super().__init__(column, decimal)
        self.known = frozenset(column.levels or ())
        self.alike, self.unseen = Tally(), Tally()

    @cached_property
    def same(self) -> dict[str, str]:
        """Levels by a spelling that many others share."""
        spellings = Counter(map(_loose, self.known))
        return {_loose(level): level for level in self.known if spellings[_loose(level)] == 1}

    def is_typed(self, values: pd.Series) -> bool:
        return True  # one value is read without the others

    def add(self, values: pd.Series) -> None:
        levels = self._levels(values).dropna()
        self.empty += len(values) - len(levels)
        if self.column.levels is None:
            return
        for level, n in levels.value_counts().items():
            if level not in self.known:
                same = self.same.get(_loose(str(level)))
                if same is None or without_zeros(same) != level:  # 7 for 007 needs no note
                    (self.unseen if same is None else self.alike).count(str(level), int(n))

    def read(self, values: pd.Series) -> pd.Series:
        if isinstance(values.dtype, pd.CategoricalDtype):
            return values.where(self._levels(values).notna())
        if types.is_bool_dtype(values):
            return values
        codes, levels = pd.factorize(self._levels(values))
        if self.column.levels is None:
            read = [without_zeros(x) for x in levels]  # which spreadsheets drop
        else:
            read = [x if x in self.known else self.same.get(_loose(x), x) for x in levels]
        return pd.Series(np.array([*read, None], dtype=object)[codes], values.index, dtype=object)

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
            text = f"{first!r} is read as {self.same[_loose(first)]!r}{more}"
            yield self.finding(text, serious=False)


def _loose(level: str) -> str:
    """Return a level without differences that spreadsheets and people make: 007 becomes 7."""
    return without_zeros(" ".join(level.split()).casefold().removesuffix(".0"))
