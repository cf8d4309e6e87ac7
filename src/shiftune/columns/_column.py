"""One column of a table: how it is written, what it held, and what was decided about it.

`learn` decides from the rows of all sites what a column holds, and whether a model should see it:
`typed` reads it, `described` says what it holds, and `_decided` may leave it out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types
from scipy.special import fdtrc, kolmogorov

from shiftune._names import Task
from shiftune._wording import count, listed, number, percent, shortened
from shiftune.columns._formats import (
    MISSING_CODES,
    MISSING_TEXTS,
    MOST_STRANGE,
    PLAIN,
    TRUTH,
    DateFormats,
    NumberFormat,
    NumberFormats,
    are_whole,
    as_numbers,
    counted,
    date_formats_by_site,
    find_format,
    first_code,
    format_in_words,
    number_formats_by_site,
    on_distinct,
    parse_dates,
    stripped,
    with_levels,
    without_zeros,
)
from shiftune.errors import DataError

ColumnKind = Literal["number", "category", "date"]
Mask = NDArray[np.bool_]
# Types of objects that are neither numbers nor text.
_UNUSABLE = (list, dict, set, bytes, bytearray, np.ndarray)
Option = Callable[[str, str], str]
"""Writes an option of the user, from its name and value."""

# A text column is read as numbers if at most this many different texts stand among them ("unknown",
# ">90"). Codes such as 250, V45, E909 have more, and are categories.
_MOST_STRANGE_TEXTS = 5
_MANY_CATEGORIES = 50
# Columns with more levels are not compared level by level.
_MOST_LEVELS = 5_000

# A table with fewer rows does not show which columns are identifiers.
_FEWEST_IDENTIFIED_ROWS = 20
# Different values per row above which a column may be an identifier of rows.
_ROW_SHARE = 0.9
# Levels of the tests that whole numbers are spread evenly, and that they help to predict the label
# in up to ten intervals of about 25 rows (benchmarks/columns.py).
_UNEVEN = _HELPS = 0.05
# Fewer rows show neither.
_FEWEST_TESTED_ROWS = 100
# Numbers in the order of the rows are more likely row numbers than sorted quantities.
_UNEVEN_ROWS = 1e-3
_INTERVALS, _ROWS_OF_INTERVAL = 10, 25
# A column named like an identifier of cases with several rows (visits of a patient) may be a code
# with a meaning if it has few values.
_MANY_CODES = 20
# An identifier of cases has many values, and not many rows of each.
_MOST_ROWS_OF_A_CASE = 20

_ROW_NAME = re.compile(
    r"(^|[^a-z])(id|uuid|guid|pid|mrn)([^a-z]|$)|^unnamed: |^(rownames?|row|row_?number|obs)$"
)
# Not index, row or key in front, which also name quantities.
_CASE_NAME = re.compile(
    r"^(id|uuid|guid)([^a-z]|$)|[^a-z](key|nr|no)$|(^|[^a-z])(id|uuid|guid|pid|mrn)$"
    r"|^(patient|subject|participant|person|customer)$"
)
_NUMBER_NAME = re.compile(r"[^a-z](key|nr|no)$")

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

# A date is read as what can recur. Days since 1970, a trend, are a feature only if the target's
# dates lie within those of the sources: elsewhere nothing can be learned from them.
PARTS: dict[str, Callable[[pd.Series], pd.Series]] = {
    "month": lambda dates: dates.dt.month,
    "weekday": lambda dates: dates.dt.day_of_week,
    "hour": lambda dates: dates.dt.hour,
}
TREND = "days"
REQUESTED = "as requested"
_MOST_OUTSIDE_TREND = 0.1
# Numbers outside the range of the others are reported from this share of the rows on.
MOST_OUTSIDE = 0.05


def python_option(name: str, value: str) -> str:
    """Write an option of `ShiftProblem.from_frame`, such as keep=['id']."""
    if name == "missing":
        column, _, code = value.rpartition("=")
        return f"missing={{{column!r}: {code}}}"
    if name == "date_format":
        return f"dates={value!r}"
    if name in ("keep", "drop", "id", "features"):
        return f"{name.replace('id', 'ids')}={[value]!r}"
    return f"{name}={value!r}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: how it is written, what it held in the rows of a problem, what was decided.

    Examples
    --------
    >>> sites = pd.Series(["B", "B", "A"])
    >>> age = pd.Series(["50", "71,5", "?"], name="age")
    >>> column, values = learn(age, TableRows(sites, "A"))
    >>> column.kind, column.number_format.decimal, column.high, values.to_list()
    ('number', ',', 71.5, [50.0, 71.5, nan])
    """

    name: Any
    kind: ColumnKind
    distinct: int = 0
    """Number of different values."""
    used: bool = True
    """Whether it is a feature."""
    identifier: bool = False
    """Whether it only identifies rows or cases."""
    remark: str = ""
    """What was noticed or decided, and why; empty if nothing."""
    beyond: str = ""
    """What the target's rows have that no source has; empty if nothing."""
    unseen: float = 0.0
    """Share of the target's rows with a category that no source has."""
    date_format: str = ""
    """Of dates written as text; empty otherwise."""
    number_format: NumberFormat = PLAIN
    """Of numbers written as text."""
    missing_texts: tuple[str, ...] = ()
    """What counts as missing among the values."""
    missing: float = 0.0
    """Share of all rows without a value."""
    missing_at_sites: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest share of rows without a value, over all sites."""
    low: float = np.nan
    """Smallest number, or day since 1970, of all sites; NaN for categories."""
    high: float = np.nan
    """Largest number, or day since 1970, of all sites; NaN for categories."""
    levels: tuple[str, ...] | None = None
    """Categories of the sites with labels, as text; None where there are too many."""
    parts: tuple[str, ...] = ()
    """What is read of a date: month, weekday, hour, days."""

    @property
    def features(self) -> list[Any]:
        """Names of the features that are made of it."""
        return [f"{self.name}_{part}" for part in self.parts] if self.parts else [self.name]

    def left_out(self, why: str, *, identifier: bool = False) -> Column:
        """Return the same column, not used."""
        remark = f"left out: {why}"
        return replace(self, used=False, identifier=identifier, remark=remark, beyond="")

    def remarked(self, remark: str) -> Column:
        """Return the same column with one more remark."""
        return replace(self, remark="; ".join(filter(None, (self.remark, remark))))

    def expand(self, values: pd.Series) -> dict[Any, pd.Series]:
        """Return the features of values that were read: those of a date are its parts.

        A trend goes on beyond the rows of training as it was at their ends.
        """
        if not self.parts:
            return {self.name: values}
        parts = {}
        for name, part in zip(self.features, self.parts, strict=True):
            if part == TREND:
                numbers = days_in(values)
                if not np.isnan(self.low):
                    numbers = numbers.clip(self.low, self.high)
            else:
                numbers = PARTS[part](values).to_numpy(dtype=float, na_value=np.nan)
            parts[name] = pd.Series(numbers, values.index)
        return parts


def kind_of(column: pd.Series) -> ColumnKind:
    """Return the kind of a column: number, category (also text and booleans) or date."""
    if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column):
        return "date"
    if types.is_bool_dtype(column) or not types.is_numeric_dtype(column):
        return "category"
    return "number"


def days_in(column: pd.Series) -> NDArray[np.float64]:
    """Days since 1970 of every date, or length in days, shape (n,); missing dates are NaN."""
    # in whole seconds, so that any year fits
    if column.dtype.kind == "m":
        values = column.to_numpy(dtype="timedelta64[s]")
    else:
        values = in_utc(column).to_numpy(dtype="datetime64[s]")
    days: NDArray[np.float64] = values.astype(np.int64) / 86_400
    return np.where(np.isnat(values), np.nan, days)


def in_utc(column: pd.Series) -> pd.Series:
    """Return dates without a time zone, as dates in text are read."""
    return column.dt.tz_convert(None) if isinstance(column.dtype, pd.DatetimeTZDtype) else column


def as_text(column: pd.Series) -> pd.Series:
    """Return categories as text without spaces around it; whole numbers have no decimals."""
    if types.is_float_dtype(column) and are_whole(column.dropna()):
        column = column.astype("Int64")
    # 1 and True are different texts, but the same object
    codes, values = pd.factorize(column.astype("string") if column.dtype == object else column)
    texts = pd.Series(values).astype("string").str.strip()
    return pd.Series(np.array([*texts, None], dtype=object)[codes], column.index, dtype=object)


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table, beside their columns: sites and labels.

    Sites may write numbers and dates in different ways; new rows will be written as those of the
    `target` are. `labels` are missing where there are none. `decimal` is the sign of the file, and
    `option` writes an option, with a column name, as the user would. `further` are more targets.
    """

    sites: pd.Series
    target: str = ""
    labels: pd.Series | None = None
    task: Task | None = None
    decimal: str = "."
    option: Option = python_option
    further: Sequence[str] = ()

    @cached_property
    def codes(self) -> NDArray[np.intp]:
        """Number of every row's site, shape (n,)."""
        return pd.factorize(self.sites)[0]

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """Number of rows of every site, shape (k,)."""
        return np.bincount(self.codes)

    @cached_property
    def inside(self) -> Mask:
        """Rows of the targets, shape (n,)."""
        return self.sites.isin([self.target, *self.further]).to_numpy(dtype=bool)

    @cached_property
    def labelled(self) -> Mask:
        """Rows of the sources, and those of the target with a label, shape (n,)."""
        return ~self.inside if self.labels is None else ~self.inside | self.labels.notna()

    def helps(self, values: pd.Series) -> bool:
        """Whether the label differs over intervals of a column within sites, by F tests.

        Both are ranked within sites, quantities at least; of classes each has a test. About 25 rows
        have an interval. Without labels nothing helps.
        """
        if self.labels is None:
            return False
        both = (values.notna() & self.labels.notna()).to_numpy()
        where, y = self.codes[both], self.labels[both]
        n, k = len(where), len(pd.unique(where))
        b = int(np.clip(n // _ROWS_OF_INTERVAL, 2, _INTERVALS))
        if n - k - b < 1:
            return True
        if self.task == "classification" or not types.is_numeric_dtype(y) or y.nunique() <= 2:
            classes = y.value_counts().index[:_INTERVALS]
            Y = pd.DataFrame({c: (y == name).astype(float) for c, name in enumerate(classes)})
        else:
            Y = pd.DataFrame({"y": y.astype(float).groupby(where).rank(pct=True)})
        Y = Y - Y.groupby(where).transform("mean")
        ranks = values[both].astype(float).groupby(where).rank(method="first", pct=True)
        interval = np.minimum((ranks * b).to_numpy().astype(int), b - 1)
        means = Y.groupby(interval).transform("mean")
        between, within = (means**2).sum(), ((Y - means) ** 2).sum()
        F = (between / (b - 1)) / (within / (n - k - b + 1)).clip(lower=1e-300)
        return bool(fdtrc(b - 1, n - k - b + 1, F.to_numpy()).min() * len(F) < _HELPS)


# ------------------------------------------------------------ decide what a column holds


def learn(
    column: pd.Series, rows: TableRows, *, keep: bool = False, date_format: str | None = None
) -> tuple[Column, pd.Series]:
    """Decide from all rows what a column holds; return it with its values as a model sees them.

    With `keep` the column is used in any case. `date_format` is tried first.
    """
    learned, values = typed(column, rows, date_format)
    is_text = isinstance(values.dtype, pd.CategoricalDtype) and types.is_string_dtype(column.dtype)
    if is_text:
        learned, values = _spelled_alike(learned, values, rows.labelled)
    learned = described(learned, values, rows)
    if learned.kind == "number":
        learned = learned.remarked(question_about(values, rows.option))
    if keep and learned.kind == "date":
        learned = replace(learned, parts=learned.parts or (TREND,))
    if not keep:
        learned = _decided(learned, values, rows)
    if is_text:
        texts = pd.Series(np.array([*values.cat.categories, None], dtype=object))
        texts = texts.infer_objects().take(values.cat.codes.to_numpy())  # -1 is the missing one
        values = pd.Series(texts.array, values.index, name=column.name)
    return learned, values


def _spelled_alike(column: Column, values: pd.Series, labelled: Mask) -> tuple[Column, pd.Series]:
    """Give categories the most frequent spelling of the sources, as new rows will have it."""
    counts = counted(values[labelled])
    if len(counts) > _MOST_LEVELS:
        return column, with_levels(values, without_zeros)
    usual: dict[str, str] = {}
    for level in counts.index:
        usual.setdefault(_loose(level), level)
    levels = values.cat.categories
    same = {level: usual[_loose(level)] for level in levels if _loose(level) in usual}
    if changed := [level for level in same if same[level] != level]:
        values = with_levels(values, lambda level: same.get(level, level))
        shown = [f"{level!r} is read as {same[level]!r}" for level in changed]
        column = column.remarked(listed(shown, 3, quoted=False))
    return column, values


def spelled_like(levels: Iterable[str], texts: Iterable[str]) -> dict[str, str]:
    """Map texts to the one level that differs from them in spelling alone (see `_loose`)."""
    levels = set(levels)
    spellings = Counter(map(_loose, levels))
    same = {_loose(level): level for level in levels if spellings[_loose(level)] == 1}
    return {x: same[_loose(x)] for x in texts if x not in levels and _loose(x) in same}


def _loose(level: str) -> str:
    """Return a level without differences that spreadsheets and people make: 007 becomes 7."""
    return without_zeros(" ".join(level.split()).casefold().removesuffix(".0"))


def described(column: Column, values: pd.Series, rows: TableRows) -> Column:
    """Return a column with what it holds: missing values, range or levels, parts of dates."""
    missing = values.isna().to_numpy()
    at_sites = np.bincount(rows.codes[missing], minlength=len(rows.sizes)) / rows.sizes
    learned = replace(
        column,
        distinct=int(values.nunique()),
        missing=float(missing.mean()),
        missing_at_sites=(float(at_sites.min()), float(at_sites.max())),
    )
    if column.kind == "category":
        seen = as_text(pd.Series(values[rows.labelled].unique()).dropna())
        if len(seen) <= _MOST_LEVELS:
            learned = replace(learned, levels=tuple(sorted(seen)))
    elif not missing.all():
        dates = column.kind == "date"
        numbers = days_in(values) if dates else values.to_numpy(float, na_value=np.nan)
        parts = _parts_of(values, pd.Series(numbers), rows) if dates else ()
        low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
        learned = replace(learned, low=low, high=high, parts=parts)
    unseen, beyond = _beyond(learned, values, rows)
    return replace(learned, unseen=unseen, beyond=beyond)


def _parts_of(dates: pd.Series, days: pd.Series, rows: TableRows) -> tuple[str, ...]:
    """Return what of a date differs; its days only if the target's lie within those of a source."""
    if dates.dtype.kind == "m":
        return (TREND,)
    parts = [part for part, of in PARTS.items() if len(of(dates).dropna().unique()) > 1]
    of_target, others = days[rows.inside].dropna().to_numpy(), days[~rows.inside]
    if len(of_target) and others.min() < others.max():
        ends = others.groupby(rows.codes[~rows.inside]).agg(["min", "max"]).to_numpy()
        within = np.any([(of_target >= low) & (of_target <= high) for low, high in ends], axis=0)
        if 1 - within.mean() <= _MOST_OUTSIDE_TREND:
            parts.append(TREND)
    return tuple(parts)


def _decided(column: Column, values: pd.Series, rows: TableRows) -> Column:
    """Return a column, left out if no model should see it."""
    option = rows.option
    if why := _useless(column, values, rows.inside):
        return column.left_out(why)
    uses = f"; {option('keep', str(column.name))} uses it"
    if why := _copies_site(column, values, rows):
        return column.left_out(why + uses)
    name = re.sub("([a-z])(ID|Id|Nr|No)$", r"\1_\2", str(column.name)).lower()
    why, identifier = _names_rows(column, values, rows, name)
    if identifier:
        return column.left_out(why + uses, identifier=True)
    if why:
        return column.remarked(f"{why}; to leave it out: {option('drop', str(column.name))}")
    few = column.distinct <= _MANY_CODES
    if few or not _CASE_NAME.search(name) or not _may_be_codes(column, values):
        return column
    present = int(values.count())
    remark = f"named like an identifier, {column.distinct} values in {present} rows; "
    rows_of_a_case = present / column.distinct
    are_cases = column.distinct > _MANY_CATEGORIES and rows_of_a_case <= _MOST_ROWS_OF_A_CASE
    # lymphocytes_no may be a number of them
    unsure = column.kind == "number" and _NUMBER_NAME.search(name)
    if are_cases and not (unsure and rows.helps(values)):
        keep = option("keep", str(column.name))
        return column.left_out(f"{remark}to use it: {keep}", identifier=True)
    return column.remarked(f"{remark}if it is one: {option('id', str(column.name))}")


def _useless(column: Column, values: pd.Series, inside: Mask) -> str:
    present = values.notna().to_numpy()
    if not present.any():
        return "empty"
    if column.distinct == 1 and present.all():
        value = values.iloc[0]
        text = repr(value.item() if isinstance(value, np.generic) else value)
        return f"the same value in every row ({shortened(text, 30)})"
    if not np.any(present & inside):
        return "empty at the target, so no model can use it there"
    if not np.any(present & ~inside):
        return "empty at every source, so no model can learn from it"
    if column.kind == "date" and not column.parts:
        return "dates whose month, weekday and hour are the same in every row"
    return ""


def _copies_site(column: Column, values: pd.Series, rows: TableRows) -> str:
    """Say why a column is the site under another name: it is the same in all rows of a site.

    No two sites share a value, or the target shares its category or date with none, so that nothing
    can be learned from it. Numbers with decimals may be quantities of sites, such as a mean income,
    and stay.
    """
    if not 2 <= column.distinct <= len(rows.sizes):
        return ""
    if column.kind != "date" and not _may_be_codes(column, values):
        return ""
    codes, names = pd.factorize(values)
    has = np.zeros((len(rows.sizes), len(names) + 1), dtype=bool)  # the last one is missing
    has[rows.codes, codes] = True
    has = has[:, : len(names)]
    if has.sum(axis=1).max() > 1:
        return ""
    if has.sum(axis=0).max() == 1:
        return "one value per site, so it is the site under another name"
    inside = np.isin(np.arange(len(has)), rows.codes[rows.inside])
    if column.kind != "number" and not (has[inside].any(axis=0) & has[~inside].any(axis=0)).any():
        return "one value per site, and no source has that of the target"
    return ""


def _beyond(column: Column, values: pd.Series, rows: TableRows) -> tuple[float, str]:
    """Return the share of target rows with unseen categories, and what lies beyond the sources."""
    n = int(rows.inside.sum())
    if column.kind == "category" and column.levels is not None:
        counts = counted(as_text(values[rows.inside].dropna()))
        new = counts[~counts.index.isin(column.levels)]
        if m := int(new.sum()):
            have = "has a category" if m == 1 else "have categories"
            return m / n, (
                f"{count(m, 'row')} of the target ({percent(m / n)}) {have} that no source has: "
                f"{listed(new.index, 3)}"
            )
    if column.kind == "number":
        numbers, remarks = values.to_numpy(float, na_value=np.nan), []
        of_target, others = numbers[rows.inside], numbers[~rows.inside]
        others = others[~np.isnan(others)]
        # Of n rows from one distribution, a share of 7 / n lies beyond the others with p = e^-7.
        most = n * max(MOST_OUTSIDE, 7 / max(len(others), 1))
        low, high = (others.min(), others.max()) if len(others) else (np.nan, np.nan)
        for outside, where, limit in (
            (of_target < low, "below the smallest", low),
            (of_target > high, "above the largest", high),
        ):
            if (m := int(outside.sum())) > most:
                remarks.append(
                    f"{count(m, 'row')} of the target ({percent(m / n)}) "
                    f"{'is' if m == 1 else 'are'} {where} of all sources ({number(float(limit))})"
                )
        return 0.0, ", ".join(remarks)
    if column.kind == "date" and column.parts and TREND not in column.parts:
        return 0.0, "the target's dates lie outside every source's, so only what recurs is used"
    return 0.0, ""


def typed(
    column: pd.Series, rows: TableRows | None = None, date_format: str | None = None
) -> tuple[Column, pd.Series]:
    """Return a column with its kind, and its values; other texts become categorical.

    Text that is nearly all numbers or dates is converted. Without `rows`, all are of one site. See
    `learn`.
    """
    name, rows = column.name, rows or TableRows(pd.Series("", column.index))
    if flaw := flaw_of(column):
        unusable = column.astype(object).map(lambda value: isinstance(value, _UNUSABLE)).to_numpy()
        first = rows.sites.iloc[int(unusable.argmax())]
        raise DataError(f"site {first!r}: column {name!r} {flaw}")
    column = _of_one_type(column)
    if date_format is not None and types.is_integer_dtype(column):  # 20231231
        column = as_text(column)
    if types.is_timedelta64_dtype(column):
        days = pd.Series(days_in(column), column.index, name=name)
        return Column(name=name, kind="number", remark="durations in days"), days
    learned = Column(name=name, kind=kind_of(column))
    if not types.is_string_dtype(column.dtype):
        return learned, column
    if column.dtype == object and types.infer_dtype(column) not in ("string", "empty"):
        return learned, pd.Series(stripped(as_text(column)), name=name)
    text = stripped(column)
    levels = with_levels(text, lambda level: None if level in MISSING_TEXTS else level)
    if len(levels.cat.categories) and TRUTH.issuperset(levels.cat.categories):
        levels = with_levels(levels, str.capitalize)
        return learned, levels if levels.isna().any() else pd.Series(levels == "True", name=name)
    present = with_levels(levels, lambda level: None if level in MISSING_CODES else level).dropna()
    if present.empty:
        return learned, levels

    read = _dates(learned, present, rows, date_format) or _numbers(learned, present, rows)
    if read is None:
        return replace(learned, remark=_about_categories(present, present)), levels
    converted, values = read
    kind, strange = converted.kind, present[values.isna()]
    # 007 is a code, not a number
    if kind == "number" and (
        _are_many(strange, present) or first_code(present.cat.categories.to_numpy())
    ):
        return replace(learned, remark=_about_categories(strange, present)), levels
    remarks = [converted.remark]
    if n := int(text.count()) - len(present):
        codes = [level for level in text.cat.categories if level not in present.cat.categories]
        remarks.append(f"{listed(codes)} in {count(n, 'row')} counts as missing")
    if len(strange):
        shown = listed(strange.unique(), _MOST_STRANGE_TEXTS)
        remarks.append(unreadable(kind, len(strange), shown))
    converted = replace(
        converted,
        remark="; ".join(filter(None, remarks)) or "numbers written as text",
        missing_texts=tuple(map(str, strange.unique())),
    )
    return converted, pd.Series(values.reindex(column.index), name=name)


def unreadable(kind: ColumnKind, n: int, shown: str) -> str:
    """Say how many values are not numbers, or dates, and that they count as missing."""
    verbs = (f"is not a {kind}", "counts") if n == 1 else (f"are not {kind}s", "count")
    return f"{count(n, 'value')} {verbs[0]} ({shown}) and {verbs[1]} as missing"


def flaw_of(column: pd.Series) -> str:
    """Say why a column cannot be a feature, and what to do; empty if it can."""
    if unusable := unusable_types(column):
        return (
            f"holds values of type {', '.join(unusable)}; features are numbers, text, booleans or "
            "dates: leave it out"
        )
    if isinstance(column.dtype, pd.SparseDtype):
        return "is sparse; use X.sparse.to_dense() first"
    return "holds complex numbers; use the real part" if column.dtype.kind == "c" else ""


def unusable_types(column: pd.Series) -> list[str]:
    """Return the names of types in a column that are neither numbers, text nor dates."""
    return sorted(kind.__name__ for kind in types_in(column) if issubclass(kind, _UNUSABLE))


def types_in(column: pd.Series) -> set[type]:
    """Return the types of the objects in a column; none where it has numbers, text or dates."""
    dtype = column.dtype
    values = dtype.categories if isinstance(dtype, pd.CategoricalDtype) else column
    if isinstance(values.dtype, pd.ArrowDtype) and issubclass(values.dtype.type, _UNUSABLE):
        return {values.dtype.type}
    if values.dtype != object or types.infer_dtype(values) == "string":
        return set()
    return {type(value) for value in values[values.notna()]}


def _of_one_type(column: pd.Series) -> pd.Series:
    """Return cells of a spreadsheet, a database or JSON as numbers or dates; as text if any is."""
    if isinstance(column.dtype, pd.ArrowDtype) and column.dtype.type in (date, Decimal):
        column = column.astype(object)
    if not types.is_object_dtype(column) or not column.count():
        return in_utc(column)
    kind = types.infer_dtype(column, skipna=True)
    if kind in ("date", "datetime", "datetime64"):
        return pd.to_datetime(column, utc=True).dt.tz_localize(None)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        with suppress(OverflowError):  # of integers beyond floats, which are read as text has them
            return pd.to_numeric(column.where(column.notna(), np.nan).astype(float))
        return column.where(column.isna(), column.map(str))
    if any(isinstance(value, str) for value in column.dropna()):
        return column.where(column.isna(), column.map(str))
    return column


def _dates(
    column: Column, texts: pd.Series, rows: TableRows, preferred: str | None
) -> tuple[Column, pd.Series] | None:
    """Read dates; with slashes, some sites may write the day first, and others the month."""
    if preferred is None and (by_site := date_formats_by_site(texts, rows.sites)):
        of_rows = rows.sites[texts.index].map(by_site)
        read_parts = [parse_dates(part, form) for form, part in texts.groupby(of_rows)]
        dates = pd.concat(read_parts).loc[texts.index]
        if dates.isna().mean() <= MOST_STRANGE:
            how = _at_sites({site: format_in_words(form) for site, form in by_site.items()})
            of_target = by_site.get(rows.target, of_rows.iloc[0])
            read = replace(column, kind="date", remark=f"dates ({how})", date_format=of_target)
            return read, dates
    if (expected := find_format(texts, preferred)) is None:
        return None
    formats = DateFormats(expected)
    formats.add(texts)
    if formats.strange.total > MOST_STRANGE * len(texts):
        return None
    others = [format_in_words(form) for form in formats.others]
    also = f", also {listed(others, quoted=False)}" if others else ""
    possible = _also_possible(texts, expected, rows.option, asked=expected == preferred)
    how = f"dates ({format_in_words(expected)}{also}{possible})"
    read = replace(column, kind="date", remark=how, date_format=formats.usual)
    return read, formats.read(texts)


def _also_possible(texts: pd.Series, expected: str, option: Option, *, asked: bool) -> str:
    """Point out that day and month may be the other way round."""
    other = re.sub("%[dm]", lambda part: "%m" if part[0] == "%d" else "%d", expected)
    clear = "." in expected or other == expected
    if asked or clear or parse_dates(texts, other).isna().any():
        return ""
    return f"; {format_in_words(other)} would fit as well: {option('date_format', other)}"


def _numbers(column: Column, texts: pd.Series, rows: TableRows) -> tuple[Column, pd.Series] | None:
    """Read numbers, in the format of every site if they differ; None if no text is a number."""
    plain = as_numbers(pd.Series(texts.cat.categories)).abs()
    # Beside 1.594, 1,594 is hardly a thousand times as much.
    limit = 10 * float(plain[plain % 1 > 0].max()) if (plain % 1 > 0).any() else np.inf
    formats = NumberFormats(-limit, limit, rows.decimal)
    formats.add(texts)
    written = formats.decided()
    if formats.strange.total == len(texts) and not formats.odd.total:
        return None
    how, numbers = written.words, written.read(texts)
    unclear = any(formats.outside) or _are_many(texts[numbers.isna()], texts)
    if formats.odd.total and unclear:
        by_site = number_formats_by_site(texts, rows.sites)
        parts = texts.groupby(rows.sites[texts.index])
        numbers = pd.concat(by_site[str(site)].read(part) for site, part in parts).loc[texts.index]
        how = _at_sites({site: form.words for site, form in by_site.items() if form != PLAIN})
        written = by_site.get(rows.target, PLAIN)
    remark = how and f"numbers with {how} ({next(iter(formats.odd.texts), '')!r})"
    return replace(column, kind="number", remark=remark, number_format=written), numbers


def _at_sites(words: dict[str, str]) -> str:
    """Put what differs by site in words."""
    sites: dict[str, list[str]] = defaultdict(list)
    for site, word in words.items():
        sites[word].append(site)
    return ", ".join(f"{word} at {listed(names, 4)}" for word, names in sites.items())


def _are_many(strange: pd.Series, texts: pd.Series) -> bool:
    """Whether many texts, or many different ones, are not numbers."""
    return len(strange) > MOST_STRANGE * len(texts) or strange.nunique() > _MOST_STRANGE_TEXTS


def _about_categories(strange: pd.Series, values: pd.Series) -> str:
    """Say why texts are not read as numbers, and that many categories are told apart in part."""
    share, texts, many = len(strange) / len(values), strange.unique(), values.nunique()
    rare = "; rare ones share one category" if many > _MANY_CATEGORIES else ""
    if 0 < share < 1 and strange.astype(str).str.endswith(("%", "‰")).all():
        return f"per cents beside shares ({texts[0]!r}): write all in one way. Read as categories"
    if share >= 0.5:
        return f"{many} different texts{rare}" if rare else ""
    if not _are_many(strange, values):
        return f"codes with leading zeros ({first_code(values)!r}): read as categories{rare}"
    rest = f"{len(texts)} different texts ({listed(texts, _MOST_STRANGE_TEXTS)})."
    if len(texts) == 1:
        rest = f"{texts[0]!r}. Is that a code for missing?"
    return f"{int(100 * (1 - share))} % numeric; the rest is {rest} Read as categories"


# ------------------------------------------------------------ identifiers and codes


def _names_rows(column: Column, values: pd.Series, rows: TableRows, name: str) -> tuple[str, bool]:
    """Say why a column that differs in almost every row may be an identifier, and whether it is.

    Text is one. So are whole numbers that are named so, and row numbers: numbers in the order of
    the rows that are spread evenly, however many rows are gone. Row numbers may also begin anew
    at every site, with 0 or 1; years of a panel do not. Others are identifiers if they are spread
    evenly, as numbers that were given one after another are and few quantities, and do not help to
    predict the label; few rows show neither.
    """
    present = values.dropna()
    if len(present) < _FEWEST_IDENTIFIED_ROWS or not _may_be_codes(column, present):
        return "", False
    different = "a different value in almost every row"
    alone = column.distinct > _ROW_SHARE * len(present)
    if column.kind == "category":
        return (f"{different}, like an identifier", True) if alone else ("", False)
    present, where = present.astype(float), rows.codes[values.notna().to_numpy()]
    by_site = present.groupby(where, sort=False)
    steps, first = by_site.diff().dropna(), by_site.min()
    in_order = len(steps) >= len(present) / 2 and ((steps > 0).all() or (steps < 0).all())
    anew = first.min() >= 0 and first.median() <= 1
    # Rows that are left of a table are spread like all of it, or like those of their site.
    evenness = max(_evenness(present, groups) for groups in (where, np.zeros(len(present))))
    if in_order and evenness >= _UNEVEN_ROWS and (alone or (anew and not rows.helps(values))):
        return "whole numbers in the order of the rows, like row numbers", True
    if not alone:
        return "", False
    if _ROW_NAME.search(name):
        return f"{different}, and named like an identifier", True
    if evenness < _UNEVEN:
        return "", False
    if rows.helps(values):
        return f"{different}, like an identifier, but related to the label", False
    if len(present) < _FEWEST_TESTED_ROWS:
        return f"{different}, perhaps an identifier", False
    useless = ", and no help in predicting the label" if rows.labels is not None else ""
    return f"{different}, like an identifier{useless}", True


def _may_be_codes(column: Column, values: pd.Series) -> bool:
    """Whether values are text or whole numbers, as identifiers are."""
    if column.kind != "number":
        return column.kind == "category"
    numbers = values.dropna().to_numpy(dtype=float)
    return bool(np.all(numbers == np.round(numbers)))


def _evenness(numbers: pd.Series, sites: NDArray[Any]) -> float:
    """P value of a Kolmogorov-Smirnov test that numbers are spread evenly within sites."""
    by_site = numbers.groupby(sites)
    low, high = by_site.transform("min"), by_site.transform("max")
    share = ((numbers - low) / (high - low))[(numbers > low) & (numbers < high)]
    u, n = np.sort(share.to_numpy()), len(share)
    steps = np.arange(n + 1) / max(n, 1)
    distance = max(np.max(steps[1:] - u, initial=0), np.max(u - steps[:-1], initial=0))
    return float(kolmogorov(np.sqrt(n) * distance))


def question_about(values: pd.Series, option: Option = python_option) -> str:
    """Ask about numbers far outside the others that look like codes; empty if there are none."""
    numbers = values.dropna().to_numpy(dtype=float)
    if not len(numbers) or not {numbers.min(), numbers.max()} & _CODES:
        return ""
    like_codes = np.isin(numbers, list(_CODES))
    others = numbers[~like_codes]
    if not len(others):
        return ""
    low, high = others.min(), others.max()
    seen, rows = np.unique(numbers[like_codes], return_counts=True)
    far = np.maximum(low - seen, seen - high) > _FAR * (high - low)
    chosen = far & (rows >= _FEWEST_CODED_ROWS)
    codes = {int(code): int(n) for code, n in zip(seen[chosen], rows[chosen], strict=True)}
    if not codes or high == low:
        return ""
    shown = [f"{code} in {n} rows" for code, n in codes.items()]
    options = [option("missing", f"{values.name}={code}") for code in codes]
    return (
        f"{listed(shown, quoted=False)}, far from the other values ({number(low)} to "
        f"{number(high)}): {'a code' if len(codes) == 1 else 'codes'} for missing? "
        f"{' '.join(options)}"
    )


def is_code(column: pd.Series, value: str) -> pd.Series:
    """Mark the rows that have a value: numbers by their size (999.0 is 999), others as text."""
    number_of = pd.to_numeric(value, errors="coerce")
    if types.is_datetime64_any_dtype(column):
        return in_utc(column) == pd.to_datetime(value, errors="coerce")
    if types.is_numeric_dtype(column) and not types.is_bool_dtype(column):
        return (column == number_of).fillna(False).astype(bool)
    same = on_distinct(
        column.astype("string"),
        lambda texts: (
            (texts.str.strip() == value) | (pd.to_numeric(texts, errors="coerce") == number_of)
        ),
    )
    return same.eq(True)
