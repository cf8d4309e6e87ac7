"""Charts of the report, drawn for the screen, for a phone and for paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftune.errors import SettingsError
from shiftune.metrics._curves import calibration_curve, check_two_classes, decision_curve
from shiftune.report import figures
from shiftune.report._svg import picture
from shiftune.report.figures import MOST_CURVES, parameter_names
from shiftune.search._result import SearchResult

# Widths in pixels: of a page or a sheet of paper, of a phone, of a chart among others.
WIDE, NARROW, SMALL = 820, 350, 290


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, and the text that replaces it for readers who cannot see it."""

    id: str
    alt: str
    figure: Any

    @property
    def wide(self) -> str:
        """SVG for a page."""
        return picture(self.figure, WIDE, self.alt)

    @property
    def narrow(self) -> str:
        """SVG for a phone."""
        return picture(self.figure, NARROW, self.alt)

    @property
    def small(self) -> str:
        """SVG for a place beside others."""
        return picture(self.figure, SMALL, self.alt)


def charts_of(result: SearchResult) -> list[Chart]:
    """Return the charts of a result, as far as there is something to show."""
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
    found += _of_probabilities(result)
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


def _of_probabilities(result: SearchResult) -> list[Chart]:
    """Return the curves of probabilities; none for other answers than those of two classes."""
    try:
        new_site = check_two_classes(result.new_site)
    except SettingsError:
        return []
    curve = calibration_curve(new_site)
    shown = new_site.predictions.names[:MOST_CURVES]
    sites = {name: calibration_curve(new_site, name) for name in shown}
    return [
        Chart(
            "calibration",
            f"Observed shares at {result.target} by predicted probability, with an interval.",
            figures.calibration(curve, sites),
        ),
        Chart(
            "decision",
            f"Net benefit at {result.target} by threshold, with an interval.",
            figures.decision(decision_curve(new_site)),
        ),
    ]
