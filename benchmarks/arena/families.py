"""Families beside those of "auto", and what they add to the ensemble.

    SHIFTUNE_DATA=FOLDER AUTOML/bin/python benchmarks/arena/families.py --out OUT --first-seed 101

runs searches on a hidden target of every table (absolute error or log loss), each family of "auto"
and the ones below with trials of its own, keeps the predictions of all trials, and chooses members
among as many trials of some families (48 in all, CatBoost beside). AUTOML is the environment of
`automl.py`, which has CatBoost. ``families.csv`` in the folder gets a row per cell and set;
`ensembles.md` has the figures.

- *random*: LightGBM with random thresholds (``extra_trees``).
- *robust linear*, *robust kernel* (absolute errors): the models of "auto" with Huber's loss, whose
  knee is half a robust standard deviation; steps with pseudo-values share one Cholesky root.
- *catboost*: up to 400 rounds, six trials.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from catboost import CatBoostClassifier, CatBoostRegressor
from optuna.distributions import FloatDistribution, IntDistribution
from scipy.linalg import solve_triangular
from sklearn.linear_model import Ridge

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

import candidates
from candidates import read, searched, target_loss
from problems import Problem, cells_in_turn, problem

from shiftune import ShiftProblem
from shiftune.models import ReadyModel, expand_auto, ready_model
from shiftune.models._penalised import KernelRegressor, ProductsRegressor, _root
from shiftune.search import _families, _storage

TRIALS = {"catboost": 6}
OTHERS = 16
CELLS_OF_ALL_TREES = 3_000_000


def huber(self: Any, Z: np.ndarray, y: np.ndarray, w: np.ndarray, penalty: np.ndarray) -> Any:
    """Solve as `_PenalisedRegressor` does, for Huber's loss."""
    P = self.alpha * penalty
    root, b = _root(Z, w, P), float(w @ y / w.sum())

    def solved(gradient: np.ndarray) -> np.ndarray:
        half = solve_triangular(root, gradient, lower=True)
        return solve_triangular(root, half, lower=True, trans="T")

    B = solved(Z.T @ (w * (y - b)))
    r = y - b - Z @ B
    most = 0.5 * (1.4826 * np.median(np.abs(r - np.median(r))) or r.std() or 1.0)
    for _ in range(30):
        r = y - b - Z @ B
        psi, inside = w * np.clip(r, -most, most), w @ (np.abs(r) < most)
        step = solved(Z.T @ psi - P @ B)
        B, b = B + step, b + (0.7 * psi.sum() / inside if inside else 0.0)
        if np.abs(step).max() < 1e-4 * max(1e-12, np.abs(B).max()):
            break
    return Ridge(self.alpha), B, b


class RobustProducts(ProductsRegressor):
    """Columns and products with Huber's loss."""

    _solve = huber


class RobustKernel(KernelRegressor):
    """Kernel machine with Huber's loss."""

    _solve = huber


def models_for(p: Problem, given: ShiftProblem) -> dict[str, Any]:
    """Return the families of a search by name."""
    size, regression = _families.table_size(given), p.task == "regression"
    loss = "absolute" if regression else "log_loss"
    ready: dict[str, Any] = {
        name: ready_model(name, p.task, None, size=size)
        for name in expand_auto(["auto"], p.task, loss)
    }
    boosted = ready_model("lightgbm", p.task, None, size=size)
    ready["random"] = _with(boosted, boosted.bare.set_params(extra_trees=True))
    if regression:
        for name, model in (("linear", RobustProducts), ("kernel", RobustKernel)):
            like = ready_model(name, p.task, None, size=size)
            ready[f"robust {name}"] = _with(like, model(**like.bare.get_params()))
    trees = 1 if len(given.classes) < 3 else len(given.classes)
    rounds = CELLS_OF_ALL_TREES // (sum(map(len, p.y)) * p.X[0].shape[1] * trees)
    options: dict[str, Any] = {"loss_function": "MAE"} if regression else {}
    catboost = (CatBoostRegressor if regression else CatBoostClassifier)(
        iterations=int(np.clip(rounds, 60, 400)),
        **{"depth": 6, "learning_rate": 0.1, "l2_leaf_reg": 3.0, "random_seed": 0, **options},
        **{"verbose": 0, "thread_count": 1, "allow_writing_files": False},
    )
    space = {
        "depth": IntDistribution(3, 8),
        "learning_rate": FloatDistribution(0.03, 0.3, log=True),
        "l2_leaf_reg": FloatDistribution(1, 30, log=True),
    }
    return ready | {"catboost": (catboost, space)}


def _with(ready: ReadyModel, bare: Any) -> ReadyModel:
    return ReadyModel(ready.pipeline.set_params(model=bare), bare, ready.prefix, ready.space)


def sets_of(regression: bool) -> dict[str, list[str]]:
    """Return sets of families, of which the first is that of "auto"."""
    l1 = ["lightgbm_l1"] if regression else []
    auto = ["linear", "kernel", "lightgbm", *l1]
    sets = {
        "auto": auto,
        "and random": [*auto, "random"],
        "random for lightgbm": ["linear", "kernel", "random", *l1],
        "and catboost": [*auto, "catboost"],
        "catboost for lightgbm": ["linear", "kernel", "catboost"],
    }
    if regression:
        robust = ["robust linear", "robust kernel"]
        sets["robust kernel for kernel"] = ["linear", "robust kernel", "lightgbm", *l1]
        sets["robust for linear and kernel"] = [*robust, "lightgbm", *l1]
        sets["and robust"] = [*auto, *robust]
    return sets


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=101)
    parser.add_argument("--seeds", type=int, default=103)
    parser.add_argument("--targets", type=int, default=1)
    parser.add_argument("--datasets", nargs="+")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    _storage.MOST_KEPT = 1000  # predictions of all trials
    _families.next_family = lambda proposed, *_: min(
        proposed, key=lambda name: proposed[name] / TRIALS.get(name, OTHERS)
    )
    rows = []
    seeds = range(args.first_seed, args.seeds)
    for dataset, target, seed in cells_in_turn(args.datasets, args.targets, seeds):
        p, path = problem(dataset, target, seed), args.out / f"{dataset}-{target}-{seed}.npz"
        if not path.exists():
            models = models_for(p, candidates.given(p))
            trials = sum(TRIALS.get(name, OTHERS) for name in models)
            searched(path, p, seed, models, n_trials=trials)
        cell, regression = read(path), p.task == "regression"
        for name, families in sets_of(regression).items():
            each = 48 // sum(family != "catboost" for family in families)
            chosen = np.concatenate(
                [np.flatnonzero(cell["family"] == family)[:each] for family in families]
            )
            loss, _ = target_loss(cell, chosen, 12, True, regression)
            key = {"dataset": dataset, "target": p.target, "seed": seed, "families": name}
            rows.append(key | {"loss": loss})
        pd.DataFrame(rows).to_csv(args.out / "families.csv", index=False)
        print(dataset, p.target, seed, flush=True)
    wide = pd.DataFrame(rows).pivot_table(
        index=["dataset", "target", "seed"], columns="families", values="loss"
    )
    change = 100 * (wide.div(wide["auto"], axis=0) - 1)
    print(change.agg(["count", "mean", "sem", "median", "min", "max"]).T.round(2).to_string())


if __name__ == "__main__":
    main()
