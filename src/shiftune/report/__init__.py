"""Result of a search in words and pictures; nothing is computed here."""

from shiftune.report.page import save_report

__all__ = ["save_report"]
