"""uLSIF: least-squares density ratios of the target to all sources at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.spatial.distance import pdist
from threadpoolctl import threadpool_limits

from shiftune.errors import SettingsError
from shiftune.problem._site import Features
from shiftune.ratio._base import EncodedRatio
from shiftune.rows._encoding import raw_numbers

Floats = NDArray[np.float64]

# Bandwidths, in units of the median distance between target rows.
_BANDWIDTHS = tuple(2.0 ** np.arange(-2, 2.5, 0.5))
_PENALTIES = tuple(10.0 ** np.arange(-3, 1.5, 0.5))
_FOLDS = 5
# For the true ratio E_T[w] = E_j[w^2] and E_j[w] = 1. How far the fit that is best by J departs
# from both, by the distance of the source: benchmarks/reach.py.
_MOST_EXCESS = 5.0
_MOST_MEAN_WEIGHT = 2.0
_FEWEST_ROWS = 20
# Rows read at a time: the kernel matrix of a chunk (100 centres) then fits in the cache.
CHUNK = 2048


class KernelSums:
    r"""Sums of kernels over the rows of every fold f and for every bandwidth s, and their means.

    H, :math:`\sum_{i \in f} \phi(x_i) \phi(x_i)^\top`, has shape (K, S, b, b), zeros where it is
    not needed; h, :math:`\sum_{i \in f} \phi(x_i)`, shape (K, S, b); n, the rows, shape (K,).
    """

    def __init__(self, H: Floats, h: Floats, n: NDArray[np.intp]) -> None:
        self.H, self.h, self.n = H, h, n
        self._all = H.sum(axis=0), h.sum(axis=0), n.sum()

    def means(self, only: int | None = None, without: int | None = None) -> tuple[Floats, Floats]:
        """Mean of H and h over all rows, over those of one fold, or over all but those."""
        if only is not None:
            return self.H[only] / self.n[only], self.h[only] / self.n[only]
        H, h, n = self._all
        if without is not None:
            H, h, n = H - self.H[without], h - self.h[without], n - self.n[without]
        return H / n, h / n


@dataclass(eq=False, repr=False)
class ULSIF(EncodedRatio):
    r"""Unconstrained least-squares density ratio (Kanamori et al. 2009), all sources at once.

    Estimates :math:`w_j(x) = p_T(x) / p_j(x)` by minimising
    :math:`\frac12 \mathrm{mean}_j\, w^2 - \mathrm{mean}_T\, w` over sums of b Gaussian kernels
    centred on target rows, :math:`\hat w(x) = a^\top \phi(x)`, with

    .. math:: a = \max(0, (H + \lambda I)^{-1} h), \quad
              H = \mathrm{mean}_j\, \phi\phi^\top, \quad h = \mathrm{mean}_T\, \phi .

    Bandwidth and penalty minimise the five-fold cross-validated objective
    :math:`J = \frac12 a^\top H a - h^\top a`, for every source by itself. Since J needs of a fold
    only its H and h, the rows are read once, in chunks, and memory does not grow with them.
    The rows that serve as centres are never held out: a kernel is 1 at its own centre, and
    testing it there would favour bandwidths that are too small.

    The settings of the paper's released code are
    ``ULSIF(bandwidths=..., penalties=..., scale=False, guard=False)`` with the grids it names.

    Parameters
    ----------
    bandwidths, penalties : sequences of float, optional
        The grids. Bandwidths are multiples of the median distance between target rows; with
        ``scale=False`` they are distances.
    n_centers : int
        Number of kernels b; at most half of the target's rows are centres.
    scale : bool
        False computes on unscaled features, as the paper's experiments do.
    guard : bool
        Where a source has no rows near the target, J falls without limit as w grows on target
        rows, and wide kernels then carry arbitrary weights over to the source. But the true
        ratio has :math:`E_j[w] = 1` and :math:`E_T[w] = E_j[w^2]`. If the best fit breaks this on
        held-out rows (:math:`\mathrm{mean}_j\, w > 2`, or
        :math:`\mathrm{mean}_T\, w > 5\, \mathrm{mean}_j\, w^2`), the source does not cover the
        target and all its weights are 0. False keeps the best fit by J, as published.
    random_state : int
        Draws the centres and folds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target, source = rng.normal(0, 1, (500, 1)), rng.normal(0.5, 1, (500, 1))
    >>> (w,) = ULSIF().fit(target, [source]).weights([source])
    >>> round(float(w.mean()), 1)
    1.0
    """

    _: KW_ONLY
    bandwidths: Sequence[float] | None = None
    penalties: Sequence[float] | None = None
    n_centers: int = 100
    scale: bool = True
    guard: bool = True
    random_state: int = 0

    def _learn_encoding(self, tables: list[Features]) -> list[Floats]:
        return super()._learn_encoding(tables) if self.scale else list(map(self._encoded, tables))

    def _encoded(self, X: Features) -> Floats:
        return super()._encoded(X) if self.scale else raw_numbers(X)

    # The matrices are small (b = 100): a second BLAS thread only waits for the first, and on a
    # busy machine for long.
    @threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
    def _fit_encoded(self, Z_target: Floats, Z_sources: list[Floats]) -> None:
        penalties = np.sort(_grid(self.penalties, _PENALTIES, "penalties"))
        rng = np.random.default_rng(self.random_state)
        order = rng.permutation(len(Z_target))
        b = min(self.n_centers, (len(Z_target) + 1) // 2)
        self.centers_ = Z_target[order[:b]]
        sigmas = np.sort(_grid(self.bandwidths, _BANDWIDTHS, "bandwidths"))
        if self.scale:
            sigmas = sigmas * _median_distance(Z_target[order[: max(b, 1000)]])
        K = min(_FOLDS, len(Z_target) - b)
        target = self._kernel_sums(Z_target, sigmas, K, order, skip=b, gram=False)
        self.coefficients_: list[Floats] = []
        self.bandwidth_: list[float] = []
        self.penalty_: list[float] = []
        for Z in Z_sources:
            # Every source is shuffled by the same stream: their order does not matter.
            shuffled = np.random.default_rng(self.random_state).permutation(len(Z))
            source = self._kernel_sums(Z, sigmas, min(K, len(Z)), shuffled, skip=0, gram=True)
            s, p, covers = _best_of_grid(target, source, penalties)
            H, h = source.means()[0], target.means()[1]
            a = _solve(H[[s]], h[[s]], penalties[[p]])[0, :, 0]
            self.coefficients_.append(a if covers or not self.guard else np.zeros_like(a))
            self.bandwidth_.append(float(sigmas[s]))
            self.penalty_.append(float(penalties[p]))

    def _weights_encoded(self, source: int, Z: Floats) -> Floats:
        a, sigma = self.coefficients_[source], self.bandwidth_[source]
        w = np.empty(len(Z))
        for rows, squared in _squared_distances(Z, self.centers_):
            w[rows] = np.exp(squared / (-2 * sigma**2)) @ a
        return w

    def _kernel_sums(
        self, Z: Floats, sigmas: Floats, K: int, order: NDArray[np.intp], *, skip: int, gram: bool
    ) -> KernelSums:
        """Read the rows once; fold K (the last) holds the `skip` first of `order`, the centres."""
        b, S = len(self.centers_), len(sigmas)
        K = max(K, 1)
        folds = K + (skip > 0)
        fold = np.empty(len(Z), dtype=np.intp)
        fold[order[:skip]] = K
        fold[order[skip:]] = np.arange(len(Z) - skip) % K
        h = np.zeros((folds, S, b))
        H = np.zeros((folds, S, b, b) if gram else (folds, S, 1, 1))
        for rows, squared in _squared_distances(Z, self.centers_):
            members = [np.flatnonzero(fold[rows] == f) for f in range(folds)]
            for s, sigma in enumerate(sigmas):
                phi = np.exp(squared / (-2 * sigma**2))
                for f, inside in enumerate(members):
                    part = phi[inside]
                    h[f, s] += part.sum(axis=0)
                    if gram:
                        H[f, s] += part.T @ part
        return KernelSums(H, h, np.bincount(fold, minlength=folds))


def _best_of_grid(
    target: KernelSums, source: KernelSums, penalties: Floats
) -> tuple[int, int, bool]:
    """Positions in the grids of the bandwidth and penalty with the lowest cross-validated J.

    And whether the fit keeps, on held-out rows, to what is known of every density ratio.
    """
    K, S = source.h.shape[:2]
    if K < 2:  # nothing to hold out: the middle of the bandwidths and the strongest penalty
        return S // 2, len(penalties) - 1, True
    mean_T_w, mean_w, mean_w2 = np.zeros((3, S, len(penalties)))
    for f in range(K):
        A = _solve(source.means(without=f)[0], target.means(without=f)[1], penalties)
        (_, h), (H, h_source) = target.means(only=f), source.means(only=f)
        mean_T_w += np.einsum("sb,sbp->sp", h, A)
        mean_w += np.einsum("sb,sbp->sp", h_source, A) / K
        mean_w2 += np.einsum("sbp,sbp->sp", A, H @ A)
    best = np.unravel_index(np.argmin(0.5 * mean_w2 - mean_T_w), mean_w.shape)
    covers = mean_w[best] <= _MOST_MEAN_WEIGHT and mean_T_w[best] <= _MOST_EXCESS * mean_w2[best]
    # With a handful of rows the held-out means are noise.
    return int(best[0]), int(best[1]), bool(covers or source.n.sum() < _FEWEST_ROWS)


def _solve(H: Floats, h: Floats, penalties: Floats) -> Floats:
    """max(0, (H + penalty I)^-1 h) for all penalties: (S, b, b), (S, b), (P,) -> (S, b, P).

    H = Q T Q' with T tridiagonal, so (H + penalty I)^-1 h = Q (T + penalty I)^-1 Q' h: one
    reduction serves every penalty, for less than an eigendecomposition, which begins with it.
    """
    S, b = h.shape
    if b == 1:
        return np.maximum(h[:, :, None] / (H + penalties), 0.0)
    A = np.empty((S, b, len(penalties)))
    for s in range(S):
        reflectors, diagonal, beside, tau, _ = lapack.dsytrd(H[s], lower=1)
        Q = np.asfortranarray(reflectors[1:, :-1])  # leaves the first coordinate as it is
        g = h[s].copy()
        g[1:] = lapack.dormqr("L", "T", Q, tau, g[1:, None], b)[0][:, 0]
        for p, penalty in enumerate(penalties):
            A[s, :, p] = lapack.dgtsv(beside, diagonal + penalty, beside, g)[3]
        A[s, 1:] = lapack.dormqr("L", "N", Q, tau, A[s, 1:], b * len(penalties))[0]
    return np.maximum(A, 0.0)


def _squared_distances(Z: Floats, centers: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield |z - c|^2 for a chunk of rows at a time: (rows, array of shape (chunk, b))."""
    # Distances are the same from any origin; one amid the centres keeps the rounding small.
    origin = centers.mean(axis=0)
    C = centers - origin
    C2 = (C**2).sum(axis=1)
    for start in range(0, len(Z), CHUNK):
        rows = slice(start, min(start + CHUNK, len(Z)))
        D = Z[rows] - origin
        squared = (D**2).sum(axis=1)[:, None] + C2 - 2 * (D @ C.T)
        yield rows, np.maximum(squared, 0, out=squared)


def _median_distance(Z: Floats) -> float:
    """Median distance between two different target rows (1 where all are the same)."""
    distances = pdist(Z) if len(Z) > 1 else np.empty(0)
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0


def _grid(given: Sequence[float] | None, default: Sequence[float], name: str) -> Floats:
    grid = np.atleast_1d(np.asarray(default if given is None else given, dtype=float))
    if grid.ndim != 1 or len(grid) == 0 or not np.all(np.isfinite(grid)) or np.any(grid <= 0):
        raise SettingsError(f"{name} must be numbers > 0, got {given!r}")
    return grid
