"""From a user's mixed columns to the numbers a density ratio is estimated on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import OneHotEncoder

from shiftune.errors import ProblemError
from shiftune.problem.columns import column_kinds, days_in, kind_of, plain_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from shiftune.problem.columns import ColumnKind
    from shiftune.problem.site import Features

# The rest of a column's categories share one. Each category costs a column, and a ratio cannot
# be estimated in a direction that only a handful of rows take.
MOST_CATEGORIES = 20
# Between the 10 % and the 90 % quantile of a Gaussian, in standard deviations.
GAUSSIAN_WIDTH = 2.563
# A row this many units from the target's median is out of its reach, whatever the distance; a
# sentinel of 999999 in one row would otherwise outweigh all others in a linear model.
FARTHEST = 10.0


class RatioEncoder:
    r"""Encode the rows of all sites for the estimation of density ratios.

    A density ratio is the same whatever invertible transformation of the columns it is computed
    in, so the encoding is free to make the columns comparable:

    - numbers and dates: distance from the target's median, in units of the spread *within* sites,
      the median over the sites of the distance between the 10 % and the 90 % quantile (2.563
      standard deviations of a Gaussian; the standard deviation where these are equal). Neither
      one wild value nor one odd site then blows up the scale on which the others are compared.
      Columns constant within most sites use the mean of the spreads, columns constant within all
      of them the standard deviation between sites; columns constant everywhere are dropped.
      Values beyond 10 units count as 10: so far from the target, how far does not matter;
    - missing numbers: the centre, and a 0/1 column that says so;
    - categories, text, booleans: one 0/1 column for each of the 20 most frequent levels
      (missing is a level), one for all others. Two different levels are then as far apart as
      two typical numbers.

    Examples
    --------
    >>> site = pd.DataFrame({"age": [30.0, None, 50.0], "sex": ["f", "m", "f"]})
    >>> RatioEncoder().fit([site]).transform(site).round(2)
    array([[-1.6,  0. ,  1. ,  0. ],
           [ 0. ,  1. ,  0. ,  1. ],
           [ 1.6,  0. ,  1. ,  0. ]])
    """

    def fit(self, tables: Sequence[Features]) -> RatioEncoder:
        """Learn scales and categories from the rows of the target (first) and of all sources."""
        frames = {f"table {t}": X for t, X in enumerate(tables) if isinstance(X, pd.DataFrame)}
        self.kinds_ = column_kinds(frames) if frames else {}
        numbers = [number_columns(X, self.kinds_) for X in tables]
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
        for candidate in (between, mean, typical):  # the last that is there counts
            scale = np.where(candidate > rounding, candidate, scale)
        self.kept_ = scale > 0
        self.scale_ = np.where(self.kept_, scale, 1)
        self.missing_ = np.any([np.isnan(X).any(axis=0) for X in numbers], axis=0)
        categories = [category_columns(X, self.kinds_) for X in tables]
        self.levels_ = None
        if categories[0].shape[1]:
            self.levels_ = OneHotEncoder(
                max_categories=MOST_CATEGORIES + 1,
                handle_unknown="infrequent_if_exist",
                sparse_output=False,
            ).fit(np.concatenate(categories))
        return self

    def transform(self, X: Features) -> NDArray[np.float64]:
        """Return the encoded rows, shape (n, number of encoded columns)."""
        numbers = number_columns(X, self.kinds_)
        gone = np.isnan(numbers[:, self.missing_])
        Z = (numbers[:, self.kept_] - self.center_[self.kept_]) / self.scale_[self.kept_]
        # Also values missing in a column that never was in fit: the centre is the best guess.
        Z = np.clip(np.nan_to_num(Z, copy=False, nan=0.0), -FARTHEST, FARTHEST)
        if gone.shape[1]:
            Z = np.hstack([Z, gone])
        if self.levels_ is not None:
            Z = np.hstack([Z, self.levels_.transform(category_columns(X, self.kinds_))])
        return np.asarray(Z)


def raw_numbers(X: Features, site: str) -> NDArray[np.float64]:
    """Return the columns as they are, for settings that ask for unscaled features."""
    if isinstance(X, pd.DataFrame):
        for name in X.columns:
            if kind_of(X[name]) == "category":
                raise ProblemError(
                    f"{site}: column {name!r} holds categories, which have no raw numbers; "
                    "use scale=True"
                )
    numbers = number_columns(X, column_kinds({site: X}) if isinstance(X, pd.DataFrame) else {})
    missing = np.isnan(numbers).sum(axis=0)
    if missing.any():
        column = int(np.argmax(missing > 0))
        where = X.columns[column] if isinstance(X, pd.DataFrame) else column
        raise ProblemError(
            f"{site}: column {where!r} has {missing[column]} missing value(s), which unscaled "
            "features cannot have; use scale=True, which encodes them"
        )
    return numbers


def number_columns(X: Features, kinds: Mapping[Any, ColumnKind]) -> NDArray[np.float64]:
    """Return the columns that hold numbers or dates (as days), in the order of `kinds`."""
    if not isinstance(X, pd.DataFrame):
        return X
    names = [name for name, kind in kinds.items() if kind != "category"]
    found, plain = np.empty((len(X), len(names))), plain_numbers(X)
    at_once = [c for c, name in enumerate(names) if name in plain and kinds[name] == "number"]
    found[:, at_once] = X[[names[c] for c in at_once]].to_numpy(dtype=float)
    for c in sorted(set(range(len(names))) - set(at_once)):
        column = X[names[c]]
        if kinds[names[c]] == "date":
            found[:, c] = days_in(column)
        elif column.notna().any() and kind_of(column) != "number":
            raise ProblemError(f"column {names[c]!r} held numbers in fit and holds others here")
        else:
            found[:, c] = column.to_numpy(dtype=float, na_value=np.nan)
    return found


def category_columns(X: Features, kinds: Mapping[Any, ColumnKind]) -> NDArray[np.object_]:
    """Return the columns that hold categories, as text, in the order of `kinds`."""
    if not isinstance(X, pd.DataFrame):
        return np.empty((len(X), 0), dtype=object)
    names = [name for name, kind in kinds.items() if kind == "category"]
    texts = [X[name].astype("string").fillna("(missing)").to_numpy(dtype=object) for name in names]
    return np.column_stack(texts) if texts else np.empty((len(X), 0), dtype=object)


def _center_and_spread(
    X: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Median and spread of every column over the rows that are there; 0 where there are none."""
    center, spread = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    gaps = np.isnan(X).any(axis=0)
    if len(X):
        low, center[~gaps], high = np.quantile(X[:, ~gaps], [0.1, 0.5, 0.9], axis=0)
        spread[~gaps] = (high - low) / GAUSSIAN_WIDTH
    for c in np.flatnonzero(gaps | (spread == 0)):
        x = X[~np.isnan(X[:, c]), c]
        if len(x):
            low, center[c], high = np.quantile(x, [0.1, 0.5, 0.9])
            spread[c] = (high - low) / GAUSSIAN_WIDTH
            if spread[c] == 0 and x.min() < x.max():
                spread[c] = (x / np.abs(x).max()).std() * np.abs(x).max()  # squares may overflow
    return center, spread
