"""What a search found: figures, and one HTML file that shows it to others."""

from shiftune.report.figures import forest, history
from shiftune.report.page import save_report

__all__ = ["forest", "history", "save_report"]
