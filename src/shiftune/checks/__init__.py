"""The assumptions behind a search, checked and put into sentences."""

from shiftune.checks.all_checks import run_checks
from shiftune.checks.check import Check, Checks
from shiftune.checks.judgement import Judgement, Trust, judgement

__all__ = ["Check", "Checks", "Judgement", "Trust", "judgement", "run_checks"]
