"""Density ratios: their interface, uLSIF, those of classifiers, and all by name."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from shiftune._names import RATIOS, RatioName, complete
from shiftune._wording import check_choice
from shiftune.errors import DataError, DataWarning, SettingsError
from shiftune.problem._reading import align
from shiftune.problem._site import Features, Site, stacked
from shiftune.rows._encoding import ROWS_AT_ONCE, RowEncoder, in_batches, raw_numbers, subsample

Floats = NDArray[np.float64]

# With fewer target rows the weights are meaningless, however plausible they look.
FEWEST_TARGET_ROWS = 5


def target_and_sources(X_target: Any, X_sources: Sequence[Any]) -> list[Features]:
    """Check the rows of the target and of k sources, and bring their columns in one order."""
    if len(X_sources) == 0:
        raise DataError("there are no sources to compare the target with")
    sources = {f"source {number}": X for number, X in enumerate(X_sources, start=1)}
    tables = align({"target": X_target, **sources})
    for site, X in tables.items():
        if len(X) == 0:
            raise DataError(f"{site} has no rows to compare; it needs some")
    return list(tables.values())


class DensityRatio(BaseEstimator, ABC):  # type: ignore[misc]
    """Density ratio of the target to every source j: w_j(x) = p_T(x) / p_j(x).

    One that is learned from numbers is a subclass of `EncodedRatio`.

    Attributes
    ----------
    n_sources_ : int
        Number k of the sources in `fit`.
    """

    @abstractmethod
    def fit(self, X_target: Any, X_sources: Sequence[Any]) -> Self:
        """Learn the ratios of the target to all sources together.

        Parameters
        ----------
        X_target : array or DataFrame of shape (n_T, d)
        X_sources : k arrays or DataFrames of shape (n_j, d)
        """

    @abstractmethod
    def weights(self, X_sources: Sequence[Any]) -> list[Floats]:
        """Return w_j at rows of every source: k arrays of shape (n_j,), in the order of `fit`."""


class EncodedRatio(DensityRatio):
    """A density ratio that is learned from numbers.

    A subclass writes `_fit_encoded` and `_weights_encoded`, which receive float arrays; categories,
    missing values and scales are handled here (see `RowEncoder`).
    """

    def fit(self, X_target: Any, X_sources: Sequence[Any]) -> Self:
        target, *sources = target_and_sources(X_target, X_sources)
        if len(target) < FEWEST_TARGET_ROWS:
            warnings.warn(
                f"the target has {len(target)} row(s), too few to estimate its distribution; "
                "density ratios, and figures based on them, are unreliable: collect more rows",
                DataWarning,
                stacklevel=2,
            )
        self._like_ = target[:0]
        self.n_sources_ = len(sources)
        Z_target, *Z_sources = self._learn_encoding([target, *sources])
        self._flat_ = Z_target.shape[1] == 0  # nothing differs anywhere
        if not self._flat_:
            self._fit_encoded(Z_target, Z_sources)
        return self

    def weights(self, X_sources: Sequence[Any]) -> list[Floats]:
        if not hasattr(self, "n_sources_"):
            raise SettingsError(f"this {type(self).__name__} is not fitted; call fit first")
        if len(X_sources) != self.n_sources_:
            raise DataError(
                f"weights are wanted for {len(X_sources)} sources, but the ratio was fitted on "
                f"{self.n_sources_}"
            )
        sources = {f"rows for source {j}": X for j, X in enumerate(X_sources, start=1)}
        _, *tables = align({"the rows of fit": self._like_, **sources}).values()
        if self._flat_:
            return [np.ones(len(X)) for X in tables]
        weights: list[Floats] = []
        for some in in_batches(tables, ROWS_AT_ONCE):
            ends = np.cumsum([len(X) for X in some])
            for Z in np.split(self._encoded(stacked(some)), ends[:-1]):
                w = self._weights_encoded(len(weights), Z) if len(Z) else np.empty(0)
                weights.append(np.maximum(w, 0.0))
        return weights

    @abstractmethod
    def _fit_encoded(self, Z_target: Floats, Z_sources: list[Floats]) -> None:
        """Learn from encoded rows."""

    @abstractmethod
    def _weights_encoded(self, source: int, Z: Floats) -> Floats:
        """Return w_j at encoded rows, shape (n,)."""

    def _learn_encoding(self, tables: list[Features]) -> list[Floats]:
        self._encoder_ = RowEncoder()
        return list(self._encoder_.fit_transform(tables))

    def _encoded(self, X: Features) -> Floats:
        return self._encoder_.transform(X)


def site_weights(ratio: DensityRatio, sites: Sequence[Site]) -> list[Floats]:
    """Return the density ratios at the rows of every site, one array per site.

    Parameters
    ----------
    ratio : DensityRatio
        Fitted on the target and the k sources.
    sites : sequence of Site
        A part of a `Split`: the k sources in the order of `fit`, then, where there are any, the
        labelled rows of the target, whose density ratio is 1.
    """
    k = ratio.n_sources_
    return [
        *ratio.weights([site.X for site in sites[:k]]),
        *(np.ones(len(site)) for site in sites[k:]),
    ]


# ---------------------------------------------------------------- uLSIF

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


def _grid(values: Sequence[float] | None, default: Sequence[float], name: str) -> Floats:
    grid = np.atleast_1d(np.asarray(default if values is None else values, dtype=float))
    if grid.ndim != 1 or len(grid) == 0 or not np.all(np.isfinite(grid)) or np.any(grid <= 0):
        raise SettingsError(f"{name} must be numbers > 0, got {values!r}")
    return grid


# ---------------------------------------------------------------- classifiers

# Largest odds taken at face value; a classifier that is surer than this has separated the sites.
_MOST_ODDS = 1e9
# With fewer rows per column than this, logistic regression is held back in proportion: 60 to 200
# rows in 20 to 60 columns gave 2 to 8 times the error without it (benchmarks/ratios.py).
_ROWS_PER_COLUMN = 150
# Rows of a site that train a classifier.
_MOST_ROWS = 20_000


@dataclass(eq=False, repr=False)
class ClassifierRatio(EncodedRatio):
    r"""Density ratio from the odds of a probabilistic classifier, one classifier per source.

    Target rows are class 1, the rows of source j class 0; Bayes' rule turns the probability
    :math:`\pi(x)` that a row is the target's into

    .. math:: w_j(x) = \frac{n_j}{n_T} \, \frac{\pi(x)}{1 - \pi(x)} .

    Parameters
    ----------
    estimator : "logistic" or a scikit-learn classifier
        Needs `predict_proba`; sees the encoded columns (see `RowEncoder`). Logistic regression
        is exact for Gaussian sites with one covariance.
    random_state : int
        Draws at most 20,000 rows of the target, and of each source, which are used.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target, source = rng.normal(0, 1, (4000, 1)), rng.normal(1, 1, (4000, 1))
    >>> (w,) = ClassifierRatio().fit(target, [source]).weights([np.array([[-1.0], [0.5]])])
    >>> bool(np.allclose(w, np.exp([1.5, 0.0]), rtol=0.1))
    True
    """

    estimator: Any = "logistic"
    _: KW_ONLY
    random_state: int = 0

    # One thread: the fits are small, and threads that wait for a busy core cost far more than
    # they gain.
    @threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
    def _fit_encoded(self, Z_target: Floats, Z_sources: list[Floats]) -> None:
        Z_T = np.asarray(subsample(Z_target, _MOST_ROWS, self.random_state))
        self.classifiers_: list[Any] = []
        self.prior_odds_: list[float] = []
        for Z in Z_sources:
            Z_j = np.asarray(subsample(Z, _MOST_ROWS, self.random_state))
            is_target = np.repeat([1, 0], [len(Z_T), len(Z_j)])
            prototype = self._prototype(min(len(Z_T), len(Z_j)), Z_T.shape[1])
            self.classifiers_.append(clone(prototype).fit(np.vstack([Z_T, Z_j]), is_target))
            self.prior_odds_.append(len(Z_T) / len(Z_j))

    # Once for all sources: to find the libraries takes longer than the weights of a small one.
    @threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
    def weights(self, X_sources: Sequence[Any]) -> list[Floats]:
        return super().weights(X_sources)

    def _weights_encoded(self, source: int, Z: Floats) -> Floats:
        p = self.classifiers_[source].predict_proba(Z)[:, 1]
        odds = p / np.maximum(1 - p, 1 / _MOST_ODDS)
        return np.asarray(odds / self.prior_odds_[source])

    def _prototype(self, n: int, d: int) -> Any:
        """Return the unfitted classifier for n rows of the smaller class and d columns."""
        if isinstance(self.estimator, str):
            check_choice(self.estimator, ["logistic"], "classifier")
            return LogisticRegression(C=min(1.0, n / (_ROWS_PER_COLUMN * d)), max_iter=1000)
        if not hasattr(self.estimator, "predict_proba"):
            raise SettingsError(
                f"{type(self.estimator).__name__} has no predict_proba; a density ratio needs "
                "probabilities (for SVMs wrap it in CalibratedClassifierCV)"
            )
        return self.estimator


def ratio_named(ratio: str | DensityRatio, random_state: int = 0) -> DensityRatio:
    """Return a density ratio from its name, or as it is.

    >>> ratio_named("logistic")
    ClassifierRatio()
    """
    if isinstance(ratio, DensityRatio):
        return ratio
    ratios: dict[RatioName, DensityRatio] = {
        "logistic": ClassifierRatio("logistic", random_state=random_state),
        "ulsif": ULSIF(random_state=random_state),
    }
    return complete(RATIOS, ratios)[check_choice(ratio, ratios, "density ratio")]
