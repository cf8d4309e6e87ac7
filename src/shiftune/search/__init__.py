"""The search: trial -> fit -> losses -> estimated target risk -> next trial."""

from shiftune.search._result import Overlap, SearchResult
from shiftune.search._search import ShiftSearch
from shiftune.search._updating import Updated
from shiftune.search.gp import GPLCBSampler

__all__ = [
    "GPLCBSampler",
    "Overlap",
    "SearchResult",
    "ShiftSearch",
    "Updated",
]
