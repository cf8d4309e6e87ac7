"""Figures as SVG, for a page that needs no library to draw them.

Elements and texts, axes, the marks of a trace, and the whole `picture`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape, unescape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune._wording import scaled, shortened
from shiftune.report.figures import BLUE, HEAT, log_axis

_Floats = NDArray[np.float64]

_TAGS = re.compile(r"</?b>|<br>")
# Free share of a scale at both ends, so that marks are not cut.
_PADDING = 0.04
_DASHES = {"dot": "2 3", "dash": "6 4"}
# Corners of markers, in halves of their size.
_CORNERS: dict[str, list[tuple[float, float]]] = {
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "diamond": [(0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)],
    "arrow-left": [(-1, 0), (1, -1), (1, 1)],
    "arrow-right": [(1, 0), (-1, -1), (-1, 1)],
}
_TITLE, _TICKS, _LEGEND = 20.0, 20.0, 20.0  # heights in pixels
_TICKS_APART = (90.0, 46.0)
# Share of the width that names on the left may take.
_NAMES = 0.42

# ---------------------------------------------------------------- elements


def _element(tag: str, inside: str = "", /, **attributes: object) -> str:
    """Return an element; an underscore in an attribute's name is a hyphen, None is left out."""
    words = [
        f'{name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    ]
    head = " ".join([tag, *words])
    return f"<{head}>{inside}</{tag}>" if inside else f"<{head}/>"


def _text(words: str, x: float, y: float, **attributes: object) -> str:
    return _element("text", escape(words, quote=False), x=x, y=y, **attributes)


def _plain_text(html: object) -> str:
    """Return the text of a label or hover text of ours, which is HTML to Plotly."""
    return unescape(_TAGS.sub(lambda tag: "\n" if tag[0] == "<br>" else "", str(html)))


def _text_width(words: str) -> float:
    """Return about how wide a text of 12 pixels is; sans-serif fonts differ by a tenth."""
    return 6.4 * len(words)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value)).replace("\n", "&#10;")


# ---------------------------------------------------------------- axes


@dataclass(frozen=True, slots=True)
class _Axis:
    """Scale from values to pixels."""

    low: float  # ends of the scale; logarithms (of base 10) where it is logarithmic
    high: float
    start: float  # their places in pixels
    end: float
    log: bool
    ticks: tuple[tuple[float, str], ...]  # values and their texts

    def at(self, values: ArrayLike) -> _Floats:
        """Return the places of values, of the same shape."""
        given = np.asarray(values, dtype=float)
        scale = np.log10(given) if self.log else given
        share = (scale - self.low) / (self.high - self.low)
        return np.asarray(self.start + share * (self.end - self.start))

    @property
    def widest(self) -> float:
        """Width of the longest tick label."""
        return max((_text_width(text) for _, text in self.ticks), default=0.0)


def _axis(
    layout: Any, values: Iterable[ArrayLike], start: float, end: float, apart: float
) -> _Axis:
    """Return the axis of a Plotly layout for the values that are drawn.

    The scale's ends lie at `start` and `end`, ticks at least `apart` from each other, in pixels.
    """
    log = layout.type == "log"
    low, high = _ends(layout, values, log)
    if layout.tickvals is not None:
        texts = [_plain_text(text) for text in layout.ticktext]
        ticks = list(zip(map(float, layout.tickvals), texts, strict=True))
    elif log:
        own = log_axis(10**low, 10**high)
        ticks = list(zip(own["tickvals"], own["ticktext"], strict=True))
    else:
        ticks = _round_ticks(low, high, max(int(abs(end - start) / apart), 2), layout.tickformat)
    inside = [(v, t) for v, t in ticks if low - 1e-9 <= (np.log10(v) if log else v) <= high + 1e-9]
    return _Axis(low, high, start, end, log, tuple(inside))


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
    free = _PADDING * (high - low) or max(0.5, 1e-3 * abs(high))
    return low if layout.rangemode == "tozero" and low == 0 else low - free, high + free


