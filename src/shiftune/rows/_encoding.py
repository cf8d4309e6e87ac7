"""Rows as comparable numbers: one encoder for density ratios, adjustments and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.preprocessing import OneHotEncoder

from shiftune.columns._column import ColumnKind, as_text, days_in, kind_of
from shiftune.errors import DataError
from shiftune.problem._reading import plain_numbers
from shiftune.problem._site import Features, rows_of, stacked

Floats = NDArray[np.float64]

MISSING = "(missing)"
# All other levels of a column share one. Each level costs a column, and nothing can be learned in
# a direction that only a handful of rows take.
MOST_LEVELS = 20
# Between the 10 % and the 90 % quantile of a Gaussian, in standard deviations.
_GAUSSIAN_WIDTH = 2.563
# A row this many units from the target's median is out of its reach, whatever the distance; a
# sentinel of 999999 in one row would otherwise outweigh all others in a linear model.
_MOST_UNITS_FROM_TARGET = 10.0
# Numbers whose quantiles are computed at a time, 16 MB.
NUMBERS_AT_ONCE = 2**21
# Rows of small tables that are read together.
ROWS_AT_ONCE = 50_000


def one_hot() -> OneHotEncoder:
    """Return an encoder to 0/1 columns: the 20 most frequent levels, and one for all others."""
    return OneHotEncoder(
        max_categories=MOST_LEVELS + 1,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    )


def kinds_of(X: Features) -> dict[Any, ColumnKind]:
    """Return the kind of every column by its type, which all sites share; empty for arrays."""
    return {name: kind_of(X[name]) for name in X} if isinstance(X, pd.DataFrame) else {}


def number_columns(X: Features, kinds: Mapping[Any, ColumnKind]) -> NDArray[np.float64]:
    """Return the columns of numbers and dates (as days), shape (n, p), in the order of `kinds`."""
    if not isinstance(X, pd.DataFrame):
        return X
    names = [name for name, kind in kinds.items() if kind != "category"]
    columns = X.reindex(columns=pd.Index(names, dtype=object))  # None beside numbers would be NaN
    plain = plain_numbers(columns)
    for name in [name for name in columns if name not in plain]:
        if kinds[name] == "date":
            columns[name] = days_in(columns[name])
        elif columns[name].notna().any() and kind_of(columns[name]) != "number":
            raise DataError(
                f"column {name!r} had numbers in the rows of fit and has other values here"
            )
    return np.ascontiguousarray(columns.to_numpy(dtype=float, na_value=np.nan))


def level_columns(X: Features, kinds: Mapping[Any, ColumnKind]) -> NDArray[np.object_]:
    """Return the category columns as text, shape (n, q), in the order of `kinds`."""
    names = [name for name, kind in kinds.items() if kind == "category"]
    levels = np.empty((len(X), len(names)), dtype=object)
    if isinstance(X, pd.DataFrame):
        for c, name in enumerate(names):
            levels[:, c] = as_text(X[name]).fillna(MISSING)
    return levels


def raw_numbers(X: Features) -> NDArray[np.float64]:
    """Return the columns unscaled, if all hold numbers or dates and none has gaps."""
    kinds = kinds_of(X)
    flaws = {name: "holds categories" for name, kind in kinds.items() if kind == "category"}
    numbers = number_columns(X, kinds)
    if not flaws:
        gaps = zip(kinds or range(X.shape[1]), np.isnan(numbers).sum(axis=0), strict=True)
        flaws = {name: f"has {missing} missing value(s)" for name, missing in gaps if missing}
    for name, flaw in flaws.items():
        raise DataError(
            f"an unscaled density ratio: column {name!r} {flaw}, which have no raw numbers; use "
            "scale=True, which encodes them"
        )
    return numbers


class RowEncoder:
    r"""Encoder of the rows of all sites, on scales on which the sites can be compared.

    A density ratio does not change under invertible transformations of the columns, so the
    encoding is free to make the columns comparable:

    - numbers and dates: distance from the target's median, in units of the spread *within* sites,
      the median over the sites of the distance between the 10 % and the 90 % quantile (2.563
      standard deviations of a Gaussian; the standard deviation where these are equal). One
      extreme value or one unusual site then does not change the scale for all others.
      Columns constant within most sites use the mean of the spreads, columns constant within all
      of them the standard deviation between sites; columns constant everywhere are dropped.
      Values are clipped at 10 units;
    - missing numbers: the centre, and a 0/1 column that marks them;
    - categories, text, booleans: one 0/1 column for each of the 20 most frequent levels
      (missing is a level), one for all others. Two different levels are then as far apart as
      two typical numbers.

    >>> import pandas as pd
    >>> site = pd.DataFrame({"age": [30.0, None, 50.0], "sex": ["f", "m", "f"]})
    >>> RowEncoder().fit([site]).transform(site).round(2)
    array([[-1.6,  0. ,  1. ,  0. ],
           [ 0. ,  1. ,  0. ,  1. ],
           [ 1.6,  0. ,  1. ,  0. ]])
    """

    def fit(self, tables: Sequence[Features]) -> RowEncoder:
        """Learn scales and levels from the rows of the target (first) and of all sources."""
        self.fit_transform(tables)
        return self

    def fit_transform(self, tables: Sequence[Features]) -> Iterator[Floats]:
        """Learn from the tables, and encode them one at a time; their columns are read once."""
        self.kinds_ = kinds_of(tables[0])
        read: list[tuple[Floats, NDArray[np.object_]]] = []
        # A thousand small tables take ten times as long one by one.
        for some in in_batches(tables, ROWS_AT_ONCE):
            numbers, levels = self._read(some[0] if len(some) == 1 else stacked(some))
            ends = np.cumsum([len(X) for X in some])[:-1]
            read += zip(np.split(numbers, ends), np.split(levels, ends), strict=True)
        self._learn_scales([numbers for numbers, _ in read])
        texts = [levels for _, levels in read]
        self.levels_ = one_hot().fit(np.concatenate(texts)) if texts[0].shape[1] else None
        return (self._encoded(*read.pop(0)) for _ in tables)

    def transform(self, X: Features) -> Floats:
        """Return the encoded rows, shape (n, number of encoded columns)."""
        return self._encoded(*self._read(X))

    def _read(self, X: Features) -> tuple[Floats, NDArray[np.object_]]:
        return number_columns(X, self.kinds_), level_columns(X, self.kinds_)

    def _learn_scales(self, numbers: list[Floats]) -> None:
        seen = np.array([~np.isnan(X).all(axis=0) for X in numbers])
        summaries = [_center_and_spread(X) for X in numbers]
        centers, spreads = (np.array(column) for column in zip(*summaries, strict=True))
        sites = np.maximum(seen.sum(axis=0), 1)
        middle = np.where(seen, centers, 0).sum(axis=0) / sites
        self.center_ = np.where(seen[0], centers[0], middle)
        typical = np.nanmedian(np.where(seen.any(axis=0) & ~seen, np.nan, spreads), axis=0)
        mean = np.where(seen, spreads, 0).sum(axis=0) / sites
        between = np.where(seen, centers - middle, 0).std(axis=0)
        # A column that is constant but for rounding has no scale.
        rounding = 1e-12 * np.abs(self.center_)
        scale = np.zeros_like(rounding)
        for candidate in (between, mean, typical):  # the last one that exists counts
            scale = np.where(candidate > rounding, candidate, scale)
        self.kept_ = scale > 0
        self.scale_ = np.where(self.kept_, scale, 1)
        self.missing_ = np.any([np.isnan(X).any(axis=0) for X in numbers], axis=0)

    def _encoded(self, numbers: Floats, levels: NDArray[np.object_]) -> Floats:
        missing = np.isnan(numbers[:, self.missing_])
        Z = (numbers[:, self.kept_] - self.center_[self.kept_]) / self.scale_[self.kept_]
        # Also values missing in a column that had no gaps in fit: the centre is the best guess.
        Z = np.nan_to_num(Z, copy=False, nan=0.0)
        Z = np.clip(Z, -_MOST_UNITS_FROM_TARGET, _MOST_UNITS_FROM_TARGET)
        if missing.shape[1]:
            Z = np.hstack([Z, missing])
        if self.levels_ is not None:
            Z = np.hstack([Z, self.levels_.transform(levels)])
        return np.asarray(Z)


def _center_and_spread(X: Floats) -> tuple[Floats, Floats]:
    """Median and spread of every column over its values; 0 where there are none."""
    center, spread = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    gaps = np.isnan(X).any(axis=0)
    at_once = max(NUMBERS_AT_ONCE // max(len(X), 1), 1)
    whole = np.flatnonzero(~gaps)
    for start in range(0, len(whole) if len(X) else 0, at_once):
        some = whole[start : start + at_once]
        columns = X[:, some].astype(float, copy=False)
        low, center[some], high = np.quantile(columns, [0.1, 0.5, 0.9], axis=0)
        spread[some] = (high - low) / _GAUSSIAN_WIDTH
    for c in np.flatnonzero(gaps | (spread == 0)):
        x = X[~np.isnan(X[:, c]), c].astype(float, copy=False)
        if len(x):
            low, center[c], high = np.quantile(x, [0.1, 0.5, 0.9])
            spread[c] = (high - low) / _GAUSSIAN_WIDTH
            if spread[c] == 0 and x.min() < x.max():
                spread[c] = (x / np.abs(x).max()).std() * np.abs(x).max()  # squares may overflow
    return center, spread


def in_batches(tables: Sequence[Features], rows: int) -> Iterator[list[Features]]:
    """Yield neighbouring tables together, as long as they have at most so many rows."""
    some: list[Features] = []
    total = 0
    for table in tables:
        if some and total + len(table) > rows:
            yield some
            some, total = [], 0
        some.append(table)
        total += len(table)
    if some:
        yield some


def subsample(X: Features, most: int, random_state: int = 0) -> Features:
    """Return at most `most` rows, drawn without replacement and kept in their order."""
    if len(X) <= most:
        return X
    rows: Features = rows_of(X, drawn_rows(len(X), most, random_state))
    return rows


def drawn_rows(n: int, most: int, random_state: int = 0) -> NDArray[np.intp]:
    """Return the numbers of at most `most` of n rows, drawn at random, in their order."""
    if n <= most:
        return np.arange(n)
    rng = np.random.default_rng(random_state)
    return np.sort(rng.choice(n, most, replace=False))
