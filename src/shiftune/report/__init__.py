"""What a search found: figures, checks in sentences, one HTML file that shows it to others."""

from shiftune.report.checks import Check, assumption_checks
from shiftune.report.figures import forest, history
from shiftune.report.label_worth import label_worth
from shiftune.report.page import save_report

__all__ = ["Check", "assumption_checks", "forest", "history", "label_worth", "save_report"]
