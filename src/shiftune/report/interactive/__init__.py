"""Figures of a search that answer to the mouse, with Plotly (``pip install shiftune[report]``).

They draw from the same tables as those of `shiftune.report.figures`. Whatever comes from the
user's file is escaped: Plotly reads labels as HTML.
"""

from shiftune.report.interactive.sites import forest, shifts, weights
from shiftune.report.interactive.trials import history, importances, parameter_slice

__all__ = ["forest", "history", "importances", "parameter_slice", "shifts", "weights"]
