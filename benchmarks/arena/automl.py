"""AutoML in the arena: the target loss of FLAML and AutoGluon, with folds that keep sites apart.

    SHIFTUNE_DATA=FOLDER AUTOML/bin/python benchmarks/arena/automl.py --out FOLDER
        [--first-seed 31] [--seeds 32] [--targets 2] [--seconds 40] [--labels 30]
        [--peer flaml autogluon] [--datasets NAME ...]

The versions that AutoGluon and FLAML ask for are not those of shiftune's tests, so they have an
environment of their own, here AUTOML, without torch:

    python3.11 -m venv AUTOML
    AUTOML/bin/pip install -r benchmarks/arena/automl-requirements.txt
    AUTOML/bin/pip install --no-deps -e .

A cell is a (data set, target, seed), with the rows and targets of the arena. A peer is given all
rows of all sources, the site of each, the metric (log loss or squared error), one thread and some
seconds. ``automl.csv`` in the folder gets a row per cell and peer: the mean loss on the target as
`cells.losses_of` defines it, seconds of wall clock and of CPU to fit and predict, or the reason of
a failure. The budget is of wall clock, so on a busy machine a peer gets less than it seems: look at
the seconds of CPU. Rows that the file has are not computed again; delete a row to repeat it. Ctrl-C
ends the run after the present fit, a second one at once.

With ``--labels``, so many rows of the target, the first draw of ``labels.py``, are training rows of
one more site, and the loss is that on its other rows.

The order is the first target of all data sets, shuffled, then the second, and all peers in each
cell: whenever the run is stopped, what is finished is a fair sample. Generated problems are only
run where ``--datasets`` names them.

- *FLAML*: ``split_type="group"``, which is GroupKFold, with the sites as groups. Its ensembles are
  left out: the stacker splits rows without the groups, after the budget and on all cores.
- *AutoGluon*: models bagged over the values of the column ``groups``, which are the folds of
  GroupKFold over sites; its weighted ensemble is fitted out of fold. The option
  ``validation_structure`` would keep the site as a feature, which a new site does not have.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from autogluon.tabular import TabularPredictor
from autogluon.tabular.configs.hyperparameter_configs import get_hyperparameter_config
from cells import losses_of, predictions_of
from flaml import AutoML
from labels import labelled_first
from problems import Problem, cells_in_turn, problem
from row_file import RowFile
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from shiftune._interrupts import deferred

FOLDS = 5
KEY = ("dataset", "target", "seed", "labels", "peer", "budget")
FOUND = ("seconds", "cpu_seconds", "loss", "reason")

# Without torch, AutoGluon logs an error for every model when it counts GPUs.
logging.getLogger("autogluon.common.utils.resource_utils").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Rows:
    """What a peer is given: rows (n, d), labels and sites (n,), and the target's rows."""

    X: np.ndarray
    y: np.ndarray
    site: np.ndarray
    X_target: np.ndarray
    y_target: np.ndarray  # hidden
    classes: np.ndarray | None  # None for regression
    seed: int

    @classmethod
    def of(cls, p: Problem, seed: int, labels: int) -> Rows:
        order = labelled_first(len(p.y_target), seed, labels, 0)
        own, others = order[:labels], order[labels:]
        X, y = [*p.X, p.X_target[own]], np.concatenate([*p.y, p.y_target[own]])
        site = np.repeat(np.arange(len(X)), [len(x) for x in X])
        classes = None if p.task == "regression" else np.unique(y)
        hidden = p.X_target[others], p.y_target[others]
        return cls(np.concatenate(X), y, site, *hidden, classes, seed)

    @property
    def folds(self) -> int:
        return min(FOLDS, int(self.site.max()) + 1)


def flaml(rows: Rows, seconds: float) -> np.ndarray:
    """Return the predictions of FLAML's best model."""
    regression = rows.classes is None
    model = AutoML()
    model.fit(
        rows.X,
        rows.y,
        task="regression" if regression else "classification",
        metric="mse" if regression else "log_loss",
        estimator_list=[
            *("lgbm", "xgboost", "xgb_limitdepth", "catboost", "rf", "extra_tree"),
            "enet" if regression else "lrl1",
        ],
        eval_method="cv",
        split_type="group",
        groups=rows.site,
        n_splits=rows.folds,
        time_budget=seconds,
        n_jobs=1,
        seed=rows.seed,
        verbose=0,
    )
    return predictions_of(model, rows.X_target, rows.classes)


def autogluon(rows: Rows, seconds: float) -> np.ndarray:
    """Return the predictions of AutoGluon's weighted ensemble of bagged models."""
    fold = np.empty(len(rows.y), dtype=int)
    for i, (_, held) in enumerate(GroupKFold(rows.folds).split(rows.X, groups=rows.site)):
        fold[held] = i
    names = [f"x{j}" for j in range(rows.X.shape[1])]
    table = pd.DataFrame(rows.X, columns=names).assign(label=rows.y, fold=fold)
    regression = rows.classes is None
    task = "regression" if regression else "binary" if len(rows.classes) == 2 else "multiclass"
    families = get_hyperparameter_config("default")
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor(
            "label",
            problem_type=task,
            eval_metric="mean_squared_error" if regression else "log_loss",
            path=folder,
            verbosity=0,
            groups="fold",
        ).fit(
            table,
            time_limit=seconds,
            hyperparameters={f: families[f] for f in ("GBM", "CAT", "XGB", "RF", "XT")}
            | {"LR": {}},
            num_bag_folds=rows.folds,
            num_cpus=1,
            num_gpus=0,
            ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
        )
        X_target = pd.DataFrame(rows.X_target, columns=names)
        if regression:
            return predictor.predict(X_target, as_pandas=False)
        # A class that is too rare for AutoGluon has no column.
        chances = predictor.predict_proba(X_target)
        return chances.reindex(columns=rows.classes, fill_value=0.0).to_numpy()


PEERS: dict[str, Callable[[Rows, float], np.ndarray]] = {"flaml": flaml, "autogluon": autogluon}


def measured(p: Problem, seed: int, labels: int, peer: str, budget: float) -> dict[str, object]:
    """Return a peer's target loss and what it cost, or the reason of its failure."""
    rows = Rows.of(p, seed, labels)
    loss, reason = math.nan, ""
    start, cpu = time.perf_counter(), cpu_seconds()
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predictions = PEERS[peer](rows, budget)
    except Exception as error:  # whatever it is, it belongs to the result
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    if not reason:
        loss = float(losses_of(predictions, rows.y_target, rows.classes).mean())
        reason = "" if math.isfinite(loss) else "predictions that are not finite"
    return {
        "seconds": f"{seconds:.1f}",
        "cpu_seconds": f"{cpu:.1f}",
        "loss": loss if math.isfinite(loss) else "",
        "reason": reason,
    }


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=31)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--targets", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--peer", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--datasets", nargs="+")
    args = parser.parse_args()
    file = RowFile(args.out / "automl.csv", KEY, FOUND)
    seeds = range(args.first_seed, args.seeds)
    for name, target, seed in cells_in_turn(args.datasets, args.targets, seeds):
        p = problem(name, target, seed)
        for peer in args.peer:
            key = (name, p.target, seed, args.labels, peer, f"{args.seconds:g}")
            if key in file:
                continue
            with deferred():
                found = measured(p, seed, args.labels, peer, args.seconds)
                row = dict(zip(KEY, key, strict=True)) | found
                file.add(row)
            print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
