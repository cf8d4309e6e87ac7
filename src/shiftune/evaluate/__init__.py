"""Models of a trial: a plan of fits, and the losses of every source's rows."""

from shiftune.evaluate.answers import Answers, weighted_mean
from shiftune.evaluate.fitting import StudyData
from shiftune.evaluate.losses import Loss, bounded, loss_named, pinball
from shiftune.evaluate.plan import Fit, FitPlan, IndependentFits, PooledFit, TrialLosses
from shiftune.evaluate.unseen_sites import LeaveSourcesOut

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
