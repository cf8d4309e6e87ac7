"""The assumptions behind a search, checked and put into sentences."""

from shiftune.report.checks.check import Check, Checks
from shiftune.report.checks.whole import assumption_checks

__all__ = ["Check", "Checks", "assumption_checks"]
