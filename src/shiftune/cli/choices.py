"""Names that can be given, looked up when they are needed: the search takes a second to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shiftune.problem.labels import Task

# They need more than a name: labels of the target, or weights given by hand.
NOT_BY_NAME = ("lambda", "oracle")


def risk_names() -> list[str]:
    """Return the risk estimators that need nothing but a name."""
    from shiftune.risk import ESTIMATORS

    return [name for name in ESTIMATORS if name not in NOT_BY_NAME]


def loss_names(task: Task) -> list[str]:
    """Return the losses that make sense for classes, or for quantities."""
    from shiftune.evaluate.losses import LOSSES

    return [
        name
        for name, loss in LOSSES.items()
        if (loss.needs == "predict_proba" or name == "zero_one") == (task == "classification")
    ]
