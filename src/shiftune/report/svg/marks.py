"""Marks of a figure's traces: points, lines, bars, boxes, cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.report.figures.canvas import BLUE, HEAT
from shiftune.report.svg.axes import Axis
from shiftune.report.svg.elements import element, plain_text, text

DASHES = {"dot": "2 3", "dash": "6 4"}
# Corners of markers, in halves of their size.
CORNERS: dict[str, list[tuple[float, float]]] = {
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "diamond": [(0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)],
    "arrow-left": [(-1, 0), (1, -1), (1, 1)],
    "arrow-right": [(1, 0), (-1, -1), (-1, 1)],
}


def marks(trace: Any, x: Axis, y: Axis) -> Iterator[str]:
    """Return the elements of one trace."""
    if trace.type == "bar":
        yield from _bars(trace, x, y)
    elif trace.type == "box":
        yield from _boxes(trace, x, y)
    elif trace.type == "heatmap":
        yield from _cells(trace, x, y)
    elif "lines" in (trace.mode or ""):
        yield _line(trace, x, y)
        yield from _invisible_points(trace, x, y)
    else:
        yield from _points(trace, x, y)


def symbol(
    name: str, x: float, y: float, size: float, color: str, data_tip: str | None = None
) -> str:
    """Return a marker."""
    more = {"data_tip": data_tip}
    half = size / 2
    if name == "circle-open":
        return element(
            "circle", cx=x, cy=y, r=half, fill="none", stroke=color, stroke_width=2, **more
        )
    if name == "circle":
        return element("circle", cx=x, cy=y, r=half, fill=color, **more)
    if name == "x":
        start = f"M{x - half:.1f} {y - half:.1f}"
        d = f"{start}l{size:.1f} {size:.1f}m0 {-size:.1f}l{-size:.1f} {size:.1f}"
        return element("path", d=d, stroke=color, stroke_width=2, **more)
    points = " ".join(f"{x + a * half:.1f},{y + b * half:.1f}" for a, b in CORNERS[name])
    return element("polygon", points=points, fill=color, **more)


def dashes(line: Any) -> str | None:
    """Return the pattern of a line; None for a continuous one."""
    return DASHES.get(line.dash)


def hover_texts(trace: Any) -> list[str | None]:
    """Return what is shown at every point of a trace, as plain text."""
    if trace.customdata is None:
        return [None] * len(trace.x if trace.x is not None else trace.y)
    return [plain_text(each) for each in trace.customdata]


def _points(trace: Any, x: Axis, y: Axis) -> Iterator[str]:
    across, down = x.at(trace.x), y.at(trace.y)
    n = len(across)
    sizes = np.broadcast_to(np.asarray(trace.marker.size, dtype=float), n)
    given = "circle" if trace.marker.symbol is None else trace.marker.symbol
    symbols = np.broadcast_to(np.asarray(given), n)
    color = trace.marker.color
    texts = hover_texts(trace)
    low_x, high_x = _error_ends(trace.x, trace.error_x, x)
    low_y, high_y = _error_ends(trace.y, trace.error_y, y)
    for i in range(n):
        if not (np.isfinite(across[i]) and np.isfinite(down[i])):
            continue
        bars = ""
        if low_x is not None and high_x is not None:
            bars += f"M{low_x[i]:.1f} {down[i]:.1f}H{high_x[i]:.1f}"
        if low_y is not None and high_y is not None:
            bars += f"M{across[i]:.1f} {low_y[i]:.1f}V{high_y[i]:.1f}"
        if bars and "nan" not in bars:
            yield element("path", d=bars, stroke=color, stroke_width=1.2)
        place = float(across[i]), float(down[i])
        yield symbol(str(symbols[i]), *place, float(sizes[i]), color, data_tip=texts[i])


def _error_ends(
    values: Any, error: Any, axis: Axis
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    if error.array is None:
        return None, None
    middle = np.asarray(values, dtype=float)
    low, high = middle - np.asarray(error.arrayminus), middle + np.asarray(error.array)
    if axis.log:
        low = np.maximum(low, 10.0 ** (axis.low - 1))
    return axis.at(low), axis.at(high)


def _line(trace: Any, x: Axis, y: Axis) -> str:
    across, down = x.at(trace.x), y.at(trace.y)
    known = np.isfinite(across) & np.isfinite(down)
    places = [f"{a:.1f} {b:.1f}" for a, b in zip(across[known], down[known], strict=True)]
    if trace.line.shape == "hv":
        parts = zip(across[known][1:], down[known][1:], strict=True)
        d = "M" + places[0] + "".join(f"H{a:.1f}V{b:.1f}" for a, b in parts)
    else:
        d = "M" + "L".join(places)
    filled = trace.fill == "toself"
    tips = hover_texts(trace)
    return element(
        "path",
        d=d + ("Z" if filled else ""),
        fill=trace.fillcolor if filled else "none",
        stroke=trace.line.color,
        stroke_width=trace.line.width,
        stroke_dasharray=dashes(trace.line),
        data_tip=tips[0] if len(set(tips)) == 1 else None,
    )


def _invisible_points(trace: Any, x: Axis, y: Axis) -> Iterator[str]:
    """Return circles that only a pointer finds, where the points of a line have texts."""
    tips = hover_texts(trace)
    if len(set(tips)) > 1:
        for a, b, tip in zip(x.at(trace.x), y.at(trace.y), tips, strict=True):
            yield element("circle", cx=float(a), cy=float(b), r=8, opacity=0, data_tip=tip)


def _bars(trace: Any, x: Axis, y: Axis) -> Iterator[str]:
    ends, down = x.at(trace.x), y.at(trace.y)
    start = float(x.at(0.0))
    thick = 0.7 * abs(float(y.at(1.0) - y.at(0.0)))
    for end, middle, tip in zip(ends, down, hover_texts(trace), strict=True):
        yield element(
            "rect",
            x=start,
            y=float(middle) - thick / 2,
            width=max(float(end) - start, 0.5),
            height=thick,
            fill=trace.marker.color,
            data_tip=tip,
        )


def _boxes(trace: Any, x: Axis, y: Axis) -> Iterator[str]:
    fences = x.at(trace.lowerfence), x.at(trace.q1), x.at(trace.q3), x.at(trace.upperfence)
    thick = trace.width * abs(float(y.at(1.0) - y.at(0.0)))
    rows = zip(*fences, x.at(trace.median), y.at(trace.y), strict=True)
    for low, first, third, high, middle, row in rows:
        top = row - thick / 2
        d = (
            f"M{low:.1f} {row:.1f}H{first:.1f}M{third:.1f} {row:.1f}H{high:.1f}"
            f"M{first:.1f} {top:.1f}H{third:.1f}v{thick:.1f}H{first:.1f}Z"
            f"M{middle:.1f} {top:.1f}v{thick:.1f}"
        )
        yield element("path", d=d, fill="none", stroke=trace.line.color, stroke_width=1.5)


def _cells(trace: Any, x: Axis, y: Axis) -> Iterator[str]:
    z = np.asarray(trace.z, dtype=float)
    wide = float(x.at(1.0) - x.at(0.0)) - 2
    high = abs(float(y.at(1.0) - y.at(0.0))) - 2
    for i, row in enumerate(z):
        for j, value in enumerate(row):
            middle, level = float(x.at(j)), float(y.at(i))
            opacity = HEAT[0] + (HEAT[1] - HEAT[0]) * float(np.clip(value, 0, 1))
            yield element(
                "rect",
                x=middle - wide / 2,
                y=level - high / 2,
                width=wide,
                height=high,
                fill=BLUE,
                fill_opacity=opacity,
                data_tip=plain_text(trace.customdata[i][j]),
            )
            words = plain_text(trace.text[i][j])
            yield text(words, middle, level + 4, text_anchor="middle", class_="cell")
