"""Weights between none and the full correction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from shiftune.errors import ProblemError
from shiftune.ratio.auto import ratio_named
from shiftune.ratio.base import DensityRatio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shiftune.problem.site import Features


class TemperedRatio(DensityRatio):
    r"""A density ratio to a power, and cut off: a smaller variance for some bias.

    .. math:: \tilde w(x) = \min(w(x), w_{\max})^\tau

    :math:`\tau = 0` is no correction and :math:`\tau = 1` the full one. The weights no longer
    have mean 1: use them with ``risk="self_normalised"``.

    Parameters
    ----------
    ratio : str or DensityRatio
    power : float
        :math:`\tau`, from 0 to 1.
    largest : float
        :math:`w_{\max}`.
    random_state : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target, source = rng.normal(1, 1, (500, 1)), rng.normal(0, 1, (500, 1))
    >>> full, half = (TemperedRatio(power=p).fit(target, [source]).weights([source])[0]
    ...               for p in (1.0, 0.5))
    >>> bool(np.allclose(half, np.sqrt(full)))
    True
    """

    def __init__(
        self,
        ratio: str | DensityRatio = "logistic",
        *,
        power: float = 0.5,
        largest: float = np.inf,
        random_state: int = 0,
    ) -> None:
        self.ratio = ratio
        self.power = power
        self.largest = largest
        self.random_state = random_state

    def _fit_rows(self, target: Features, sources: list[Features]) -> None:
        if not 0 <= self.power <= 1:
            raise ProblemError(f"the power of a ratio lies between 0 and 1, got {self.power!r}")
        if not self.largest > 0:
            raise ProblemError(f"the largest weight must be above 0, got {self.largest!r}")
        self.full_ = clone(ratio_named(self.ratio, self.random_state)).fit(target, sources)

    def _weights_rows(self, source: int, X: Features) -> NDArray[np.float64]:
        w = self.full_.weights_at(X, source=source)
        return np.asarray(np.minimum(w, self.largest) ** self.power)
