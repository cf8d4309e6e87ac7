"""Whole searches in the arena: the final models of `ShiftSearch`, on hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/searches.py --out FOLDER --first-seed 31 --seeds 32

Everything as a user has it: the package's own models and spaces, the sampler, the budget of the
families, the final fit on all rows of all sources. ``searches.csv`` in the folder gets a row per
cell and search, with the mean loss on the target, seconds of wall clock and of CPU (one process),
and the estimated risk with its 90 % interval.
Rows that the file has are not computed again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import losses_of, predictions_of
from problems import Problem, cells_in_turn, problem
from row_file import RowFile
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch

KEY = ("dataset", "target", "seed", "search", "trials")
FOUND = ("seconds", "cpu_seconds", "loss", "value", "low", "high")

SEARCHES: dict[str, Callable[..., ShiftSearch]] = {
    "naive lightgbm": lambda **options: ShiftSearch("lightgbm", risk="naive", **options),
    "lightgbm": lambda **options: ShiftSearch("lightgbm", **options),
    "auto": lambda **options: ShiftSearch("auto", **options),
    # Of quantities, and scored by absolute errors.
    "auto absolute": lambda **options: ShiftSearch("auto", loss="absolute", **options),
    "squared trees, absolute": lambda **options: ShiftSearch(
        ["linear", "kernel", "lightgbm"], loss="absolute", **options
    ),
}


def measured(p: Problem, seed: int, name: str, trials: int) -> dict[str, object]:
    """Run one search and score its final model."""
    site = np.repeat([f"s{j}" for j in range(len(p.X))], [len(x) for x in p.X])
    y = np.concatenate(p.y)
    given = ShiftProblem.from_arrays(np.concatenate(p.X), y, site, p.X_target, task=p.task)
    start, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = SEARCHES[name](n_trials=trials, random_state=seed, progress=False).fit(given)
        classes = None if p.task == "regression" else np.unique(y)
        predictions = predictions_of(search, p.X_target, classes)
    losses = losses_of(predictions, p.y_target, classes)
    if name.endswith("absolute"):
        losses = np.abs(predictions - p.y_target)
    low, high = search.risk_.interval(0.9)
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "loss": float(losses.mean()),
        "value": search.risk_.value,
        "low": low,
        "high": high,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=31)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--targets", type=int, default=2)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=SEARCHES)
    parser.add_argument("--datasets", nargs="+")
    args = parser.parse_args()
    file = RowFile(args.out / "searches.csv", KEY, FOUND)
    seeds = range(args.first_seed, args.seeds)
    for dataset, target, seed in cells_in_turn(args.datasets, args.targets, seeds):
        p = problem(dataset, target, seed)
        for name in args.searches:
            key = (dataset, p.target, seed, name, args.trials)
            if key in file or (name.endswith("absolute") and p.task != "regression"):
                continue
            row = dict(zip(KEY, key, strict=True)) | measured(p, seed, name, args.trials)
            file.add(row)
            print(row, flush=True)


if __name__ == "__main__":
    main()
