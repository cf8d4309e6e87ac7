"""Arguments of `fit` as a problem."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_regressor

from shiftune.errors import SettingsError
from shiftune.names import Task
from shiftune.problem import ShiftProblem


def coerce_problem(X: Any, y: Any, groups: Any, X_target: Any, estimator: Any) -> ShiftProblem:
    """Return the problem as given, or one made from arrays."""
    if isinstance(X, ShiftProblem):
        if not (y is None and groups is None and X_target is None):
            raise SettingsError("with a ShiftProblem, y, groups and X_target are part of it")
        return X
    if y is None or groups is None or X_target is None:
        raise SettingsError(
            "fit needs a ShiftProblem, or X and y with groups= (the site of every row) and "
            "X_target= (the target's rows)"
        )
    # Whole-number labels may be classes or quantities; the model knows which it was made for.
    task: Task | None = "regression" if is_regressor(estimator) else None
    return ShiftProblem.from_arrays(X, y, groups, X_target, task=task)
