"""What a search found: figures, checks in sentences, one HTML file that shows it to others."""

from shiftune.checks import Check, run_checks
from shiftune.report.figures import forest, history
from shiftune.report.label_worth import label_worth
from shiftune.report.page import save_report

__all__ = ["Check", "forest", "history", "label_worth", "run_checks", "save_report"]
