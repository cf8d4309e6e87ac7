"""Recalibration of models that are too sure of themselves: log loss at hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/calibrate.py --seeds 51 52 --out calibrate.csv

For tables of classes, a search per model, of one configuration, and every kind of recalibration by
the package's own code. Losses are bounded as in the arena. A run that was stopped continues.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import answers_of
from lightgbm import LGBMClassifier
from problems import Problem, cells_in_turn, problem, table
from row_file import RowFile
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch
from shiftune.evaluate.losses import bounded
from shiftune.models.preparation import preparation
from shiftune.names import CALIBRATIONS
from shiftune.predictor.choice import Recalibration
from shiftune.predictor.recalibration import recalibrate

KEY = ("dataset", "target", "seed", "model")
FOUND = ("kind", "calibrate", "truth", "gain", "low", "high")
LOSS = bounded("log_loss", -np.log(1e-3))
MODELS: dict[str, Any] = {
    "naive Bayes": GaussianNB(),
    "unpruned tree": DecisionTreeClassifier(),
    "unpruned forest": RandomForestClassifier(),
    "nearest neighbours": KNeighborsClassifier(5),
    "support vectors": SVC(probability=True),
    "boosting, 500 trees": LGBMClassifier(n_estimators=500, n_jobs=1, verbosity=-1),
    "logistic": LogisticRegression(max_iter=1000),
}
# Rows times (classes - 1) up to which a model is fitted: beyond, a cell takes many minutes.
MOST_ROWS = {"support vectors": 4000, "boosting, 500 trees": 20_000}


def measured(p: Problem, seed: int, model: str) -> Iterator[dict[str, Any]]:
    """Yield the true loss, and the estimated gain, of every kind of recalibration."""
    site = np.repeat([f"s{j}" for j in range(len(p.X))], [len(x) for x in p.X])
    y = np.concatenate(p.y)
    classes = np.unique(y)
    given = ShiftProblem.from_arrays(np.concatenate(p.X), y, site, p.X_target, task=p.task)
    pipeline = make_pipeline(preparation(None), MODELS[model])
    search = ShiftSearch(
        pipeline, lambda trial: {}, loss=LOSS, n_trials=1, random_state=seed, progress=False
    ).fit(given)
    known = np.isin(p.y_target, classes)
    answers = answers_of(search, p.X_target[known], classes)
    context = search.result_.context
    for calibrate in CALIBRATIONS:
        found = Recalibration("none")
        if calibrate != "none":
            about = (calibrate, context.data, context.loss, context.estimate)
            found = recalibrate(search.result_.choice, *about).calibration or found
        mapped = answers if found.map is None else found.map(answers)
        low, high = (0.0, 0.0) if found.gain is None else found.gain.interval(0.9)
        yield {
            "kind": found.kind,
            "calibrate": calibrate,
            "truth": LOSS(p.y_target[known], mapped, classes).mean(),
            "gain": 0.0 if found.gain is None else found.gain.value,
            "low": low,
            "high": high,
        }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Loss over that without a map, geometric mean of the tables; gain promised and true."""
    cell = ["model", "dataset", "target", "seed"]
    plain = rows[rows["calibrate"] == "none"].set_index(cell)["truth"]
    rows = rows[rows["calibrate"] != "none"].join(plain.rename("plain"), on=cell)
    rows["log"] = np.log(rows["truth"] / rows["plain"])
    rows["gained"] = rows["plain"] - rows["truth"]
    rows["covered"] = (
        rows["gained"].between(rows["low"], rows["high"]).where(rows["kind"] != "none")
    )
    rows["used"] = rows["kind"] != "none"
    by = rows.groupby(["model", "calibrate"])
    means = rows.groupby(["model", "calibrate", "dataset"])["log"].mean()
    found = by[["gain", "gained", "covered", "used"]].mean()
    found.insert(0, "ratio", np.exp(means.groupby(["model", "calibrate"]).mean()))
    found.insert(1, "worst", np.exp(by["log"].max()))
    return found.assign(cells=by.size())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--targets", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    file = RowFile(args.out, KEY, FOUND)
    warnings.simplefilter("ignore")
    for dataset, target, seed in cells_in_turn(None, args.targets, args.seeds):
        if table(dataset)[3] == "regression":
            continue
        for model in args.models:
            key = (dataset, target, seed, model)
            p = problem(dataset, target, seed)
            size = sum(map(len, p.y)) * (len(np.unique(np.concatenate(p.y))) - 1)
            if key in file or size > MOST_ROWS.get(model, np.inf):
                continue
            with threadpool_limits(1):
                for row in measured(p, seed, model):
                    file.add(dict(zip(KEY, key, strict=True)) | row)
    print(summary(pd.read_csv(args.out)).round(3).to_string())


if __name__ == "__main__":
    main()