def _round_ticks(
    low: float, high: float, most: int, tickformat: str | None
) -> list[tuple[float, str]]:
    """Return ticks at round numbers, with their texts."""
    rough = (high - low) / most
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(each for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))
    decimals = max(0, -int(np.floor(np.log10(step))))
    values = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    rounded = [float(np.round(value, decimals)) + 0.0 for value in values]
    if tickformat:
        return [(value, format(value, tickformat).replace("%", " %")) for value in rounded]
    unit, word = scaled(max(map(abs, rounded), default=0.0))
    ticks = []
    for value in rounded:
        words = f"{value / unit:g} {word}" if word else f"{value:,.{decimals}f}"
        ticks.append((value, words if value else "0"))
    return ticks


# ---------------------------------------------------------------- marks


def _marks(trace: Any, x: _Axis, y: _Axis) -> Iterator[str]:
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


def _symbol(
    name: str, x: float, y: float, size: float, color: str, data_tip: str | None = None
) -> str:
    more = {"data_tip": data_tip}
    half = size / 2
    if name == "circle-open":
        return _element(
            "circle", cx=x, cy=y, r=half, fill="none", stroke=color, stroke_width=2, **more
        )
    if name == "circle":
        return _element("circle", cx=x, cy=y, r=half, fill=color, **more)
    if name == "x":
        start = f"M{x - half:.1f} {y - half:.1f}"
        d = f"{start}l{size:.1f} {size:.1f}m0 {-size:.1f}l{-size:.1f} {size:.1f}"
        return _element("path", d=d, stroke=color, stroke_width=2, **more)
    points = " ".join(f"{x + a * half:.1f},{y + b * half:.1f}" for a, b in _CORNERS[name])
    return _element("polygon", points=points, fill=color, **more)


def _hover_texts(trace: Any) -> list[str | None]:
    """Return what is shown at every point of a trace, as plain text."""
    if trace.customdata is None:
        return [None] * len(trace.x if trace.x is not None else trace.y)
    return [_plain_text(each) for each in trace.customdata]


def _points(trace: Any, x: _Axis, y: _Axis) -> Iterator[str]:
    across, down = x.at(trace.x), y.at(trace.y)
    n = len(across)
    sizes = np.broadcast_to(np.asarray(trace.marker.size, dtype=float), n)
    given = "circle" if trace.marker.symbol is None else trace.marker.symbol
    symbols = np.broadcast_to(np.asarray(given), n)
    color = trace.marker.color
    texts = _hover_texts(trace)
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
            yield _element("path", d=bars, stroke=color, stroke_width=1.2)
        place = float(across[i]), float(down[i])
        yield _symbol(str(symbols[i]), *place, float(sizes[i]), color, data_tip=texts[i])


