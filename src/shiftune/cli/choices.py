"""Names that can be given, looked up when they are needed: the search takes a second to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shiftune.problem.labels import Task


def risk_names() -> list[str]:
    """Return the risk estimators that need no labels of the target."""
    from shiftune.risk import ESTIMATORS

    return [name for name, risk in ESTIMATORS.items() if not risk.uses_target_labels]


def loss_names(task: Task) -> list[str]:
    """Return the losses that make sense for classes, or for quantities."""
    from shiftune.evaluate.losses import LOSSES

    return [
        name
        for name, loss in LOSSES.items()
        if (loss.needs == "predict_proba" or name == "zero_one") == (task == "classification")
    ]
