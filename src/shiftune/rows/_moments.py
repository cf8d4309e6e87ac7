"""Values, squares and products of columns, whose means compare two groups of rows.

Notation: n rows have c encoded columns X, from which p numbers Z are computed: values, s squares
and m products, as far as they differ. Z exists in chunks only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shiftune.problem._site import Features
from shiftune.rows._encoding import EncodedRows, RowEncoder

Floats = NDArray[np.float64]

# Numbers that exist at a time, 8 MB: they are computed from the encoded rows in chunks, as often as
# they are needed. 20 columns have 230 of them.
NUMBERS_AT_ONCE = 2**20
# Products of more columns than this would be hundreds, most of them noise.
MOST_MULTIPLIED = 20
# Values are clipped at this many standard deviations from the sources' mean: squares of a few wild
# rows would otherwise decide.
MOST_SDS_FROM_SOURCES = 4.0
_SMALLEST_SPREAD = 1e-9
_NO_PAIRS = np.empty((2, 0), dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """How values become standardised values, squares and products."""

    squares: NDArray[np.intp]  # columns whose squares are no values of their own, (s,)
    pairs: NDArray[np.intp]  # columns that are multiplied, (2, m)
    mean: Floats  # of values, squares and products, (p,)
    scale: Floats
    kept: NDArray[np.bool_]  # which of them differ, (c + s + m,)

    @classmethod
    def unscaled(
        cls, c: int, squares: NDArray[np.intp], pairs: NDArray[np.intp] = _NO_PAIRS
    ) -> Expansion:
        """Return an expansion of c columns that standardises nothing."""
        width = c + len(squares) + pairs.shape[1]
        return cls(squares, pairs, np.zeros(width), np.ones(width), np.ones(width, dtype=bool))

    def raw(self, X: Floats) -> Floats:
        """Return values, squares and products before they are standardised, (n, c + s + m)."""
        first, second = self.pairs
        return np.hstack([X, X[:, self.squares] ** 2, X[:, first] * X[:, second]])

    def numbers(self, X: Floats) -> Floats:
        """Return standardised values, squares and products, shape (n, p)."""
        raw = self.raw(X)
        found = raw if self.kept.all() else raw[:, self.kept]
        found -= self.mean
        found /= self.scale
        return found

    def times(self, X: Floats, v: Floats) -> Floats:
        """Multiply the numbers of rows with a vector, without forming them: (p,) -> (n,)."""
        full = np.zeros(len(self.kept))
        full[self.kept] = v / self.scale
        c, s = X.shape[1], len(self.squares)
        found = X @ full[:c] - float(self.mean @ (v / self.scale))
        if not self.pairs.size:
            return np.asarray(found + X[:, self.squares] ** 2 @ full[c:])
        quadratic = np.zeros((c, c))
        quadratic[self.squares, self.squares] = full[c : c + s]
        quadratic[tuple(self.pairs)] = full[c + s :]
        return np.asarray(found + np.einsum("ij,ij->i", X @ quadratic, X))

    def sums(self, X: Floats, r: Floats) -> Floats:
        """Add up the numbers of rows with these weights, without forming them: (n,) -> (p,)."""
        if self.pairs.size:
            products = X.T @ (r[:, None] * X)
            more = [products[self.squares, self.squares], products[tuple(self.pairs)]]
        else:
            more = [r @ X[:, self.squares] ** 2]
        raw = np.concatenate([r @ X, *more])
        return np.asarray((raw[self.kept] - self.mean * r.sum()) / self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """Weights of rows, by which they become rows that count once each (`linearised`)."""

    weights: Floats  # with mean 1 in every site, (n,)
    site: NDArray[np.intp]  # (n,)
    centers: Floats  # weighted mean of the rows of every site, (k, p)

    def part(self, rows: slice) -> Weighting:
        """Return the weights of some rows."""
        return replace(self, weights=self.weights[rows], site=self.site[rows])

    def numbers(self, Z: Floats) -> Floats:
        """Linearise rows: (n, p) -> (n, p)."""
        w = self.weights[:, None]
        return np.asarray(w * Z + (1 - w) * self.centers[self.site])

    def times(self, product: Floats, v: Floats) -> Floats:
        """Return what rows times a vector become: (n,) -> (n,)."""
        means = (self.centers @ v)[self.site]
        return np.asarray(self.weights * product + (1 - self.weights) * means)

    def sums(self, r: Floats) -> Floats:
        """Add up the centres of rows with these weights: (n,) -> (p,)."""
        by_site = np.bincount(self.site, r * (1 - self.weights), minlength=len(self.centers))
        return np.asarray(by_site @ self.centers)


@dataclass(frozen=True, slots=True, eq=False)
class MomentRows:
    """Rows as standardised values, squares and products of their columns: a matrix Z, (n, p).

    Only the values are kept, standardised.
    """

    standard: EncodedRows
    expansion: Expansion
    weighting: Weighting | None = None

    def __len__(self) -> int:
        return len(self.standard)

    @property
    def width(self) -> int:
        """Number p of columns of Z."""
        return len(self.expansion.mean)

    def linearised(self, weights: Sequence[Floats]) -> MomentRows:
        """Return rows that count once each instead of by weights; one array for every site."""
        n = np.array([len(each) for each in weights])
        starts = np.cumsum(n) - n
        relative = [each / each.mean() for each in weights]
        sites = zip(starts, n, relative, strict=True)
        centers = np.array([self.part(start, start + m).sums(w) / m for start, m, w in sites])
        site = np.repeat(np.arange(len(n)), n)
        return replace(self, weighting=Weighting(np.concatenate(relative), site, centers))

    def less(self, shift: Floats) -> MomentRows:
        """Return the rows of Z less a row, shape (p,)."""
        expansion = replace(self.expansion, mean=self.expansion.mean + self.expansion.scale * shift)
        weighting = self.weighting and replace(
            self.weighting, centers=self.weighting.centers - shift
        )
        return replace(self, expansion=expansion, weighting=weighting)

    def chunks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the rows of Z, a chunk at a time."""
        for rows, X in self._values():
            Z = self.expansion.numbers(X)
            yield rows, Z if self.weighting is None else self.weighting.part(rows).numbers(Z)

    def part(self, start: int, stop: int) -> MomentRows:
        """Return some of the rows."""
        weighting = self.weighting and self.weighting.part(slice(start, stop))
        return MomentRows(self.standard.part(start, stop), self.expansion, weighting)

    def dense(self) -> Floats:
        """Return Z."""
        return np.concatenate([np.empty((0, self.width)), *(Z for _, Z in self.chunks())])

    def times(self, v: Floats) -> Floats:
        """Return Z v: (p,) -> (n,)."""
        found = np.concatenate([self.expansion.times(X, v) for _, X in self._values()])
        return found if self.weighting is None else self.weighting.times(found, v)

    def sums(self, r: Floats) -> Floats:
        """Return Z'r: (n,) -> (p,)."""
        found = np.zeros(self.width)
        own = r if self.weighting is None else r * self.weighting.weights
        for rows, X in self._values():
            found += self.expansion.sums(X, own[rows])
        return found if self.weighting is None else found + self.weighting.sums(r)

    def gram(self, center: Floats | None = None) -> Floats:
        """Return Z'Z, or that of Z less a row, shape (p, p)."""
        found = np.zeros((self.width, self.width))
        for _, Z in self.chunks():
            centred = Z if center is None else Z - center
            found += centred.T @ centred
        return found

    def _values(self) -> Iterator[tuple[slice, Floats]]:
        return self.standard.chunks(_rows_at_once(self.width))


