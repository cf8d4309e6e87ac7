"""Result of a search in words and pictures; nothing is computed here."""

from shiftune.report._page import save_model_card, save_overview, save_report

__all__ = ["save_model_card", "save_overview", "save_report"]