def _error_ends(
    values: Any, error: Any, axis: _Axis
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    if error.array is None:
        return None, None
    middle = np.asarray(values, dtype=float)
    low, high = middle - np.asarray(error.arrayminus), middle + np.asarray(error.array)
    if axis.log:
        low = np.maximum(low, 10.0 ** (axis.low - 1))
    return axis.at(low), axis.at(high)


def _line(trace: Any, x: _Axis, y: _Axis) -> str:
    across, down = x.at(trace.x), y.at(trace.y)
    known = np.isfinite(across) & np.isfinite(down)
    places = [f"{a:.1f} {b:.1f}" for a, b in zip(across[known], down[known], strict=True)]
    if trace.line.shape == "hv":
        parts = zip(across[known][1:], down[known][1:], strict=True)
        d = "M" + places[0] + "".join(f"H{a:.1f}V{b:.1f}" for a, b in parts)
    else:
        d = "M" + "L".join(places)
    filled = trace.fill == "toself"
    tips = _hover_texts(trace)
    return _element(
        "path",
        d=d + ("Z" if filled else ""),
        fill=trace.fillcolor if filled else "none",
        stroke=trace.line.color,
        stroke_width=trace.line.width,
        stroke_dasharray=_DASHES.get(trace.line.dash),
        data_tip=tips[0] if len(set(tips)) == 1 else None,
    )


def _invisible_points(trace: Any, x: _Axis, y: _Axis) -> Iterator[str]:
    """Return circles that only a pointer finds, where the points of a line have texts."""
    tips = _hover_texts(trace)
    if len(set(tips)) > 1:
        for a, b, tip in zip(x.at(trace.x), y.at(trace.y), tips, strict=True):
            yield _element("circle", cx=float(a), cy=float(b), r=8, opacity=0, data_tip=tip)


def _bars(trace: Any, x: _Axis, y: _Axis) -> Iterator[str]:
    ends, down = x.at(trace.x), y.at(trace.y)
    start = float(x.at(0.0))
    thick = 0.7 * abs(float(y.at(1.0) - y.at(0.0)))
    for end, middle, tip in zip(ends, down, _hover_texts(trace), strict=True):
        yield _element(
            "rect",
            x=start,
            y=float(middle) - thick / 2,
            width=max(float(end) - start, 0.5),
            height=thick,
            fill=trace.marker.color,
            data_tip=tip,
        )


def _boxes(trace: Any, x: _Axis, y: _Axis) -> Iterator[str]:
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
        yield _element("path", d=d, fill="none", stroke=trace.line.color, stroke_width=1.5)


def _cells(trace: Any, x: _Axis, y: _Axis) -> Iterator[str]:
    z = np.asarray(trace.z, dtype=float)
    wide = float(x.at(1.0) - x.at(0.0)) - 2
    high = abs(float(y.at(1.0) - y.at(0.0))) - 2
    for i, row in enumerate(z):
        for j, value in enumerate(row):
            middle, level = float(x.at(j)), float(y.at(i))
            opacity = HEAT[0] + (HEAT[1] - HEAT[0]) * float(np.clip(value, 0, 1))
            yield _element(
                "rect",
                x=middle - wide / 2,
                y=level - high / 2,
                width=wide,
                height=high,
                fill=BLUE,
                fill_opacity=opacity,
                data_tip=_plain_text(trace.customdata[i][j]),
            )
            words = _plain_text(trace.text[i][j])
            yield _text(words, middle, level + 4, text_anchor="middle", class_="cell")


# ---------------------------------------------------------------- the picture


def picture(figure: Any, width: int, alt: str) -> str:
    """Draw a Plotly figure of ours as one SVG element, as wide as it is read (in pixels).

    It knows the kinds of traces that `shiftune.report.figures` has. Texts take the colour of the
    page; what Plotly shows on hovering is in the attribute ``data-tip``. The height is the
    figure's; `alt` is for readers who cannot see it.
    """
    layout, height = figure.layout, int(figure.layout.height)
    legend = _legend(figure, width)
    top = (
        8 + _LEGEND * len(legend) + (_TITLE if layout.yaxis.title.text or layout.annotations else 0)
    )
    values_x, values_y = _extent(figure)
    names = layout.xaxis.ticktext
    half_tick = _text_width(_plain_text(names[-1])) / 2 if names else 20.0  # of the last one
    right = width - max(float(layout.margin.r), half_tick)
    y = _axis(layout.yaxis, values_y, 0, height, _TICKS_APART[1])
    most = max(int(_NAMES * width / _text_width("n")), 4)
    y = replace(y, ticks=tuple((value, shortened(words, most)) for value, words in y.ticks))
    left = 8 + y.widest + 6
    x = _axis(layout.xaxis, values_x, left, right, _TICKS_APART[0])
    slanted = bool(layout.xaxis.tickangle) and x.widest > (right - left) / max(len(x.ticks), 1)
    below = 0.87 * x.widest + 10 if slanted else _TICKS
    bottom = height - below - (_TITLE if layout.xaxis.title.text else 4)
    y = replace(y, start=bottom, end=top)
    parts = [
        *_legend_elements(legend),
        *_axis_x(x, layout.xaxis, top, bottom, slanted),
        *_axis_y(y, layout.yaxis, left, right, top),
        *_inside(figure, x, y),
        *_notes(layout, y, right, top),
    ]
    return _element(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=alt,
    )


def _inside(figure: Any, x: _Axis, y: _Axis) -> list[str]:
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
            _element(
                "path",
                d=d,
                stroke=line.color,
                stroke_width=line.width,
                stroke_dasharray=_DASHES.get(line.dash),
            )
        )
    for trace in figure.data:
        own = y
        if _on_second_axis(trace):
            low, high = figure.layout.yaxis2.range
            own = replace(y, low=low, high=high, log=False)
        found += _marks(trace, x, own)
    wide, high = x.end - x.start, y.start - y.end
    # An inner picture cuts off what leaves it; names for clipping paths would clash in one page.
    return [
        _element(
            "svg",
            "".join(found),
            x=x.start,
            y=y.end,
            width=wide,
            height=high,
            viewBox=f"{x.start:.1f} {y.end:.1f} {wide:.1f} {high:.1f}",
        )
    ]


