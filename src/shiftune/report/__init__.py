"""What a search found, as pictures."""

from shiftune.report.figures import forest, history

__all__ = ["forest", "history"]
