"""False and true alarms: verdicts on whole searches in the arena, beside what happened.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/alarms.py --out FOLDER --first-seed 41 --seeds 42

For every cell a search of boosted trees runs with the default estimator, and the loss of its
final model is measured with the target's hidden labels, as is that of the constant learned at the
sources. ``alarms.csv`` in the folder gets a row per cell with the 90 % interval, the verdict, and
every check's level and figures. A false alarm is "do not use" where the interval covers and the
model is better than the constant.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import predictions_of
from problems import Problem, cells_in_turn, problem
from row_file import RowFile
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch
from shiftune.evaluate._fits import best_constant, losses_of_rows

KEY = ("dataset", "target", "seed")
FOUND = ("sources", "rows", "truth", "constant", "low", "high", "trust", "checks")
LEVEL = 0.9


def measured(p: Problem, seed: int, trials: int) -> dict[str, object]:
    """Run one search; return its verdict and the truth."""
    site = np.repeat([f"s{j}" for j in range(len(p.X))], [len(x) for x in p.X])
    y = np.concatenate(p.y)
    classes = None if p.task == "regression" else np.unique(y)
    given = ShiftProblem.from_arrays(np.concatenate(p.X), y, site, p.X_target, task=p.task)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = ShiftSearch("lightgbm", n_trials=trials, random_state=seed, progress=False)
        search.fit(given)
        predictions = predictions_of(search, p.X_target, classes)
        checks, verdict = search.checks(), search.verdict_
    constant = best_constant(y, search.result_.loss, classes)
    alike = np.broadcast_to(constant, (len(p.y_target), *np.shape(constant)))
    low, high = search.risk_.interval(LEVEL)
    truth, without = (
        float(losses_of_rows(own, p.y_target, search.result_.loss, classes).mean())
        for own in (predictions, alike)
    )
    return {
        "sources": len(p.X),
        "rows": len(y),
        "truth": truth,
        "constant": without,
        "low": low,
        "high": high,
        "trust": str(verdict.trust),
        "checks": json.dumps({c.name: {"level": str(c.level), **c.figures} for c in checks}),
    }


def summary(table: pd.DataFrame) -> str:
    """Return coverage, verdicts and false alarms in words."""
    covered = table["truth"].between(table["low"], table["high"])
    skilled = table["truth"] < table["constant"]
    refused = table["trust"] == "do not use"
    false = refused & covered & skilled
    lines = [
        f"{len(table)} cells of {table['dataset'].nunique()} tables: covered {covered.mean():.2f}, "
        f"better than a constant {skilled.mean():.2f}",
        f"verdicts: {table['trust'].value_counts(normalize=True).round(2).to_dict()}",
        f"false alarms: {false.mean():.3f} of all cells; refused although better than a constant "
        f"{(refused & skilled).mean():.3f}; not better than a constant and refused "
        f"{int((refused & ~skilled).sum())} of {int((~skilled).sum())}",
    ]
    found = pd.DataFrame([json.loads(each) for each in table["checks"]])
    for name in found:
        levels = found[name].dropna().map(lambda check: check["level"]).value_counts(normalize=True)
        lines.append(f"- {name}: {levels.round(3).to_dict()}")
    for _, row in table[false].iterrows():
        lines.append(f"  false: {row['dataset']} {row['target']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=41)
    parser.add_argument("--seeds", type=int, default=42)
    parser.add_argument("--targets", type=int, default=2)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--datasets", nargs="+")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = RowFile(args.out / "alarms.csv", KEY, FOUND)
    seeds = range(args.first_seed, args.seeds)
    for dataset, target, seed in cells_in_turn(args.datasets, args.targets, seeds):
        p = problem(dataset, target, seed)
        key = (dataset, p.target, seed)
        if key in file:
            continue
        row = dict(zip(KEY, key, strict=True)) | measured(p, seed, args.trials)
        file.add(row)
        print({**row, "checks": "..."}, flush=True)
    print(summary(pd.read_csv(args.out / "alarms.csv")))


if __name__ == "__main__":
    main()