def _axis_x(x: _Axis, layout: Any, top: float, bottom: float, slanted: bool) -> list[str]:
    found = []
    for words, place in _places(x):
        if layout.showgrid is not False:
            found.append(_element("path", d=f"M{place:.1f} {top:.1f}V{bottom:.1f}", class_="grid"))
        if slanted:
            turned = f"rotate(-60 {place:.1f} {bottom + 12:.1f})"
            found.append(_text(words, place + 4, bottom + 12, text_anchor="end", transform=turned))
        else:
            found.append(_text(words, place, bottom + 15, text_anchor="middle"))
    if layout.title.text:
        middle = (x.start + x.end) / 2
        words, below = _plain_text(layout.title.text), bottom + _TICKS + 14
        found.append(_text(words, middle, below, text_anchor="middle", class_="title"))
    return found


def _axis_y(y: _Axis, layout: Any, left: float, right: float, top: float) -> list[str]:
    found = []
    for words, place in _places(y):
        if layout.showgrid is not False:
            found.append(_element("path", d=f"M{left:.1f} {place:.1f}H{right:.1f}", class_="grid"))
        found.append(_text(words, left - 6, place + 4, text_anchor="end"))
    if layout.title.text:
        found.append(_text(_plain_text(layout.title.text), 8, top - 8, class_="title"))
    return found


def _places(given: _Axis) -> list[tuple[str, float]]:
    """Return the texts of the ticks, and their places."""
    return [(words, float(given.at(value))) for value, words in given.ticks]


def _notes(layout: Any, y: _Axis, right: float, top: float) -> list[str]:
    """Return texts beside the right end of the rows."""
    return [
        _text(
            _plain_text(note.text),
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
    return 40 + _text_width(_plain_text(trace.name))


def _legend_elements(lines: list[list[Any]]) -> list[str]:
    found = []
    for number, line in enumerate(lines):
        place, level = 8.0, 16.0 + _LEGEND * number
        for trace in line:
            found.append(_legend_sign(trace, place + 10, level))
            found.append(_text(_plain_text(trace.name), place + 26, level + 4))
            place += _legend_width(trace)
    return found


def _legend_sign(trace: Any, x: float, y: float) -> str:
    if trace.fill == "toself":
        return _element("rect", x=x - 8, y=y - 5, width=16, height=10, fill=trace.fillcolor)
    if "lines" in trace.mode:
        return _element(
            "path",
            d=f"M{x - 9:.1f} {y:.1f}h18",
            stroke=trace.line.color,
            stroke_width=trace.line.width,
            stroke_dasharray=_DASHES.get(trace.line.dash),
        )
    name = trace.marker.symbol
    return _symbol(name if isinstance(name, str) else "circle", x, y, 8, trace.marker.color)
