"""The models of "auto" against other fits of the same models, side by side on hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/penalised.py --out FOLDER --datasets vowel_speakers

Random configurations of the package's spaces are fitted to all sources of a table and predict the
target. ``scikit-learn`` has the same features, made by `Nystroem` (a singular value decomposition),
and `LogisticRegression` or `Ridge`; boosted trees are those of LightGBM's models for scikit-learn.
``penalised.csv`` gets CPU seconds of fit and prediction, and the target's loss (squared error or
log loss), of every configuration.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of, predictions_of
from problems import cells_in_turn, problem
from row_file import RowFile
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PolynomialFeatures,
    StandardScaler,
)
from threadpoolctl import threadpool_limits

from shiftune.models import ready_model, spaces

KEY = ("dataset", "target", "seed", "model", "configuration", "solver")
FOUND = ("alpha", "other", "cpu_seconds", "loss")


def drawn_in(rows: np.ndarray) -> np.ndarray:
    return rows / np.sqrt(1 + (rows / 3) ** 2)


def of_trees(penalty: float, leaves: float) -> dict[str, float]:
    return {"reg_lambda": penalty, "num_leaves": int(leaves), "random_state": 0}


def plain(model: str, task: str, columns: int, alpha: float, other: float):
    """Return the model of scikit-learn's parts; `other` is gamma, the degree or the leaves."""
    if model == "lightgbm":
        trees = LGBMRegressor if task == "regression" else LGBMClassifier
        own = ready_model(model, task, None)
        params = own.bare.get_params() | of_trees(alpha, other)
        return make_pipeline(own.pipeline[:-1], trees(**params))
    if model == "kernel":
        kernel = Nystroem(gamma=other / columns, n_components=300, random_state=0)
        features = make_pipeline(FunctionTransformer(drawn_in), kernel)
    else:
        products = PolynomialFeatures(int(other), include_bias=False)
        features = make_pipeline(products, MinMaxScaler(clip=True), StandardScaler())
    linear = Ridge(alpha) if task == "regression" else LogisticRegression(C=1 / alpha, max_iter=300)
    return make_pipeline(StandardScaler(), features, linear)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=71)
    parser.add_argument("--seeds", type=int, default=72)
    parser.add_argument("--configurations", type=int, default=12)
    parser.add_argument("--models", nargs="+", default=["kernel", "linear", "lightgbm"])
    parser.add_argument("--datasets", nargs="+")
    args = parser.parse_args()
    file = RowFile(args.out / "penalised.csv", KEY, FOUND)
    for dataset, target, seed in cells_in_turn(
        args.datasets, 1, range(args.first_seed, args.seeds)
    ):
        p = problem(dataset, target, seed)
        X, y = np.concatenate(p.X), np.concatenate(p.y)
        classes = None if p.task == "regression" else np.unique(y)
        for model in args.models:
            space = getattr(spaces, model)()
            penalty = space["reg_lambda" if model == "lightgbm" else "alpha"]
            rng = np.random.default_rng(seed)
            for i in range(args.configurations):
                alpha = float(np.exp(rng.uniform(np.log(penalty.low), np.log(penalty.high))))
                other = float(np.exp(rng.uniform(np.log(1e-2), np.log(30.0))))
                if model == "linear":
                    other = 1 + i % 2 if X.shape[1] <= 20 else 1
                    params = {"alpha": alpha, "degree": other}
                elif model == "kernel":
                    params = {"alpha": alpha, "gamma": other, "random_state": 0}
                else:
                    params = of_trees(alpha, other := 4 * 2 ** (i % 5))
                own = ready_model(model, p.task, None).pipeline
                own.set_params(**{f"model__{name}": value for name, value in params.items()})
                solvers = {
                    "scikit-learn": plain(model, p.task, X.shape[1], alpha, other),
                    "shiftune": own,
                }
                for solver, fitted in solvers.items():
                    key = (dataset, p.target, seed, model, i, solver)
                    if key in file:
                        continue
                    start = time.process_time()
                    with threadpool_limits(1), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        predicted = predictions_of(fitted.fit(X, y), p.X_target, classes)
                    seconds = time.process_time() - start
                    loss = float(losses_of(predicted, p.y_target, classes).mean())
                    found = (f"{alpha:.4g}", f"{other:.4g}", f"{seconds:.4f}", f"{loss:.6f}")
                    file.add(dict(zip(KEY + FOUND, key + found, strict=True)))
        print(dataset, flush=True)


if __name__ == "__main__":
    main()
