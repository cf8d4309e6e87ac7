"""From a user's mixed columns to the numbers a density ratio is estimated on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.preprocessing import OneHotEncoder

from shiftune.errors import ProblemError
from shiftune.problem.columns import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shiftune.problem.site import Features

# The rest of a column's categories share one. Each category costs a column, and a ratio cannot
# be estimated in a direction that only a handful of rows take.
MOST_CATEGORIES = 20


class RatioEncoder:
    r"""Encode the rows of all sites for the estimation of density ratios.

    A density ratio is the same whatever invertible transformation of the columns it is computed
    in, so the encoding is free to make the columns comparable:

    - numbers and dates: centred, and divided by the standard deviation *within* sites,
      :math:`s^2 = \frac{1}{k+1} \sum_j \mathrm{Var}_j(x)`. One remote site then does not blow up
      the scale on which the others are compared. Columns constant within every site use the
      standard deviation between sites; columns constant everywhere are dropped;
    - missing numbers: the centre, and a 0/1 column that says so;
    - categories, text, booleans: one 0/1 column for each of the 20 most frequent levels
      (missing is a level), one for all others. Two different levels are then as far apart as
      two typical numbers.

    Examples
    --------
    >>> site = pd.DataFrame({"age": [30.0, None, 50.0], "sex": ["f", "m", "f"]})
    >>> RatioEncoder().fit([site]).transform(site).round(2)
    array([[-1.,  0.,  1.,  0.],
           [ 0.,  1.,  0.,  1.],
           [ 1.,  0.,  1.,  0.]])
    """

    def fit(self, tables: Sequence[Features]) -> RatioEncoder:
        """Learn scales and categories from the rows of the target and of all sources."""
        numbers = [_numbers(X) for X in tables]
        with np.errstate(invalid="ignore"):
            counts = np.array([np.isfinite(X).sum(axis=0) for X in numbers])
            means = np.array([_mean(X) for X in numbers])
            variances = np.array([_mean((X - m) ** 2) for X, m in zip(numbers, means, strict=True)])
        seen = counts > 0
        sites = np.maximum(seen.sum(axis=0), 1)
        self.center_ = np.where(seen, means, 0).sum(axis=0) / sites
        within = np.where(seen, variances, 0).sum(axis=0) / sites
        between = (np.where(seen, means - self.center_, 0) ** 2).sum(axis=0) / sites
        # A column that is constant but for rounding has no scale.
        rounding = (1e-12 * np.abs(self.center_)) ** 2
        scale2 = np.where(within > rounding, within, np.where(between > rounding, between, 0))
        self.kept_ = scale2 > 0
        self.scale_ = np.sqrt(np.where(self.kept_, scale2, 1))
        self.missing_ = np.any([np.isnan(X).any(axis=0) for X in numbers], axis=0)
        categories = [_categories(X) for X in tables]
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
        numbers = _numbers(X)
        gone = np.isnan(numbers[:, self.missing_])
        Z = (numbers[:, self.kept_] - self.center_[self.kept_]) / self.scale_[self.kept_]
        if gone.shape[1]:
            Z = np.hstack([np.nan_to_num(Z, copy=False, nan=0.0), gone])
        if self.levels_ is not None:
            Z = np.hstack([Z, self.levels_.transform(_categories(X))])
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
    numbers = _numbers(X)
    missing = np.isnan(numbers).sum(axis=0)
    if missing.any():
        column = int(np.argmax(missing > 0))
        where = X.columns[column] if isinstance(X, pd.DataFrame) else column
        raise ProblemError(
            f"{site}: column {where!r} has {missing[column]} missing value(s), which unscaled "
            "features cannot have; use scale=True, which encodes them"
        )
    return numbers


def _numbers(X: Features) -> NDArray[np.float64]:
    if not isinstance(X, pd.DataFrame):
        return X
    columns = [
        _days(X[name]) if kind == "date" else X[name].to_numpy(dtype=float, na_value=np.nan)
        for name in X.columns
        if (kind := kind_of(X[name])) != "category"
    ]
    return np.column_stack(columns) if columns else np.empty((len(X), 0))


def _days(column: pd.Series) -> NDArray[np.float64]:
    stamps = column.dt.tz_convert(None) if getattr(column.dt, "tz", None) is not None else column
    unit = "timedelta64[ns]" if stamps.dtype.kind == "m" else "datetime64[ns]"
    values = stamps.to_numpy(dtype=unit)
    days: NDArray[np.float64] = values.astype(np.int64) / 86_400e9
    return np.where(np.isnat(values), np.nan, days)


def _categories(X: Features) -> NDArray[np.object_]:
    if not isinstance(X, pd.DataFrame):
        return np.empty((len(X), 0), dtype=object)
    names = [name for name in X.columns if kind_of(X[name]) == "category"]
    texts = [X[name].astype("string").fillna("(missing)").to_numpy(dtype=object) for name in names]
    return np.column_stack(texts) if texts else np.empty((len(X), 0), dtype=object)


def _mean(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the rows that are there; 0 where there are none."""
    there = ~np.isnan(X)
    if there.all():
        return np.asarray(X.mean(axis=0))
    return np.asarray(np.where(there, X, 0).sum(axis=0) / np.maximum(there.sum(axis=0), 1))