class Moments:
    """Encode rows as standardised values, squares and products of their columns.

    Columns are encoded by `RowEncoder` (categories as 0/1, missing values marked, wild values
    clipped). Means of these numbers are the means, variances and correlations of the columns. All
    are scaled to mean 0 and standard deviation 1 over the rows of the sources, before and after
    they are multiplied; numbers that never differ there are dropped.
    """

    target: MomentRows  # (n_T, p)
    sources: MomentRows  # of all sources end to end, (n, p)
    # Share of the target's rows with a value that is clipped, or that differs from the only one of
    # all sources; less the share of such rows in the sources.
    beyond: float

    def fit(self, target: Features, sources: Sequence[Features]) -> Moments:
        """Learn encoding and scales from the rows of the target and of the sources."""
        own, *others = RowEncoder().fit_transform_compactly([target, *sources])
        rows = EncodedRows.stacked(others)
        del others  # as large as `rows`
        center, spread = _mean_and_spread(rows, rows.width, lambda X: X)
        differs = spread > _SMALLEST_SPREAD
        limit = np.where(differs, MOST_SDS_FROM_SOURCES * spread, _SMALLEST_SPREAD)
        far, far_sources = (_share_beyond(each, center, limit) for each in (own, rows))
        self.beyond = max(0.0, far - far_sources)
        own, rows = (
            each.standardised(center, spread, differs, MOST_SDS_FROM_SOURCES)
            for each in (own, rows)
        )
        expansion = _expansion(rows)
        self.target, self.sources = MomentRows(own, expansion), MomentRows(rows, expansion)
        return self


