"""The charts of the report, as the page wants them: specifications that its script draws."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shiftune.report.interactive import forest, history, parameter_slice
from shiftune.report.interactive.sites import draw_shifts, draw_weights
from shiftune.report.interactive.trials import draw_importances
from shiftune.report.tables import importances_of, parameter_names

if TYPE_CHECKING:
    import pandas as pd

    from shiftune.report.tables import Overlap
    from shiftune.search import ShiftSearch


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure and the sentence that stands for it where it cannot be seen."""

    id: str
    alt: str
    figure: Any


def charts_of(search: ShiftSearch, overlap: Overlap, shifts: pd.DataFrame) -> list[Chart]:
    """Return the charts that can be drawn of a search: of two trials, say, no importances.

    Parameters
    ----------
    search : ShiftSearch
        Fitted.
    overlap, shifts
        As `overlap_of` and `shifts_of` return them.
    """
    target = search.problem_.target.name
    found = [
        Chart(
            "forest",
            f"Forest plot: what each source says about the risk at {target}.",
            forest(search.risk_),
        ),
        Chart("weights", "Spread of the weights of every source.", draw_weights(overlap)),
        Chart(
            "shifts",
            f"How differently each column is distributed at {target}, by source.",
            draw_shifts(shifts),
        ),
        Chart(
            "history",
            "Estimated risk of every trial, with its interval.",
            history(search.trials_, chosen=search.best_index_),
        ),
    ]
    shares = importances_of(search.study_)
    if shares:
        found.append(
            Chart("importances", "Importance of the parameters.", draw_importances(shares))
        )
    found += [
        Chart(
            f"slice-{position}",
            f"Estimated risk against {name}.",
            parameter_slice(search, name),
        )
        for position, name in enumerate(parameter_names(search.trials_))
    ]
    return found


def specification(figure: Any) -> dict[str, Any]:
    """Return a figure as the page's script wants it."""
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
