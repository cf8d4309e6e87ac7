"""The search: trial -> fit -> losses -> estimated target risk -> next trial."""

from shiftune.search import spaces
from shiftune.search.fitting import FitPlan, PooledFit, StudyData, TrialLosses
from shiftune.search.gp import GPLCBSampler
from shiftune.search.search import ShiftSearch
from shiftune.search.space import Space
from shiftune.search.unseen_sites import LeaveSourcesOut

__all__ = [
    "FitPlan",
    "GPLCBSampler",
    "LeaveSourcesOut",
    "PooledFit",
    "ShiftSearch",
    "Space",
    "StudyData",
    "TrialLosses",
    "spaces",
]
