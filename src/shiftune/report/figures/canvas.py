"""Shared by all figures: Plotly, colours, axes, escaped labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftune.errors import MissingPackageError
from shiftune.extras import how_to_install
from shiftune.wording import number, shortened

if TYPE_CHECKING:
    import pandas as pd

# Each at least 3 to 1 against white paper and against a dark screen.
BLUE, GREY, RED = "#3b82d0", "#858b93", "#d1493f"

# Users' names go into the data and not into a template, where %{...} has a meaning.
HOVER = "%{customdata}<extra></extra>"
# Opacity of cells whose value is 0, and 1.
HEAT = (0.05, 0.8)
ROW = 26  # height of a site's row in pixels


def plotly() -> Any:
    """Return Plotly's graph objects."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise MissingPackageError(f"figures need Plotly; {how_to_install('report')}") from error
    return go


def canvas(height: int) -> Any:
    """Return an empty figure of a height in pixels, as wide as the page lets it be."""
    return plotly().Figure(
        layout={
            "height": height,
            "margin": {"l": 8, "r": 12, "t": 34, "b": 52},
            "hoverlabel": {"align": "left"},
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
            "xaxis": {"zeroline": False, "automargin": True, "title": {"standoff": 8}},
            "yaxis": {"zeroline": False, "automargin": True, "title": {"standoff": 8}},
        }
    )


def bars(value: Any, low: Any, high: Any, color: str) -> dict[str, Any]:
    """Return the error bars of values with intervals."""
    middle, ends = np.asarray(value), (np.asarray(low), np.asarray(high))
    return {
        "type": "data",
        "symmetric": False,
        "array": np.maximum(ends[1] - middle, 0),
        "arrayminus": np.maximum(middle - ends[0], 0),
        "color": color,
        "thickness": 1.2,
        "width": 0,
    }


def name_rows(figure: Any, names: Sequence[str], first: int = 0) -> None:
    """Write names at the rows `first`, `first` + 1, ... from the bottom up."""
    # Positions and texts, not Plotly's categories: a site called "2024" would become a number.
    figure.update_yaxes(
        tickvals=list(range(first, first + len(names))),
        ticktext=labels(names),
        range=[first - 0.8, first + len(names) - 0.2],
        showgrid=False,
    )


def log_axis(low: float, high: float, most_decades: int = 6) -> dict[str, Any]:
    """Return a logarithmic axis with numbers written in full: 20, 50, 100 and not 2, 5, 100.

    >>> log_axis(20, 150)["ticktext"], log_axis(1e-3, 1e3)["ticktext"]
    (['20', '50', '100'], ['0.001', '0.01', '0.1', '1', '10', '100', '1000'])
    """
    first, last = np.floor(np.log10(low)), np.ceil(np.log10(high))
    steps = (1, 2, 5) if last - first <= 2 or high / low <= 100 else (1,)
    apart = 1 if last - first <= most_decades else 2
    powers = np.arange(first, last + 1, apart)
    ticks = [float(f"{step}e{power:.0f}") for power in powers for step in steps]
    shown = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    return {"type": "log", "tickvals": shown, "ticktext": [number(tick) for tick in shown]}


def labels(names: Iterable[str], most: int = 24) -> list[str]:
    """Return names as labels; see `label`."""
    return [label(name, most) for name in names]


def label(name: str, most: int = 24) -> str:
    """Return a name so that it fits on an axis and Plotly shows it as it is written."""
    return escape(shortened(str(name), most))


def rows_of_table(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, each as a mapping from its columns."""
    return [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]
