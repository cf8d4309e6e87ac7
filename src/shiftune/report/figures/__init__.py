"""Figures of a result, with Plotly (the extra ``report``).

Every name that comes from the user's file is escaped: Plotly reads labels as HTML.
"""

from shiftune.report.figures.probabilities import calibration, decision
from shiftune.report.figures.sites import forest, shifts, weights
from shiftune.report.figures.trials import history, importances, parameter_slice

__all__ = [
    "calibration",
    "decision",
    "forest",
    "history",
    "importances",
    "parameter_slice",
    "shifts",
    "weights",
]
