"""Density ratios that are known, as in simulations or designed samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import SettingsError
from shiftune.problem.site import Features
from shiftune.ratio.base import DensityRatio


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

    def __init__(self, functions: Sequence[Callable[[Any], NDArray[np.float64]]]) -> None:
        self.functions = functions

    def _weights_rows(self, source: int, X: Features) -> NDArray[np.float64]:
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
