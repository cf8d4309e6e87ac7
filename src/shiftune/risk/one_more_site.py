"""What an estimate for a site that was not asked counts besides the chance of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftune.risk.packing import packed, unpacked
from shiftune.risk.variance import combined_variance, squares_by_source, variance_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ARRAYS = ("pull", "own", "reach")


@dataclass(frozen=True, slots=True, eq=False)
class OneMoreSite:
    r"""How far one more site may be from what the sources say.

    All of it is linear in the losses, or a square of what is, so that it can be told for the
    difference of two models as well.

    Attributes
    ----------
    between : float
        Variance :math:`\tau^2` of the sites' true values.
    pull : array of shape (k,)
        :math:`C_l`, by how much a source's own deviation moves the estimate; its share, unless the
        adjustment learns from the source as well.
    stretch : float
        Variance of the sites' values over that of what the sources say: an adjustment that learns
        from few sites takes some of their differences for effects of the columns.
    own : array of shape (cells,)
        How far each row moves the estimate of its own source.
    reach : array of shape (r,)
        Numbers whose squares add up to the variance of the adjustment: of the target's rows, and
        of what a penalty holds back.
    noise : float
        Further variance of the adjustment, per variance of one row's loss.
    """

    between: float
    pull: Floats
    stretch: float
    own: Floats
    reach: Floats
    noise: float

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            getattr(self, name).flags.writeable = False

    def variance(
        self, influence: Floats, cells: NDArray[np.intp], n: NDArray[np.intp], effective: Floats
    ) -> tuple[float, float]:
        """Variance of the estimate with this influence, and its degrees of freedom."""
        k = len(self.pull)
        one_row = float(np.average(self._divergences(cells, n), weights=n[:k]))
        besides = float(self.reach @ self.reach) + self.noise * one_row
        return combined_variance(
            influence, cells, effective, between=self.between, shares=self.pull, besides=besides
        )

    def minus(
        self,
        other: OneMoreSite,
        estimates: Floats,
        cells: NDArray[np.intp],
        n: NDArray[np.intp],
    ) -> OneMoreSite:
        """The same of the difference of two models, with their sources' differences (k,)."""
        k = len(self.pull)
        apart = replace(self, own=self.own - other.own, reach=self.reach - other.reach)
        speak = self.pull != 0
        between = variance_between(
            estimates[:k][speak], apart._divergences(cells, n)[speak], n[:k][speak]
        )
        return replace(apart, between=self.stretch * between)

    def _divergences(self, cells: NDArray[np.intp], n: NDArray[np.intp]) -> Floats:
        k = len(self.pull)
        return squares_by_source(self.own, cells)[:k] * n[:k]

    def scaled(self, change: Floats) -> OneMoreSite:
        """The same after the sources' shares were multiplied by factors (k,)."""
        before = float(self.pull.sum())
        pull = self.pull * change
        factor = float(pull.sum()) / before if before else 0.0
        return replace(self, pull=pull, reach=factor * self.reach, noise=factor**2 * self.noise)

    def to_record(self) -> dict[str, Any]:
        """Return numbers and text that JSON can hold."""
        record: dict[str, Any] = {
            "between": self.between,
            "stretch": self.stretch,
            "noise": self.noise,
        }
        return record | {name: packed(getattr(self, name)) for name in _ARRAYS}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> OneMoreSite:
        """Read what `to_record` wrote."""
        return cls(**{**record, **{name: unpacked(record[name]) for name in _ARRAYS}})
