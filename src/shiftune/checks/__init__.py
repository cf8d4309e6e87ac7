"""The assumptions behind a search, checked and put into sentences."""

from shiftune.checks._checks import Check, Checks, Judgement, Trust, judgement
from shiftune.checks._of_result import run_checks

__all__ = ["Check", "Checks", "Judgement", "Trust", "judgement", "run_checks"]
