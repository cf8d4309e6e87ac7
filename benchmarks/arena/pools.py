"""The arena's pools: model families and the configurations drawn for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from reproduction.toy import ConstantPrediction
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

FAMILIES = ("trees", "kernel", "linear")
# Further families of the ensembles.
MORE_FAMILIES = ("forest", "neighbours", "network")


# Squares and products of more columns than this would be thousands.
MOST_SQUARED = 20


def pool(family: str, task: str, d: int, size: int, seed: int) -> list[Any]:
    """Draw models for d columns, the same for every target of a data set and seed."""
    rng = np.random.default_rng([seed, *family.encode()])
    return [_DRAWN[family](task, d, rng) for _ in range(size)]


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _trees(task: str, d: int, rng: np.random.Generator) -> Any:
    kind = LGBMRegressor if task == "regression" else LGBMClassifier
    return kind(
        n_estimators=round(_log(rng, 15, 200)),
        learning_rate=_log(rng, 0.01, 0.3),
        num_leaves=round(_log(rng, 2, 64)),
        min_child_samples=round(_log(rng, 3, 200)),
        reg_lambda=_log(rng, 1e-3, 100),
        colsample_bytree=rng.uniform(0.3, 1.0),
        subsample=rng.uniform(0.5, 1.0),
        subsample_freq=1,
        n_jobs=1,
        verbose=-1,
        random_state=0,
    )


def _kernel(task: str, d: int, rng: np.random.Generator) -> Any:
    features = Nystroem(gamma=_log(rng, 1e-3, 3), n_components=150, random_state=0)
    strength = _log(rng, 1e-4, 1e3)
    last = (
        Ridge(alpha=strength)
        if task == "regression"
        else LogisticRegression(C=1 / strength, max_iter=200)
    )
    return make_pipeline(StandardScaler(), features, last)


def _linear(task: str, d: int, rng: np.random.Generator) -> Any:
    strength = _log(rng, 1e-3, 1e5)
    degree = int(rng.integers(1, 3)) if d <= MOST_SQUARED else 1
    last = (
        Ridge(alpha=strength)
        if task == "regression"
        else LogisticRegression(C=1 / strength, max_iter=200)
    )
    squares = PolynomialFeatures(degree, include_bias=False, interaction_only=False)
    return make_pipeline(StandardScaler(), squares, StandardScaler(), last)


def _forest(task: str, d: int, rng: np.random.Generator) -> Any:
    extra = bool(rng.integers(0, 2))
    kind = (
        (ExtraTreesRegressor if extra else RandomForestRegressor)
        if task == "regression"
        else (ExtraTreesClassifier if extra else RandomForestClassifier)
    )
    return kind(
        n_estimators=100,
        max_features=rng.uniform(0.2, 1.0),
        min_samples_leaf=round(_log(rng, 1, 50)),
        random_state=0,
    )


def _neighbours(task: str, d: int, rng: np.random.Generator) -> Any:
    kind = KNeighborsRegressor if task == "regression" else KNeighborsClassifier
    last = kind(
        n_neighbors=round(_log(rng, 3, 200)), weights=str(rng.choice(["uniform", "distance"]))
    )
    return make_pipeline(StandardScaler(), last)


def _network(task: str, d: int, rng: np.random.Generator) -> Any:
    kind = MLPRegressor if task == "regression" else MLPClassifier
    last = kind(
        hidden_layer_sizes=(round(_log(rng, 8, 64)),) * int(rng.integers(1, 3)),
        alpha=_log(rng, 1e-4, 10),
        learning_rate_init=_log(rng, 1e-3, 1e-2),
        early_stopping=True,
        max_iter=100,
        random_state=0,
    )
    return make_pipeline(StandardScaler(), last)


def _constant(task: str, d: int, rng: np.random.Generator) -> Any:
    return ConstantPrediction(rng.uniform(-4, 4))


_DRAWN = {
    "trees": _trees,
    "kernel": _kernel,
    "linear": _linear,
    "forest": _forest,
    "neighbours": _neighbours,
    "network": _network,
    "constant": _constant,
}
