"""Uses of a few labels, through the package: an update, or more training rows.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/label_uses.py --out FOLDER --seed 34

``label_uses.csv`` gets a row per cell and number of labels, with the loss on the target's other
rows: of what `ShiftSearch("auto")` hands over without labels; updated (`search.update`); refitted
with the labelled rows among the training rows, each counted 1 and 10 times; refitted, then updated.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of, predictions_of
from problems import Problem, cells_in_turn, problem
from row_file import RowFile
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch
from shiftune.search._updating import update

KEY = ("dataset", "target", "seed", "labels")
USES = ("none", "update", "train", "train x 10", "train and update")
LABELS = (10, 30, 100)
TRIALS = 24
MOST_LABELLED = 0.6


def scored(p: Problem, seed: int) -> dict[int, dict[str, float]]:
    """Search once without labels; return losses by number of labels and use."""
    site = np.repeat([f"s{j}" for j in range(len(p.X))], [len(x) for x in p.X])
    X, y = np.concatenate(p.X), np.concatenate(p.y)
    classes = None if p.task == "regression" else np.unique(y)
    given = ShiftProblem.from_arrays(X, y, site, p.X_target, task=p.task)
    search = ShiftSearch("auto", n_trials=TRIALS, random_state=seed, progress=False).fit(given)
    order = np.random.default_rng(seed).permutation(len(p.y_target))
    found = {}
    for m in LABELS:
        if m > MOST_LABELLED * len(order):
            continue
        own, others = order[:m], order[m:]
        X_few, y_few = p.X_target[own], p.y_target[own]

        def trained(times: int, X_few=X_few, y_few=y_few):
            rows = np.concatenate([X, *[X_few] * times])
            return clone(search.predictor_).fit(rows, np.concatenate([y, *[y_few] * times]))

        once = trained(1)
        models = {
            "none": search,
            "update": search.update(X_few, y_few),
            "train": once,
            "train x 10": trained(10),
            "train and update": update(search.result_, once, X_few, y_few),
        }
        found[m] = {
            use: losses_of(
                predictions_of(model, p.X_target[others], classes), p.y_target[others], classes
            ).mean()
            for use, model in models.items()
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--targets", type=int, default=1)
    parser.add_argument("--datasets", nargs="+")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    file = RowFile(args.out / "label_uses.csv", KEY, USES)
    for dataset, target, seed in cells_in_turn(args.datasets, args.targets, [args.seed]):
        p = problem(dataset, target, seed)
        if (dataset, p.target, seed, LABELS[0]) in file:
            continue
        with threadpool_limits(1):
            for m, losses in scored(p, seed).items():
                file.add(dict(zip(KEY, (dataset, p.target, seed, m), strict=True)) | losses)
    rows = pd.read_csv(file.path)
    percent = rows[list(USES)].div(rows["none"], axis=0).sub(1).mul(100)
    print(percent.groupby(rows["labels"]).mean().round(1).to_string())


if __name__ == "__main__":
    main()
