"""Models of a trial: a plan of fits, and the losses of every source's rows."""

from shiftune.evaluate._answers import Answers, weighted_mean
from shiftune.evaluate._losses import Loss, bounded, loss_named, pinball
from shiftune.evaluate._plan import (
    Fit,
    FitPlan,
    IndependentFits,
    LeaveSourcesOut,
    PooledFit,
    StudyData,
    TrialLosses,
)

__all__ = [
    "Answers",
    "Fit",
    "FitPlan",
    "IndependentFits",
    "LeaveSourcesOut",
    "Loss",
    "PooledFit",
    "StudyData",
    "TrialLosses",
    "bounded",
    "loss_named",
    "pinball",
    "weighted_mean",
]
