"""Scales on which metrics are combined: where they have no bounds, or differences are relative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Floats = NDArray[np.float64]
Curve = Callable[[Any], Any]

ScaleName = Literal["identity", "logit", "log", "log_of_rest"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Increasing or decreasing function of a metric, its derivative and its inverse."""

    to: Curve
    slope: Curve
    back: Curve
    # Values that the function takes to infinity.
    bounds: tuple[float, float] = (-np.inf, np.inf)

    def inside(self, values: Floats, resolution: Floats) -> Floats:
        """Keep values away from the bounds, by a part of their size; shapes (k,).

        >>> SCALES["logit"].inside(np.array([0.2, 1.0]), np.array([0.1, 0.1]))
        array([0.2, 0.9])
        """
        if np.isinf(self.bounds).all():
            return values
        low, high = self.bounds
        unit = high - low
        if np.isinf(unit):  # half a row of a site of average value
            bound = low if np.isfinite(low) else high
            unit = float(np.mean(np.abs(values - bound))) or 1.0
        return np.asarray(np.clip(values, low + unit * resolution, high - unit * resolution))

    def interval(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of an interval as values of the metric, which may be infinite.

        >>> SCALES["log"].interval(0.0, 1000.0)
        (1.0, inf)
        """
        with np.errstate(over="ignore"):
            ends = sorted((float(self.back(low)), float(self.back(high))))
        return ends[0], ends[1]


SCALES: dict[ScaleName, Scale] = {
    "identity": Scale(lambda v: v, np.ones_like, lambda s: s),
    "logit": Scale(logit, lambda v: 1 / (v * (1 - v)), expit, (0.0, 1.0)),
    "log": Scale(np.log, lambda v: 1 / v, np.exp, (0.0, np.inf)),
    "log_of_rest": Scale(
        lambda v: np.log(1 - v), lambda v: -1 / (1 - v), lambda s: 1 - np.exp(s), (-np.inf, 1.0)
    ),
}
