"""The search: trial -> fit -> losses -> estimated target risk -> next trial."""

from shiftune.search.gp import GPLCBSampler
from shiftune.search.search import ShiftSearch

__all__ = [
    "GPLCBSampler",
    "ShiftSearch",
]
