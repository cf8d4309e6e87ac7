"""The assumptions behind a search, checked and put into sentences."""

from shiftune.checks.all_checks import run_checks
from shiftune.checks.check import Check, Checks

__all__ = ["Check", "Checks", "run_checks"]
