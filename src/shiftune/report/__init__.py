"""Result of a search in words and pictures; nothing is computed here."""

from shiftune.report.model_card import save_model_card
from shiftune.report.page import save_report

__all__ = ["save_model_card", "save_report"]
