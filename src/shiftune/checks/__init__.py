"""The assumptions behind a search, checked and put into sentences."""

from shiftune._names import Level
from shiftune.checks._checks import Check, Checks, Trust, Verdict, verdict_of
from shiftune.checks._of_result import run_checks

__all__ = ["Check", "Checks", "Level", "Trust", "Verdict", "run_checks", "verdict_of"]
