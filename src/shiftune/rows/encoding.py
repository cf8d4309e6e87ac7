"""Rows as comparable numbers: one encoder for density ratios, adjustments and checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shiftune.problem.site import Features
from shiftune.rows.columns import kinds_of, level_columns, number_columns
from shiftune.rows.levels import one_hot

Floats = NDArray[np.float64]

# Between the 10 % and the 90 % quantile of a Gaussian, in standard deviations.
GAUSSIAN_WIDTH = 2.563
# A row this many units from the target's median is out of its reach, whatever the distance; a
# sentinel of 999999 in one row would otherwise outweigh all others in a linear model.
MOST_UNITS_FROM_TARGET = 10.0


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
        self.kinds_ = kinds_of(tables)
        self._learn([self._read(X) for X in tables])
        return self

    def fit_transform(self, tables: Sequence[Features]) -> list[Floats]:
        """Learn from the tables and return them encoded; their columns are read once."""
        self.kinds_ = kinds_of(tables)
        read = [self._read(X) for X in tables]
        self._learn(read)
        return [self._encoded(*columns) for columns in read]

    def transform(self, X: Features) -> Floats:
        """Return the encoded rows, shape (n, number of encoded columns)."""
        return self._encoded(*self._read(X))

    def _read(self, X: Features) -> tuple[Floats, NDArray[np.object_]]:
        return number_columns(X, self.kinds_), level_columns(X, self.kinds_)

    def _learn(self, read: list[tuple[Floats, NDArray[np.object_]]]) -> None:
        numbers, levels = zip(*read, strict=True)
        self._learn_scales(list(numbers))
        self.levels_ = one_hot().fit(np.concatenate(levels)) if levels[0].shape[1] else None

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
        Z = np.clip(Z, -MOST_UNITS_FROM_TARGET, MOST_UNITS_FROM_TARGET)
        if missing.shape[1]:
            Z = np.hstack([Z, missing])
        if self.levels_ is not None:
            Z = np.hstack([Z, self.levels_.transform(levels)])
        return np.asarray(Z)


def _center_and_spread(X: Floats) -> tuple[Floats, Floats]:
    """Median and spread of every column over its values; 0 where there are none."""
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
