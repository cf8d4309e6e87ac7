"""The judge of a trial: which predictions, which folds, which criterion, which interval.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/judge.py --out OUT --seeds 40 41

fits 8 configurations of each of three families on two hidden targets of every table, with four,
five and eight folds of sites, and as a trial was judged before (half by a model of 70 % of the rows
of all sites, half by one of the other folds, on the other 30 % of the rows); then it scores the
ensembles that would be chosen, and the 90 % intervals of their loss, also with two or three of the
sources drawn at random. Cells that the folder has are not computed again. `judge.md` has the
figures.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of, predictions_of, split_rows
from pools import FAMILIES, pool
from problems import Problem, cells_in_turn, problem
from regret import mean
from sklearn.base import clone
from threadpoolctl import threadpool_limits
from trials import LOSSES

from shiftune.evaluate._fits import assign_folds
from shiftune.predictor._selection import Candidates
from shiftune.risk import RegressionAdjusted
from shiftune.risk._adjusted import ROWS_FOR_HALF_SHARE

SIZE, FOLDS, LEVEL = 8, (4, 5, 8), 0.9
# Sources that are drawn, twice for each target.
FEW, REPEATS = (2, 3), 2
Arrays = dict[str, np.ndarray]


# ---------------------------------------------------------------- predictions


def compute(path: Path, dataset: str, target: int, seed: int) -> None:
    """Fit all configurations of one problem, and keep their predictions."""
    if path.exists():
        return
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = predictions(problem(dataset, target, seed), seed)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(file, **arrays)
    part.rename(path)
    print(path.name, flush=True)


def predictions(p: Problem, seed: int) -> Arrays:
    """Return the predictions of every configuration, and the rows that they are of."""
    site, train = split_rows(p, np.random.default_rng([seed, 1]))
    X, y = np.concatenate(p.X), np.concatenate(p.y)
    classes = None if p.task == "regression" else np.unique(y)
    sizes = np.array([len(x) for x in p.X])
    folds = {count: assign_folds(sizes, count)[site] for count in FOLDS}

    def by_fit(model: Any, rows: np.ndarray, new: np.ndarray) -> np.ndarray:
        return predictions_of(clone(model).fit(X[rows], y[rows]), new, classes)

    def in_folds(model: Any, fold: np.ndarray, train: np.ndarray, new: np.ndarray) -> np.ndarray:
        parts = [by_fit(model, train & (fold != f), X[new & (fold == f)]) for f in np.unique(fold)]
        rows = [np.flatnonzero(new & (fold == f)) for f in np.unique(fold)]
        return np.concatenate(parts)[np.argsort(np.concatenate(rows))]

    every, found = np.ones(len(X), dtype=bool), []
    for family in FAMILIES:
        for model in pool(family, p.task, X.shape[1], SIZE, seed):
            try:
                one = {f"fold{c}": in_folds(model, own, every, every) for c, own in folds.items()}
                one["known"] = by_fit(model, train, X[~train])
                one["unseen"] = in_folds(model, folds[4], train, ~train)
                one["target"] = by_fit(model, every, p.X_target)
            except ValueError:  # for example, only one class in all rows but those of a fold
                continue
            found.append(one | {"family": np.array(family)})
    stacked = {name: np.array([one[name] for one in found]) for name in found[0]}
    kept = {name: a.astype(np.float32) if a.dtype == float else a for name, a in stacked.items()}
    rows = {"X": X, "y": y, "site": site, "train": train}
    target = {"X_target": p.X_target, "y_target": p.y_target, "task": np.array(p.task)}
    return kept | rows | target


# ---------------------------------------------------------------- choices and intervals


@dataclass
class Judged:
    """Predictions of the trials of one problem, (P, n), by one judge, and their rows by site."""

    predictions: np.ndarray
    y: list[np.ndarray]
    X: list[np.ndarray]
    cell: Arrays

    @classmethod
    def of(cls, cell: Arrays, name: str) -> Judged:
        """Return what a judge has seen: "fold4", ..., or "known" and "unseen" on 30 % of rows."""
        rows = ~cell["train"] if name in ("known", "unseen") else np.ones(len(cell["y"]), bool)
        ends = np.cumsum(np.bincount(cell["site"][rows]))[:-1]
        y, X = np.split(cell["y"][rows], ends), np.split(cell["X"][rows], ends)
        return cls(cell[name], y, X, cell)

    @property
    def classes(self) -> np.ndarray | None:
        """Classes of the labels; None for quantities."""
        return None if self.cell["task"] == "regression" else np.unique(self.cell["y"])

    def row_shares(self) -> np.ndarray:
        """Shares of the rows in the mean of the sites, (n,)."""
        n = np.array([len(own) for own in self.y])
        shares = n / (n + ROWS_FOR_HALF_SHARE)
        return np.repeat(shares / shares.sum() / n, n)

    def fitted(self) -> RegressionAdjusted:
        """The package's estimator for these rows."""
        return RegressionAdjusted().fit(self.cell["X_target"], self.X)

    def ensemble(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the trials (P,) by these shares of the rows, and nested predictions (n,)."""
        loss = LOSSES[str(self.cell["task"])]
        trials = dict(enumerate(self.predictions))
        chosen = Candidates(trials, self.y, shares, loss, self.classes)
        weights = np.zeros(len(self.predictions))
        weights[chosen.numbers] = chosen.weights()
        return weights, chosen.nested_predictions()

    def target_loss(self, weights: np.ndarray) -> float:
        """Mean loss of a weighted mean of the refitted trials at the hidden target."""
        together = np.tensordot(weights, self.cell["target"].astype(float), axes=1)
        return float(losses_of(together, self.cell["y_target"], self.classes).mean())


def scored(path: Path) -> list[dict[str, object]]:
    """Score one problem: the loss of what is chosen, and intervals of it."""
    warnings.simplefilter("ignore")
    name, target, seed = re.fullmatch(r"(.+)-(\d+)-(\d+)\.npz", path.name).groups()
    cell = dict(np.load(path))
    key = {"dataset": name, "target": int(target), "seed": int(seed)}
    rng = np.random.default_rng([int(seed), int(target)])
    judged = {f"{count} folds": Judged.of(cell, f"fold{count}") for count in FOLDS}
    four = judged["4 folds"]
    shares = {judge: own.row_shares() for judge, own in judged.items()}
    equal = np.concatenate([np.full(len(y), 1 / len(y) / len(four.y)) for y in four.y])
    adjusted = four.fitted().coefficients_
    choices = {judge: own.ensemble(shares[judge]) for judge, own in judged.items()}
    for how, own in {
        "sites alike": equal,
        "rows alike": np.full(len(equal), 1 / len(equal)),
        "adjusted": adjusted,
        "half adjusted": (adjusted + shares["4 folds"]) / 2,
    }.items():
        choices[how] = four.ensemble(own)
    for judge in ("known", "unseen"):
        own = Judged.of(cell, judge)
        choices[f"{judge}, 30 %"] = own.ensemble(own.row_shares())
    rows = [key | {"what": how, "loss": four.target_loss(w)} for how, (w, _) in choices.items()]
    weights, nested = choices["4 folds"]
    losses = losses_of(nested, cell["y"], four.classes)
    by_site = np.split(losses, np.cumsum([len(y) for y in four.y])[:-1])
    k = len(by_site)
    counts = [0, *(few for few in FEW for _ in range(REPEATS) if few < k)]
    for few in counts:
        sites = np.sort(rng.permutation(k)[: few or k])
        estimator = RegressionAdjusted().fit(cell["X_target"], [four.X[j] for j in sites])
        risk = estimator.estimate([by_site[j] for j in sites])
        low, high = risk.interval(LEVEL)
        truth = four.target_loss(weights)
        row = key | {"what": "interval", "drawn": few, "sources": len(sites), "loss": truth}
        rows.append(row | {"value": risk.value, "low": low, "high": high})
    return rows


# ---------------------------------------------------------------- tables


def choices_table(rows: pd.DataFrame, base: str = "4 folds") -> pd.DataFrame:
    """Loss of every choice relative to that of the package, in percent, over tables."""
    loss = rows[rows["what"] != "interval"].pivot_table(
        "loss", ["dataset", "target", "seed"], "what", sort=False
    )
    percent = (100 * loss.div(loss[base], axis=0) - 100).groupby("dataset").mean()
    found = pd.DataFrame({name: mean(own) for name, own in percent.items()}).T
    found = found.set_axis(["percent", "low", "high"], axis=1)
    return found.assign(median=percent.median(), worst=percent.max(), better=(percent < 0).mean())


def intervals_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Coverage, half width, interval score and estimate, relative to the truth, over tables."""
    own = rows[rows["what"] == "interval"]
    truth, low, high = own["loss"], own["low"], own["high"]
    missed = (low - truth).clip(lower=0) + (truth - high).clip(lower=0)
    own = own.assign(
        covered=truth.between(low, high),
        above=truth > high,
        half=(high - low) / 2 / truth,
        score=(high - low + 2 / (1 - LEVEL) * missed) / truth,
        ratio=own["value"] / truth,
    )
    by_table = own.groupby(["drawn", "dataset"])
    means = by_table[["covered", "above", "score"]].mean().groupby("drawn").mean()
    return means.join(own.groupby("drawn")[["half", "ratio"]].median())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--targets", type=int, default=2)
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    cells = {
        args.out / f"{d.replace(' ', '_')}-{t}-{s}.npz": (d, t, s)
        for d, t, s in cells_in_turn(args.datasets, args.targets, args.seeds)
    }
    pooled = joblib.Parallel(n_jobs=args.jobs)
    pooled(joblib.delayed(compute)(path, *key) for path, key in cells.items())
    scores = pooled(joblib.delayed(scored)(path) for path in cells)
    found = pd.DataFrame([row for rows in scores for row in rows])
    found.to_csv(args.out / "judge.csv", index=False, float_format="%.6g")
    for seed, rows in [*found.groupby("seed"), ("all", found)]:
        print(f"seed {seed}, {rows['dataset'].nunique()} tables")
        print(choices_table(rows).round(2).to_string())
        print(intervals_table(rows).round(3).to_string())


if __name__ == "__main__":
    main()
