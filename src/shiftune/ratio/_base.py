"""Interface of density ratios, and known ratios."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from shiftune.errors import DataError, DataWarning, SettingsError
from shiftune.problem._reading import align
from shiftune.problem._site import Features, Site, stacked
from shiftune.rows._encoding import ROWS_AT_ONCE, RowEncoder, in_batches

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

    A subclass that learns from numbers writes the two methods of `EncodedRatio`; one that reads
    the user's own columns writes `_fit_rows` and `_weights_rows`.
    """

    def fit(self, X_target: Any, X_sources: Sequence[Any]) -> Self:
        """Learn the ratios of the target to all sources together.

        Parameters
        ----------
        X_target : array or DataFrame of shape (n_T, d)
        X_sources : k arrays or DataFrames of shape (n_j, d)
        """
        target, *sources = target_and_sources(X_target, X_sources)
        self._like_ = target[:0]
        self.n_sources_ = len(sources)
        self._fit_rows(target, sources)
        return self

    def weights(self, X_sources: Sequence[Any]) -> list[Floats]:
        """Return w_j at rows of every source: k arrays of shape (n_j,), in the order of `fit`."""
        self._check_fitted()
        if len(X_sources) != self.n_sources_:
            raise DataError(
                f"weights are wanted for {len(X_sources)} sources, but the ratio was fitted on "
                f"{self.n_sources_}"
            )
        sources = {f"rows for source {j}": X for j, X in enumerate(X_sources, start=1)}
        _, *tables = align({"the rows of fit": self._like_, **sources}).values()
        return [np.maximum(w, 0.0) for w in self._weights_of_all(tables)]

    def weights_at(self, X: Any, *, source: int) -> Floats:
        """Return w_j at any rows, for example the target's, shape (n,)."""
        self._check_fitted()
        where = f"rows for source {source + 1}"
        rows = align({"the rows of fit": self._like_, where: X})[where]
        return np.maximum(self._weights_rows(source, rows), 0.0) if len(rows) else np.empty(0)

    @abstractmethod
    def _fit_rows(self, target: Features, sources: list[Features]) -> None:
        """Learn from checked rows with the same columns."""

    @abstractmethod
    def _weights_rows(self, source: int, X: Features) -> Floats:
        """Return w_j at checked rows, shape (n,)."""

    def _weights_of_all(self, tables: list[Features]) -> list[Floats]:
        """Return w_j at checked rows of every source, shape (n_j,) each."""
        return [self._weights_rows(j, X) if len(X) else np.empty(0) for j, X in enumerate(tables)]

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_sources_"):
            raise SettingsError(f"this {type(self).__name__} is not fitted; call fit first")


class EncodedRatio(DensityRatio):
    """A density ratio that is learned from numbers.

    A subclass writes `_fit_encoded` and `_weights_encoded`, which receive float arrays; categories,
    missing values and scales are handled here (see `RowEncoder`).
    """

    def _fit_rows(self, target: Features, sources: list[Features]) -> None:
        if len(target) < FEWEST_TARGET_ROWS:
            warnings.warn(
                f"the target has {len(target)} row(s), too few to estimate its distribution; "
                "density ratios, and figures based on them, are unreliable: collect more rows",
                DataWarning,
                stacklevel=3,
            )
        Z_target, *Z_sources = self._learn_encoding([target, *sources])
        self._flat_ = Z_target.shape[1] == 0  # nothing differs anywhere
        if not self._flat_:
            self._fit_encoded(Z_target, Z_sources)

    def _weights_rows(self, source: int, X: Features) -> Floats:
        return np.ones(len(X)) if self._flat_ else self._weights_encoded(source, self._encoded(X))

    def _weights_of_all(self, tables: list[Features]) -> list[Floats]:
        if self._flat_:
            return [np.ones(len(X)) for X in tables]
        found: list[Floats] = []
        for some in in_batches(tables, ROWS_AT_ONCE):
            ends = np.cumsum([len(X) for X in some])
            for Z in np.split(self._encoded(stacked(some)), ends[:-1]):
                found.append(self._weights_encoded(len(found), Z) if len(Z) else np.empty(0))
        return found

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


class KnownRatio(DensityRatio):
    """Density ratios given as functions, one per source.

    Parameters
    ----------
    functions : sequence of k functions
        Function j takes the rows of source j, as the user gave them, and returns their weights,
        shape (n_j,).

    Examples
    --------
    >>> ratio = KnownRatio([lambda X: np.full(len(X), 2.0)])
    >>> ratio.fit(np.zeros((3, 1)), [np.zeros((2, 1))]).weights([np.zeros((2, 1))])
    [array([2., 2.])]
    """

    def __init__(self, functions: Sequence[Callable[[Any], Floats]]) -> None:
        self.functions = functions

    def _weights_rows(self, source: int, X: Features) -> Floats:
        """Return the user's function at these rows, checked: shape (n,), finite, >= 0."""
        w = np.asarray(self.functions[source](X), dtype=float)
        if w.shape != (len(X),):
            raise SettingsError(
                f"the known ratio of source {source + 1} returned shape {w.shape} for {len(X)} "
                f"rows; it must return shape ({len(X)},)"
            )
        if not np.all(np.isfinite(w)) or np.any(w < 0):
            raise SettingsError(
                f"the known ratio of source {source + 1} returned weights that are negative or "
                "not finite"
            )
        return w

    def _fit_rows(self, target: Features, sources: list[Features]) -> None:
        if len(self.functions) != len(sources):
            raise SettingsError(
                f"there are {len(self.functions)} known ratios for {len(sources)} sources"
            )
