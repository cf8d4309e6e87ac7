"""The assumptions behind a search, checked and put into sentences."""

from shiftune._names import Level
from shiftune.checks._checks import Check, Checks, Judgement, Trust, judgement
from shiftune.checks._of_result import run_checks

__all__ = ["Check", "Checks", "Judgement", "Level", "Trust", "judgement", "run_checks"]
