"""Charts of the report, as specifications that the page's script draws."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from shiftune.report import figures
from shiftune.report.figures.trials import parameter_names
from shiftune.search.result import SearchResult


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, and the text that replaces it for readers who cannot see it."""

    id: str
    alt: str
    figure: Any


def charts_of(result: SearchResult) -> list[Chart]:
    """Return the charts of a result; with few trials there are no importances."""
    found = [
        Chart(
            "forest",
            f"Forest plot: every source's estimate of the risk at {result.target}.",
            figures.forest(result.risk),
        ),
        Chart(
            "weights",
            "Distribution of the weights of every source.",
            figures.weights(result.overlap),
        ),
        Chart(
            "shifts",
            f"Distance of every column from its distribution at {result.target}, by source.",
            figures.shifts(result.shifts),
        ),
        Chart(
            "history",
            "Estimated risk of every trial, with its interval.",
            figures.history(result.trials, chosen=result.chosen),
        ),
    ]
    if result.importances:
        drawn = figures.importances(result.importances)
        found.append(Chart("importances", "Importance of the parameters.", drawn))
    found += [
        Chart(
            f"slice-{position}",
            f"Estimated risk against {name}.",
            figures.parameter_slice(result, name),
        )
        for position, name in enumerate(parameter_names(result.trials))
    ]
    return found


def specification(figure: Any) -> dict[str, Any]:
    """Return a figure as the page's script reads it."""
    found: dict[str, Any] = json.loads(figure.to_json())
    found["layout"].pop("template", None)  # the page has its own, one for each colour scheme
    return found


def _template(text: str, lines: str, background: str) -> dict[str, Any]:
    in_cells = {"textfont": {"color": text}}
    axis = {"gridcolor": lines, "linecolor": lines, "tickcolor": lines, "zerolinecolor": lines}
    return {
        "data": {"heatmap": [in_cells]},
        "layout": {
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "hoverlabel": {
                "bgcolor": background,
                "bordercolor": lines,
                "font": {"color": text, "family": "system-ui, sans-serif"},
            },
            "xaxis": axis,
            "yaxis": axis,
        },
    }


TEMPLATES = {
    "light": _template("#24292f", "#dde1e6", "#ffffff"),
    "dark": _template("#dfe3e8", "#3a414a", "#22272e"),
}
