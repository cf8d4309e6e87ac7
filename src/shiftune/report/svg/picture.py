"""Picture of a figure: traces, axes, legend and notes in one SVG element."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from shiftune.report.svg.axes import Axis, axis, with_short_labels
from shiftune.report.svg.elements import element, plain_text, text, text_width
from shiftune.report.svg.marks import dashes, marks, symbol

TITLE, TICKS, LEGEND = 20.0, 20.0, 20.0  # heights in pixels
TICKS_APART = (90.0, 46.0)
# Share of the width that names on the left may take.
NAMES = 0.42


def picture(figure: Any, width: int, alt: str) -> str:
    """Draw a Plotly figure of ours as one SVG element, as wide as it is read.

    It knows the kinds of traces that `shiftune.report.figures` has. Texts take the colour of the
    page; what Plotly shows on hovering is in the attribute ``data-tip``.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
    width : int
        In pixels; the height is the figure's.
    alt : str
        For readers who cannot see it.
    """
    layout, height = figure.layout, int(figure.layout.height)
    legend = _legend(figure, width)
    top = 8 + LEGEND * len(legend) + (TITLE if layout.yaxis.title.text or layout.annotations else 0)
    values_x, values_y = _extent(figure)
    right = width - max(float(layout.margin.r), _last_tick(layout))
    y = axis(layout.yaxis, values_y, 0, height, TICKS_APART[1])
    y = replace(y, ticks=with_short_labels(y, NAMES * width))
    left = 8 + y.widest + 6
    x = axis(layout.xaxis, values_x, left, right, TICKS_APART[0])
    slanted = bool(layout.xaxis.tickangle) and x.widest > (right - left) / max(len(x.ticks), 1)
    below = 0.87 * x.widest + 10 if slanted else TICKS
    bottom = height - below - (TITLE if layout.xaxis.title.text else 4)
    y = replace(y, start=bottom, end=top)
    parts = [
        *_legend_elements(legend, left),
        *_axis_x(x, layout.xaxis, top, bottom, slanted),
        *_axis_y(y, layout.yaxis, left, right, top),
        *_inside(figure, x, y),
        *_notes(layout, y, right, top),
    ]
    return element(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=alt,
    )


def _inside(figure: Any, x: Axis, y: Axis) -> list[str]:
    """Return what is drawn between the axes; whatever leaves them is cut off."""
    found = []
    for shape in figure.layout.shapes:
        upright = shape.x0 == shape.x1
        place = float((x if upright else y).at(shape.x0 if upright else shape.y0))
        d = (
            f"M{place:.1f} {y.end:.1f}V{y.start:.1f}"
            if upright
            else f"M{x.start:.1f} {place:.1f}H{x.end:.1f}"
        )
        line = shape.line
        found.append(
            element(
                "path",
                d=d,
                stroke=line.color,
                stroke_width=line.width,
                stroke_dasharray=dashes(line),
            )
        )
    for trace in figure.data:
        own = y
        if _on_second_axis(trace):
            low, high = figure.layout.yaxis2.range
            own = replace(y, low=low, high=high, log=False)
        found += marks(trace, x, own)
    wide, high = x.end - x.start, y.start - y.end
    # An inner picture cuts off what leaves it; names for clipping paths would clash in one page.
    return [
        element(
            "svg",
            "".join(found),
            x=x.start,
            y=y.end,
            width=wide,
            height=high,
            viewBox=f"{x.start:.1f} {y.end:.1f} {wide:.1f} {high:.1f}",
        )
    ]


def _axis_x(x: Axis, layout: Any, top: float, bottom: float, slanted: bool) -> list[str]:
    found = []
    for words, place in _places(x):
        if layout.showgrid is not False:
            found.append(element("path", d=f"M{place:.1f} {top:.1f}V{bottom:.1f}", class_="grid"))
        if slanted:
            turned = f"rotate(-60 {place:.1f} {bottom + 12:.1f})"
            found.append(text(words, place + 4, bottom + 12, text_anchor="end", transform=turned))
        else:
            found.append(text(words, place, bottom + 15, text_anchor="middle"))
    if layout.title.text:
        middle = (x.start + x.end) / 2
        words, below = plain_text(layout.title.text), bottom + TICKS + 14
        found.append(text(words, middle, below, text_anchor="middle", class_="title"))
    return found


def _axis_y(y: Axis, layout: Any, left: float, right: float, top: float) -> list[str]:
    found = []
    for words, place in _places(y):
        if layout.showgrid is not False:
            found.append(element("path", d=f"M{left:.1f} {place:.1f}H{right:.1f}", class_="grid"))
        found.append(text(words, left - 6, place + 4, text_anchor="end"))
    if layout.title.text:
        found.append(text(plain_text(layout.title.text), 8, top - 8, class_="title"))
    return found


def _places(given: Axis) -> list[tuple[str, float]]:
    """Return the texts of the ticks, and their places."""
    return [(words, float(given.at(value))) for value, words in given.ticks]


def _notes(layout: Any, y: Axis, right: float, top: float) -> list[str]:
    """Return texts beside the right end of the rows."""
    return [
        text(
            plain_text(note.text),
            right + note.xshift,
            top - 8 if note.yref == "paper" else float(y.at(note.y)) + 4,
        )
        for note in layout.annotations
    ]


def _extent(figure: Any) -> tuple[list[Any], list[Any]]:
    """Return all values on each axis, with the ends of intervals."""
    across: list[Any] = []
    down: list[Any] = []
    for trace in figure.data:
        if trace.type == "heatmap":
            continue  # its axes have ranges
        if trace.type == "box":
            across += [trace.lowerfence, trace.upperfence]
        elif trace.x is not None:
            across.append(trace.x)
        if trace.type == "bar":
            across.append([0.0])
        if not _on_second_axis(trace):
            down.append(trace.y)
        if trace.type == "scatter" and trace.error_y.array is not None:
            middle = np.asarray(trace.y, dtype=float)
            low = middle - np.asarray(trace.error_y.arrayminus)
            down += [middle + np.asarray(trace.error_y.array), low]
    return across, down


def _on_second_axis(trace: Any) -> bool:
    return bool(trace.type == "scatter" and trace.yaxis == "y2")


def _last_tick(layout: Any) -> float:
    """Return the room that half of the last label on the horizontal axis needs."""
    texts = layout.xaxis.ticktext
    return text_width(plain_text(texts[-1])) / 2 if texts else 20.0


# ---------------------------------------------------------------- legend


def _legend(figure: Any, width: int) -> list[list[Any]]:
    """Return the traces that have a legend, in lines that fit."""
    named = [t for t in figure.data if t.name and t.showlegend is not False]
    wanted = figure.layout.showlegend
    if wanted is False or (wanted is None and len(named) < 2):
        return []
    lines: list[list[Any]] = [[]]
    used = 8.0
    for trace in named:
        wide = _legend_width(trace)
        if lines[-1] and used + wide > width:
            lines.append([])
            used = 8.0
        lines[-1].append(trace)
        used += wide
    return lines


def _legend_width(trace: Any) -> float:
    return 40 + text_width(plain_text(trace.name))


def _legend_elements(lines: list[list[Any]], left: float) -> list[str]:
    found = []
    for number, line in enumerate(lines):
        place, level = 8.0, 16.0 + LEGEND * number
        for trace in line:
            found.append(_legend_sign(trace, place + 10, level))
            found.append(text(plain_text(trace.name), place + 26, level + 4))
            place += _legend_width(trace)
    return found


def _legend_sign(trace: Any, x: float, y: float) -> str:
    if trace.fill == "toself":
        return element("rect", x=x - 8, y=y - 5, width=16, height=10, fill=trace.fillcolor)
    if "lines" in trace.mode:
        return element(
            "path",
            d=f"M{x - 9:.1f} {y:.1f}h18",
            stroke=trace.line.color,
            stroke_width=trace.line.width,
            stroke_dasharray=dashes(trace.line),
        )
    name = trace.marker.symbol
    return symbol(name if isinstance(name, str) else "circle", x, y, 8, trace.marker.color)
