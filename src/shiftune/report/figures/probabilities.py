"""Figures of probabilities: calibration, and net benefit by threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from shiftune.report.figures.canvas import BLUE, GREY, HOVER, RED, canvas, label
from shiftune.wording import number, with_interval

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BAND = "rgba(59, 130, 208, 0.2)"
MOST_CURVES = 40


def calibration(curve: pd.DataFrame, sites: Mapping[str, pd.DataFrame] | None = None) -> Figure:
    """Plot observed shares against predicted probabilities, with the band for a new site.

    Parameters
    ----------
    curve : DataFrame
        Of `ShiftSearch.calibration_curve`.
    sites : mapping from names to such tables, optional
        Curves of the sources, as thin lines; of the first 40.
    """
    figure = canvas(height=380)
    for name, own in list((sites or {}).items())[:MOST_CURVES]:
        figure.add_scatter(
            x=own.index,
            y=own["observed"],
            mode="lines",
            line={"color": GREY, "width": 0.8},
            customdata=[label(name)] * len(own),
            hovertemplate=HOVER,
            showlegend=False,
        )
    _with_band(figure, curve, "observed", "target")
    ends = [0, max(1e-3, float(curve.index.max()), float(curve["observed"].max()))]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", line={"color": RED, "width": 1, "dash": "dot"}, name="ideal"
    )
    figure.update_xaxes(title="predicted probability")
    figure.update_yaxes(title="observed share", rangemode="tozero")
    return figure


def decision(curve: pd.DataFrame) -> Figure:
    """Plot net benefit by threshold: of the predictions, of acting on all rows and on none.

    Parameters
    ----------
    curve : DataFrame
        Of `ShiftSearch.decision_curve`.
    """
    figure = canvas(height=340)
    _with_band(figure, curve, "net_benefit", "predictions")
    figure.add_scatter(
        x=curve.index,
        y=curve["all"],
        mode="lines",
        line={"color": GREY, "width": 1.2},
        name="act on all",
    )
    figure.add_hline(y=0, line={"color": RED, "width": 1, "dash": "dot"})
    top = float(curve[["high", "all"]].max().max())
    figure.update_xaxes(title="threshold: risk at which one would just act")
    figure.update_yaxes(title="net benefit per row")
    if top > 0:  # not where it is unknown, or acting always harms
        figure.update_yaxes(range=[-0.25 * top, 1.05 * top])
    return figure


def _with_band(figure: Any, curve: pd.DataFrame, column: str, name: str) -> None:
    """Draw a curve and its interval."""
    around = [*curve.index, *curve.index[::-1]]
    figure.add_scatter(
        x=around,
        y=[*curve["high"], *curve["low"][::-1]],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=BAND,
        hoverinfo="skip",
        name="interval for a new site",
    )
    rows = zip(curve.index, curve[column], curve["low"], curve["high"], strict=True)
    figure.add_scatter(
        x=curve.index,
        y=curve[column],
        mode="lines",
        line={"color": BLUE, "width": 2.5},
        customdata=[
            f"at {number(float(x), 2)}: {with_interval(value, (low, high))}"
            for x, value, low, high in rows
        ],
        hovertemplate=HOVER,
        name=name,
    )
