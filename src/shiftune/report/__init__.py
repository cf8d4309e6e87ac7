"""What a search found, as pictures and as sentences."""

from shiftune.report.checks import Check, assumption_checks
from shiftune.report.figures import forest, history

__all__ = ["Check", "assumption_checks", "forest", "history"]
