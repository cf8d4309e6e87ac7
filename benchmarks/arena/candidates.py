"""Candidates of the ensemble: the best trials of all families together, or as many of each.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/candidates.py --out OUT --first-seed 112

runs `ShiftSearch("auto")` with 100 trials (absolute error or log loss) on a hidden target of every
table, and keeps the predictions of all trials, out of site and at the target. Then members are
chosen by several rules among the first 24, 50 and 100 trials, and scored at the target: the
samplers and the first trials of every family are the same, and only the choice differs.
``candidates.csv`` in the folder gets a row per cell, number of trials and rule. Cells that the
folder has are not computed again; ``--random`` samples at random instead. `ensembles.md` has the
figures.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of, predictions_of
from problems import Problem, cells_in_turn, problem
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch
from shiftune.evaluate import loss_named
from shiftune.predictor import _selection
from shiftune.search import _storage
from shiftune.search._trial import MODEL, finished_trials

TRIALS = (24, 50, 100)
# Candidates, and whether they are divided among the families.
RULES = {
    "12 of all": (12, False),
    "24 of all": (24, False),
    "50 of all": (50, False),
    "12, divided": (12, True),
    "24, divided": (24, True),
    "48, divided": (48, True),
}


def given(p: Problem) -> ShiftProblem:
    """Return the problem as a search has it."""
    site = np.repeat(np.arange(len(p.X)), [len(rows) for rows in p.X])
    return ShiftProblem.from_arrays(
        np.concatenate(p.X), np.concatenate(p.y), site, p.X_target, task=p.task
    )


def searched(path: Path, p: Problem, seed: int, model: Any = "auto", **options: Any) -> None:
    """Run a search, fit all of its trials to all rows of all sources, and keep predictions."""
    labels = np.concatenate(p.y)
    classes = None if p.task == "regression" else np.unique(labels)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = ShiftSearch(
            model,
            loss="absolute" if classes is None else None,
            random_state=seed,
            progress=False,
            **options,
        ).fit(given(p))
        result = search.result_
        kept = {t.number: result.store.get(t.number) for t in finished_trials(result.study)}
        trials = [t for t in finished_trials(result.study) if kept[t.number] is not None]
        at_target = [
            predictions_of(result.fitted(result.model_of(t.number)), p.X_target, classes)
            for t in trials
        ]
    risk, data = result.choice.risk, result.context.data
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(
            file,
            number=[t.number for t in trials],
            family=[t.user_attrs[MODEL] for t in trials],
            out_of_site=np.array([kept[t.number] for t in trials], dtype=np.float32),
            at_target=np.array(at_target, dtype=np.float32),
            shares=data.row_coefficients(np.repeat(risk.lam, risk.n)),
            y=labels,
            site=np.repeat(np.arange(len(p.y)), [len(own) for own in p.y]),
            y_target=p.y_target,
        )
    part.rename(path)


def read(path: Path) -> dict[str, np.ndarray]:
    """Return what `searched` has kept."""
    with np.load(path) as file:
        return dict(file)


def target_loss(
    cell: dict[str, np.ndarray], trials: np.ndarray, number: int, divided: bool, regression: bool
) -> tuple[float, int]:
    """Choose members among some trials; return the loss of their mean at the target.

    And the number of their families.
    """
    classes = None if regression else np.unique(cell["y"])
    loss = loss_named("absolute" if regression else "log_loss")
    y = [cell["y"][cell["site"] == j] for j in np.unique(cell["site"])]
    predictions = {int(i): cell["out_of_site"][i] for i in trials}
    family = {int(i): str(cell["family"][i]) for i in trials}
    _selection.CANDIDATES = number
    chosen = _selection.Candidates(
        predictions, y, cell["shares"], loss, classes, family if divided else None
    )
    members = chosen.members(chosen.weights())
    mean = np.asarray(sum(weight * cell["at_target"][i] for i, weight in members.items()), float)
    if regression:
        losses = np.abs(cell["y_target"] - mean)
    else:
        losses = losses_of(mean, cell["y_target"], classes)
    return float(losses.mean()), len({family[i] for i in members})


def scores(path: Path, regression: bool) -> list[dict[str, object]]:
    """Choose members by every rule; return their weighted mean's loss at the target."""
    cell, rows = read(path), []
    for trials in TRIALS:
        first = np.flatnonzero(cell["number"] < trials)
        for rule, (number, divided) in RULES.items():
            loss, families = target_loss(cell, first, number, divided, regression)
            rows.append({"trials": trials, "rule": rule, "loss": loss, "families": families})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=112)
    parser.add_argument("--seeds", type=int, default=116)
    parser.add_argument("--targets", type=int, default=1)
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--datasets", nargs="+")
    args = parser.parse_args()
    _storage.MOST_KEPT = TRIALS[-1]  # predictions of all trials
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    seeds = range(args.first_seed, args.seeds)
    for dataset, target, seed in cells_in_turn(args.datasets, args.targets, seeds):
        p = problem(dataset, target, seed)
        path = args.out / f"{dataset.replace(' ', '_')}-{target}-{seed}.npz"
        if not path.exists():
            sampler = optuna.samplers.RandomSampler(seed=seed) if args.random else None
            searched(path, p, seed, n_trials=TRIALS[-1], sampler=sampler)
        found = scores(path, p.task == "regression")
        rows += [{"dataset": dataset, "target": p.target, "seed": seed, **row} for row in found]
        pd.DataFrame(rows).to_csv(args.out / "candidates.csv", index=False)
        print(dataset, p.target, seed, flush=True)
    print(summary(pd.DataFrame(rows)))


def summary(rows: pd.DataFrame) -> str:
    """Return a Markdown table: change of the loss against 12 of all, among as many trials."""
    lines = ["| trials | rule | mean of tables | median cell | lower in | one family |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    key, rng = ["dataset", "target", "seed", "trials"], np.random.default_rng(0)
    base = rows[rows["rule"] == "12 of all"].set_index(key)["loss"]
    for (trials, rule), own in rows.groupby(["trials", "rule"], sort=False):
        change = 100 * (own.set_index(key)["loss"] / base.loc[own.set_index(key).index] - 1)
        by_table = change.groupby("dataset").mean()
        draws = rng.choice(by_table, (10_000, len(by_table))).mean(axis=1)
        low, high = np.quantile(draws, [0.05, 0.95])
        lines.append(
            f"| {trials} | {rule} | {by_table.mean():+.2f} % ({low:+.2f} to {high:+.2f}) | "
            f"{change.median():+.2f} % | {(change < 0).mean():.0%} | "
            f"{(own['families'] == 1).mean():.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
