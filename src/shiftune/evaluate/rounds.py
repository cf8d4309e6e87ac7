"""Boosted trees after some of their rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from shiftune.models.numbered_classes import NumberedClasses

# Argument of `predict` that counts rounds, and the parameter with their number.
PREDICT_WITH: dict[str, Callable[[int], dict[str, Any]]] = {
    "lightgbm": lambda rounds: {"num_iteration": rounds},
    "xgboost": lambda rounds: {"iteration_range": (0, rounds)},
    "catboost": lambda rounds: {"ntree_end": rounds},
}
NAMES = ("n_estimators", "max_iter")
# Names that CatBoost has for it; it lists only those that were given, and has 1000 by default.
OF_CATBOOST = ("iterations", "n_estimators", "num_boost_round", "num_trees")
# Boosters whose trees change, or are averaged, as more of them are grown.
NOT_IN_STAGES = ("dart", "rf", "gblinear")


def rounds_parameter(model: Any) -> str | None:
    """Name the parameter with the number of boosting rounds; None for other models.

    >>> from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> rounds_parameter(make_pipeline(HistGradientBoostingRegressor()))
    'histgradientboostingregressor__max_iter'
    >>> rounds_parameter(RandomForestRegressor())
    """
    if isinstance(model, Pipeline):
        step, last = model.steps[-1]
        inner = rounds_parameter(last)
        return None if inner is None else f"{step}__{inner}"
    if isinstance(model, NumberedClasses):
        inner = rounds_parameter(model.classifier)
        return None if inner is None else f"classifier__{inner}"
    library, given = _library(model), model.get_params()
    kinds = (given.get("boosting_type"), given.get("booster"), given.get("boosting"))
    if library is None or any(kind in NOT_IN_STAGES for kind in kinds):
        return None
    if library == "catboost":
        return next((name for name in OF_CATBOOST if name in given), OF_CATBOOST[0])
    return next(name for name in NAMES if name in given)


def number_of_rounds(model: Any) -> int:
    """Return the number of rounds that a model boosts at most."""
    value = model.get_params().get(rounds_parameter(model))
    if value is None:
        value = 1000 if _library(model) == "catboost" else 100
    return int(value)


def predictions_at(
    model: Any, X: Any, method: str, rounds: Sequence[int]
) -> list[NDArray[np.generic]]:
    """Return what a fitted model predicts after each of these numbers of rounds, in rising order.

    `method` is "predict" or "predict_proba".
    """
    if isinstance(model, Pipeline):
        return predictions_at(model[-1], model[:-1].transform(X), method, rounds)
    if isinstance(model, NumberedClasses):
        found = predictions_at(model.classifier_, X, method, rounds)
        decode = model.encoder_.inverse_transform
        return [decode(each) for each in found] if method == "predict" else found
    library = _library(model)
    if library == "sklearn":
        return _staged(getattr(model, f"staged_{method}")(X), rounds)
    assert library is not None  # the model has a `rounds_parameter`
    predict = getattr(model, method)
    return [np.asarray(predict(X, **PREDICT_WITH[library](each))) for each in rounds]


def _staged(stages: Any, rounds: Sequence[int]) -> list[NDArray[np.generic]]:
    """Pick some stages; the last one stands for those that a model has not reached."""
    found: list[NDArray[np.generic]] = []
    last = np.empty(0)
    for done, stage in enumerate(stages, 1):
        last = np.asarray(stage)
        if done == rounds[len(found)]:
            found.append(last.copy())
            if len(found) == len(rounds):
                break
    return found + [last] * (len(rounds) - len(found))


def _library(model: Any) -> str | None:
    """Name the library of boosted trees that a model comes from, itself or by inheritance."""
    for kind in type(model).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in PREDICT_WITH:
            return library
        if library == "sklearn":
            return library if hasattr(model, "staged_predict") and _boosts(model) else None
    return None


def _boosts(model: Any) -> bool:
    return any("GradientBoosting" in kind.__name__ for kind in type(model).__mro__)
