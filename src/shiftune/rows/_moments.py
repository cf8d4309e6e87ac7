"""Values, squares and products of columns, whose means compare two groups of rows.

Notation: n rows have c encoded columns X, m numbers and f flags, from which p numbers Z are
computed: the c values, squares and products, as far as they differ. Z exists in chunks only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shiftune.problem._site import Features
from shiftune.rows._encoding import RowEncoder

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
class MomentRows:
    """Rows as standardised values, squares and products of their columns: a matrix Z, (n, p).

    Only the values are kept, in little memory: float32 stays float32, and flags take a byte. With
    weights, Z are the rows `linearised` site by site.
    """

    numbers: NDArray[np.floating]  # (n, m)
    flags: NDArray[np.bool_]  # columns of two values, (n, f)
    ends: Floats  # what a flag stands for where it is false, and where it is true, (2, f)
    squares: NDArray[np.intp]  # columns whose squares are numbers of Z
    pairs: NDArray[np.intp]  # columns whose products are, (2, ...)
    mean: Floats  # of values, squares and products before they are standardised, (p,)
    scale: Floats
    weights: Sequence[Floats] | None = None  # of the rows of every site, k arrays (n_j,)

    @classmethod
    def unscaled(
        cls,
        numbers: NDArray[np.floating],
        flags: NDArray[np.bool_],
        ends: Floats | None = None,
        squares: NDArray[np.intp] = _NO_PAIRS[0],
        pairs: NDArray[np.intp] = _NO_PAIRS,
    ) -> MomentRows:
        """Return rows that are not standardised; flags stand for 0 and 1, if for nothing else."""
        f = flags.shape[1]
        p = numbers.shape[1] + f + len(squares) + pairs.shape[1]
        ends = np.array([np.zeros(f), np.ones(f)]) if ends is None else ends
        return cls(numbers, flags, ends, squares, pairs, np.zeros(p), np.ones(p))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def width(self) -> int:
        """Number p of columns of Z."""
        return len(self.mean)

    def less(self, shift: Floats) -> MomentRows:
        """Return the rows of Z less a row, shape (p,)."""
        return replace(self, mean=self.mean + self.scale * shift)

    def chunks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the rows of Z, a chunk at a time."""
        first, second = self.pairs
        if self.weights is not None:
            w = np.concatenate([weights / weights.mean() for weights in self.weights])[:, None]
            n = np.array([len(weights) for weights in self.weights])
            site, centers = np.repeat(np.arange(len(n)), n), np.empty((len(n), self.width))
            for j, (end, weights) in enumerate(zip(np.cumsum(n), self.weights, strict=True)):
                rows = slice(end - n[j], end)
                plain = replace(
                    self, numbers=self.numbers[rows], flags=self.flags[rows], weights=None
                )
                centers[j] = plain.sums(weights) / weights.sum()
        for rows, X in self._values():
            Z = np.hstack([X, X[:, self.squares] ** 2, X[:, first] * X[:, second]])
            Z -= self.mean
            Z /= self.scale
            if self.weights is not None:
                Z = w[rows] * Z + (1 - w[rows]) * centers[site[rows]]
            yield rows, Z

    def dense(self) -> Floats:
        """Return Z."""
        return np.concatenate([Z for _, Z in self.chunks()])

    def times(self, v: Floats) -> Floats:
        """Return Z v, without forming Z: (p,) -> (n,)."""
        u = v / self.scale
        c = len(u) - len(self.squares) - self.pairs.shape[1]
        if self.pairs.size:
            quadratic = np.zeros((c, c))
            quadratic[self.squares, self.squares] = u[c : len(u) - self.pairs.shape[1]]
            quadratic[tuple(self.pairs)] = u[len(u) - self.pairs.shape[1] :]
            parts = [X @ u[:c] + np.einsum("ij,ij->i", X @ quadratic, X) for _, X in self._values()]
        else:
            parts = [X @ u[:c] + X[:, self.squares] ** 2 @ u[c:] for _, X in self._values()]
        return self._each_site(linearised, np.concatenate(parts) - self.mean @ u)

    def sums(self, r: Floats) -> Floats:
        """Return Z'r, without forming Z: (n,) -> (p,)."""
        r, raw = self._each_site(coefficients, r), np.zeros(self.width)
        for rows, X in self._values():
            if self.pairs.size:
                products = X.T @ (r[rows, None] * X)
                more = [products[self.squares, self.squares], products[tuple(self.pairs)]]
            else:
                more = [r[rows] @ X[:, self.squares] ** 2]
            raw += np.concatenate([r[rows] @ X, *more])
        return np.asarray((raw - self.mean * r.sum()) / self.scale)

    def gram(self) -> Floats:
        """Return Z'Z, shape (p, p)."""
        gram = np.zeros((self.width, self.width))
        for _, Z in self.chunks():
            gram += Z.T @ Z
        return gram

    def mean_and_spread(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every number, each of shape (p,)."""
        mean = self.sums(np.ones(len(self))) / len(self)
        variance = np.zeros(self.width)
        for _, Z in self.less(mean).chunks():
            variance += (Z**2).sum(axis=0)
        return mean, np.sqrt(variance / len(self))

    def standardised(self, center: Floats, spread: Floats) -> tuple[MomentRows, float]:
        """Return the values that differ, centred, scaled and clipped; and the share of rows cut."""
        differs = spread > _SMALLEST_SPREAD
        limit = np.where(differs, MOST_SDS_FROM_SOURCES * spread, _SMALLEST_SPREAD)
        away = (np.any(np.abs(Z) > limit, axis=1) for _, Z in self.less(center).chunks())
        beyond = sum(int(far.sum()) for far in away) / len(self)
        m = self.numbers.shape[1]
        first, second = np.flatnonzero(differs[:m]), np.flatnonzero(differs[m:])
        numbers, ends = self.numbers[:, first], self.ends[:, second]
        for values, places in ((numbers, first), (ends, m + second)):
            values -= center[places]
            values /= spread[places]
            np.clip(values, -MOST_SDS_FROM_SOURCES, MOST_SDS_FROM_SOURCES, out=values)
        return self.unscaled(numbers, self.flags[:, second], ends), beyond

    def expanded(self) -> MomentRows:
        """Add squares and products to standardised values, and standardise them."""
        x, c = self.numbers, self.width
        # The square of a column of two values is that column again.
        squares = np.flatnonzero(np.any((x != x.min(axis=0)) & (x != x.max(axis=0)), axis=0))
        pairs = np.array(np.triu_indices(c, k=1)) if c <= MOST_MULTIPLIED else _NO_PAIRS
        rows = self.unscaled(x, self.flags, self.ends, squares, pairs)
        mean, scale = rows.mean_and_spread()
        kept = scale > _SMALLEST_SPREAD  # all values are, and most of the others
        _, of_squares, of_pairs = np.split(kept, [c, c + len(squares)])
        squares, pairs = squares[of_squares], pairs[:, of_pairs]
        return replace(rows, squares=squares, pairs=pairs, mean=mean[kept], scale=scale[kept])

    def _each_site(self, change: Callable[[Floats, Floats], Floats], values: Floats) -> Floats:
        """Return values of rows, (n,), `linearised`, or their `coefficients`."""
        if self.weights is None:
            return values
        of_sites = np.split(values, np.cumsum([len(w) for w in self.weights])[:-1])
        return np.concatenate(list(map(change, of_sites, self.weights)))

    def _values(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the values X, a chunk at a time; they are not changed."""
        size = max(NUMBERS_AT_ONCE // max(self.width, 1), 1)
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            X = self.numbers[rows].astype(float, copy=False)
            if self.flags.shape[1]:
                X = np.hstack([X, np.where(self.flags[rows], self.ends[1], self.ends[0])])
            yield rows, X


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
        encoder = RowEncoder()
        encoded = encoder.fit_transform([target, *sources])
        single = isinstance(target, np.ndarray) and target.dtype == np.float32
        m, dtype = int(encoder.kept_.sum()), np.float32 if single else np.float64
        new, *others = (MomentRows.unscaled(Z[:, :m].astype(dtype), Z[:, m:] != 0) for Z in encoded)
        numbers = np.concatenate([source.numbers for source in others])
        flags = np.concatenate([source.flags for source in others])
        del others  # as large as these
        rows = replace(new, numbers=numbers, flags=flags)
        center, spread = rows.mean_and_spread()
        (new, far), (rows, far_sources) = (
            moments.standardised(center, spread) for moments in (new, rows)
        )
        self.beyond = max(0.0, far - far_sources)
        self.sources = rows.expanded()
        self.target = replace(self.sources, numbers=new.numbers, flags=new.flags)
        return self


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
