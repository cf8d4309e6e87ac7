"""A trial: from a model to out-of-site predictions of every row, and their losses."""

from shiftune.evaluate._fits import StudyData
from shiftune.evaluate._losses import Loss, bounded, loss_named, pinball

__all__ = ["Loss", "StudyData", "bounded", "loss_named", "pinball"]
