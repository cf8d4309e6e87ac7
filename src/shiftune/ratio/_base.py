"""Interface of density ratios, and those that are learned from numbers."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
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
