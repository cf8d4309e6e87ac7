"""Linear models at targets beyond their training rows: features limited to the range, or not.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/limits.py --seed 34

prints the loss at hidden targets with the limit relative to without, in percent, by table.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of, predictions_of
from pools import MOST_SQUARED
from problems import problem, real_datasets, targets
from sklearn.preprocessing import StandardScaler

from shiftune.models._penalised import ProductsClassifier, ProductsRegressor

PENALTIES = (0.1, 10.0, 300.0)
MOST_ROWS = 4000


def scored(dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Fit every degree and penalty on the sources, and score it at the target twice."""
    p = problem(dataset, target, seed)
    rng = np.random.default_rng(0)
    kept = rng.permutation(sum(map(len, p.X)))[:MOST_ROWS]
    scale = StandardScaler().fit(np.concatenate(p.X)[kept])
    X, X_target = scale.transform(np.concatenate(p.X)[kept]), scale.transform(p.X_target)
    y = np.concatenate(p.y)
    classes = None if p.task == "regression" else np.unique(y)
    model = ProductsRegressor if p.task == "regression" else ProductsClassifier
    rows = []
    for degree in (1, 2) if X.shape[1] <= MOST_SQUARED else (1,):
        for penalty in PENALTIES:
            fitted = model(penalty, degree=degree).fit(X, y[kept])
            loss = {}
            for limited in (False, True):
                fitted.model_["features"]["limit"].clip = limited
                predictions = predictions_of(fitted, X_target, classes)
                loss[limited] = losses_of(predictions, p.y_target, classes).mean()
            percent = 100 * (loss[True] / loss[False] - 1)
            rows.append({"dataset": dataset, "target": p.target, "degree": degree, "%": percent})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--targets", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = [
        (name, target)
        for name in real_datasets()
        for target in targets(name, args.targets, args.seed)
    ]
    done = joblib.Parallel(n_jobs=2)(joblib.delayed(scored)(*cell, args.seed) for cell in cells)
    rows = [row for cell in done for row in cell]
    means = pd.DataFrame(rows).groupby(["degree", "dataset"])["%"].mean()
    print(means.round(2).to_string())
    print(means.groupby("degree").agg(["mean", "min", "max"]).round(2).to_string())


if __name__ == "__main__":
    main()
