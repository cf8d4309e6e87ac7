"""The search: trial -> fit -> losses -> estimated target risk -> next trial."""

from shiftune.search._search import ShiftSearch
from shiftune.search.gp import GPLCBSampler

__all__ = [
    "GPLCBSampler",
    "ShiftSearch",
]
