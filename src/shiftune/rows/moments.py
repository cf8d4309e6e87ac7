"""Values, squares and products of columns, whose means compare two groups of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shiftune.problem.site import Features
from shiftune.rows.encoding import RowEncoder

Floats = NDArray[np.float64]

# Numbers kept for all rows together, 160 MB. Beyond it products of columns are left out first,
# then squares.
MOST_NUMBERS = 20_000_000
# Products of more columns than this would be hundreds, most of them noise.
MOST_MULTIPLIED = 20
# Values are clipped at this many standard deviations from the sources' mean: squares of a few wild
# rows would otherwise decide.
MOST_SDS_FROM_SOURCES = 4.0
SMALLEST_SPREAD = 1e-9


class Moments:
    """Encode rows as standardised values, squares and products of their columns.

    Columns are encoded by `RowEncoder` (categories as 0/1, missing values marked, wild values
    clipped). Means of these numbers are the means,
    variances and correlations of the columns. All are scaled to mean 0 and standard deviation 1
    over the rows of the sources, before and after they are multiplied; numbers that never differ
    there are dropped.

    Attributes
    ----------
    beyond_ : float
        Share of the target's rows with a value that is clipped, or that differs from the only one
        of all sources; less the share of such rows in the sources.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target, source = rng.normal(size=(50, 3)), rng.normal(size=(80, 3))
    >>> Z_target, Z = Moments().fit_transform(target, [source])
    >>> Z_target.shape, Z.shape  # 3 values, 3 squares, 3 products
    ((50, 9), (80, 9))
    """

    def fit_transform(self, target: Features, sources: Sequence[Features]) -> tuple[Floats, Floats]:
        """Learn encoding and scales; return the numbers of target and sources, (n_T, p), (n, p)."""
        Z_target, *Z_sources = RowEncoder().fit_transform([target, *sources])
        Z = np.concatenate(Z_sources)
        self._center, spread = Z.mean(axis=0), Z.std(axis=0)
        self._differs = spread > SMALLEST_SPREAD
        self._all_spreads, self._spread = spread, spread[self._differs]
        own, others = self._clipped(Z_target), self._clipped(Z)
        self.beyond_ = max(0.0, float(own.mean() - others.mean()))
        Z = self._scaled(Z)
        rows, columns = Z.shape
        # The square of a 0/1 column is the column.
        self._squared = np.any((Z.min(axis=0) != Z) & (Z.max(axis=0) != Z), axis=0)
        self._with_squares = rows * 2 * columns <= MOST_NUMBERS
        products = columns * (columns - 1) // 2
        self._with_products = (
            columns <= MOST_MULTIPLIED and rows * (2 * columns + products) <= MOST_NUMBERS
        )
        W = self._expanded(Z)
        mean, scale = W.mean(axis=0), W.std(axis=0)
        kept = scale > SMALLEST_SPREAD
        W_target = self._expanded(self._scaled(Z_target))
        return tuple((V[:, kept] - mean[kept]) / scale[kept] for V in (W_target, W))

    def _clipped(self, Z: Floats) -> NDArray[np.bool_]:
        """Which rows have a value that is far from all sources."""
        away = np.abs(Z - self._center)
        limit = np.where(self._differs, MOST_SDS_FROM_SOURCES * self._all_spreads, SMALLEST_SPREAD)
        return np.asarray(np.any(away > limit, axis=1))

    def _scaled(self, Z: Floats) -> Floats:
        centred = Z[:, self._differs] - self._center[self._differs]
        return np.asarray(
            np.clip(centred / self._spread, -MOST_SDS_FROM_SOURCES, MOST_SDS_FROM_SOURCES)
        )

    def _expanded(self, Z: Floats) -> Floats:
        parts = [Z]
        if self._with_squares:
            parts.append(Z[:, self._squared] ** 2)
        if self._with_products:
            first, second = np.triu_indices(Z.shape[1], k=1)
            parts.append(Z[:, first] * Z[:, second])
        return np.hstack(parts)
