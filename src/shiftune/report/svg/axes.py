"""Axes of a figure: from values to places on the page, and where the ticks are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune.report.figures.canvas import log_axis
from shiftune.report.svg.elements import plain_text, text_width
from shiftune.wording import scaled, shortened

Floats = NDArray[np.float64]

# Free share of a scale at both ends, so that marks are not cut.
PADDING = 0.04


@dataclass(frozen=True, slots=True)
class Axis:
    """Scale from values to pixels.

    Attributes
    ----------
    low, high : float
        Ends of the scale; logarithms (of base 10) where it is logarithmic.
    start, end : float
        Their places in pixels.
    log : bool
    ticks : pairs of a value and its text
    """

    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def at(self, values: ArrayLike) -> Floats:
        """Return the places of values, of the same shape.

        >>> Axis(0.0, 2.0, 100.0, 300.0, False, ()).at([0, 1, 2])
        array([100., 200., 300.])
        """
        given = np.asarray(values, dtype=float)
        scale = np.log10(given) if self.log else given
        share = (scale - self.low) / (self.high - self.low)
        return np.asarray(self.start + share * (self.end - self.start))

    @property
    def widest(self) -> float:
        """Width of the longest tick label."""
        return max((text_width(text) for _, text in self.ticks), default=0.0)


def axis(layout: Any, values: Iterable[ArrayLike], start: float, end: float, apart: float) -> Axis:
    """Return the axis of a Plotly layout for the values that are drawn.

    Parameters
    ----------
    layout : plotly.graph_objects.layout.XAxis or YAxis
    values : arrays
        All that has a place on the axis.
    start, end : float
        Places of the scale's ends, in pixels.
    apart : float
        Least distance of ticks, in pixels.
    """
    log = layout.type == "log"
    low, high = _ends(layout, values, log)
    if layout.tickvals is not None:
        texts = [plain_text(text) for text in layout.ticktext]
        ticks = list(zip(map(float, layout.tickvals), texts, strict=True))
    elif log:
        own = log_axis(10**low, 10**high)
        ticks = list(zip(own["tickvals"], own["ticktext"], strict=True))
    else:
        ticks = _round_ticks(low, high, max(int(abs(end - start) / apart), 2), layout.tickformat)
    inside = [(v, t) for v, t in ticks if low - 1e-9 <= (np.log10(v) if log else v) <= high + 1e-9]
    return Axis(low, high, start, end, log, tuple(inside))


def with_short_labels(given: Axis, width: float) -> tuple[tuple[float, str], ...]:
    """Return the ticks with texts that fit into a width."""
    most = max(int(width / text_width("n")), 4)
    return tuple((value, shortened(text, most)) for value, text in given.ticks)


def _ends(layout: Any, values: Iterable[ArrayLike], log: bool) -> tuple[float, float]:
    if layout.range is not None:
        return float(layout.range[0]), float(layout.range[1])
    drawn = np.concatenate([np.ravel(np.asarray(each, dtype=float)) for each in values])
    seen = drawn[np.isfinite(drawn) & (drawn > 0 if log else True)]
    if log:
        seen = np.log10(seen)
    low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 1.0)
    if layout.rangemode == "tozero" and low >= 0:
        low = 0.0
    free = PADDING * (high - low) or max(0.5, 1e-3 * abs(high))
    return low if layout.rangemode == "tozero" and low == 0 else low - free, high + free


def _round_ticks(
    low: float, high: float, most: int, tickformat: str | None
) -> list[tuple[float, str]]:
    """Return ticks at round numbers.

    >>> _round_ticks(0.07, 0.43, 5, None)
    [(0.1, '0.1'), (0.2, '0.2'), (0.3, '0.3'), (0.4, '0.4')]
    >>> _round_ticks(0, 5.2e9, 3, None)
    [(0.0, '0'), (2000000000.0, '2 billion'), (4000000000.0, '4 billion')]
    """
    rough = (high - low) / most
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(each for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))
    decimals = max(0, -int(np.floor(np.log10(step))))
    values = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    rounded = [float(np.round(value, decimals)) + 0.0 for value in values]
    if tickformat:
        return [(value, format(value, tickformat).replace("%", " %")) for value in rounded]
    size = max(map(abs, rounded), default=0.0)
    return [(value, _tick_text(value, size, decimals)) for value in rounded]


def _tick_text(value: float, size: float, decimals: int) -> str:
    unit, word = scaled(size)
    if word and value:
        return f"{value / unit:g} {word}"
    return "0" if value == 0 else f"{value:,.{decimals}f}"