def _expansion(rows: EncodedRows) -> Expansion:
    """Learn which squares and products differ, and their scales, from standardised rows."""
    c = rows.width
    low, high = np.full(c, np.inf), np.full(c, -np.inf)
    for _, X in rows.chunks(_rows_at_once(c)):
        low, high = np.minimum(low, X.min(axis=0)), np.maximum(high, X.max(axis=0))
    squared = np.zeros(c, dtype=bool)
    for _, X in rows.chunks(_rows_at_once(c)):
        squared |= np.any((low != X) & (high != X), axis=0)  # the square of a 0/1 column is it
    pairs = np.array(np.triu_indices(c, k=1)) if c <= MOST_MULTIPLIED else _NO_PAIRS
    raw = Expansion.unscaled(c, np.flatnonzero(squared), pairs)
    mean, scale = _mean_and_spread(rows, len(raw.kept), raw.raw)
    kept = scale > _SMALLEST_SPREAD
    return replace(raw, mean=mean[kept], scale=scale[kept], kept=kept)


def _rows_at_once(width: int) -> int:
    return max(NUMBERS_AT_ONCE // max(width, 1), 1)


def _mean_and_spread(
    rows: EncodedRows, width: int, numbers: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of every number of the rows, each of shape (width,)."""
    mean, variance = np.zeros((2, width))
    for _, X in rows.chunks(_rows_at_once(width)):
        mean += numbers(X).sum(axis=0)
    mean /= len(rows)
    for _, X in rows.chunks(_rows_at_once(width)):
        variance += ((numbers(X) - mean) ** 2).sum(axis=0)
    return mean, np.sqrt(variance / len(rows))


def _share_beyond(rows: EncodedRows, center: Floats, limit: Floats) -> float:
    """Share of the rows that have a value far from all sources."""
    far = 0
    for _, encoded in rows.chunks(_rows_at_once(rows.width)):
        far += int(np.any(np.abs(encoded - center) > limit, axis=1).sum())
    return far / len(rows)


def linearised(values: Floats, weights: Floats | None) -> Floats:
    r"""Return values whose plain mean is the weighted mean, and whose variance is that of it.

    .. math:: z_i = m + (x_i - m)\, w_i / \bar w, \qquad m = \sum_i w_i x_i / \sum_i w_i .

    The second part is the influence of row i on m, so that formulas for rows that count once each
    (means, standard errors, sums within groups of rows) hold for weighted ones, and weights can be
    multiplied by any number. Values have shape (n,) or (n, p); weights (n,), or are None.
    """
    if weights is None:
        return values
    w = weights / weights.mean()
    mean = w @ values / len(w)
    return np.asarray(mean + (w * (values - mean).T).T)


def coefficients(shares: Floats, weights: Floats | None) -> Floats:
    r"""Return coefficients of values, from those of the values linearised.

    With z as in `linearised`, the c' of :math:`\sum_i c_i z_i = \sum_i c'_i x_i`, shape (n,).
    """
    if weights is None:
        return shares
    w = weights / weights.mean()
    return np.asarray(w * (shares + (shares.sum() - w @ shares) / len(w)))
