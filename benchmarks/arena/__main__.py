"""The arena: which estimator chooses best for sites whose labels are hidden.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena all --out FOLDER [--seeds 4] [--jobs 2]

Steps, which can also be run one by one: ``losses`` computes the losses of all configurations of
all cells, ``scores`` lets the estimators evaluate them, ``ratios`` compares density ratios and
``training`` weights for training (both with the first seed and family and two targets per data
set), ``report`` makes tables, pictures and a page. What the folder has is not computed again, so
each can be stopped and resumed; scores of other code than the present one are left aside.
`benchmarks/results/arena.md` was made with 5 targets and seeds 0 to 3 for trees, 3 targets and
seeds 4 and 5 (``--first-seed 4 --seeds 6 --targets 3``), added to see whether the first four were
lucky, and 3 targets and seeds 0 to 2 for the other families.
The data sets are read from the folder that SHIFTUNE_DATA names; the peers need the extra ``arena``
and are left out, with a message, where skada is not installed. ``automl.py`` runs AutoML packages
on the same problems, in an environment of their own.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import joblib

sys.path.append(str(Path(__file__).parents[2]))  # the checkout, for `reproduction`

from cells import Cell, compute
from evaluate import file_of, gathered, scores
from page import write_report
from pools import FAMILIES, MORE_FAMILIES
from problems import GENERATED, real_datasets, targets
from ratios import ratios
from tqdm import tqdm
from training import training

STEPS = ("losses", "scores", "ratios", "training", "report")


def cells(args: argparse.Namespace) -> list[Cell]:
    """List the cells, seed by seed, so that what is finished first is balanced."""
    return [
        Cell(name, target, family, seed, args.size)
        for seed in range(args.first_seed, args.seeds)
        for name in args.datasets or [*real_datasets(), *GENERATED]
        for family in (["constant"] if name.startswith("toy") else args.families)
        for target in targets(name, args.targets, seed)
    ]


def two_per_data_set(asked: list[Cell]) -> list[Cell]:
    """Return the first cells of every data set, for comparisons that cost more."""
    found: dict[str, list[Cell]] = {}
    for cell in asked:
        found.setdefault(cell.dataset, []).append(cell)
    return [cell for cells_of_one in found.values() for cell in cells_of_one[:2]]


def each(jobs: int, work: list) -> None:
    """Run delayed calls side by side, with a progress bar."""
    done = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(work)
    for _ in tqdm(done, total=len(work), unit="cell"):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=[*STEPS, "all"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path, default=Path("benchmarks/results/arena.md"))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--targets", type=int, default=5)
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument(
        "--families", nargs="+", default=list(FAMILIES), choices=[*FAMILIES, *MORE_FAMILIES]
    )
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    losses, results = args.out / "losses", args.out / "results"
    for folder in (losses, results):
        folder.mkdir(parents=True, exist_ok=True)
    steps = STEPS if args.step == "all" else (args.step,)
    asked = [] if steps == ("report",) else cells(args)
    if "losses" in steps:
        missing = [cell for cell in asked if not (losses / cell.name).exists()]
        each(args.jobs, [joblib.delayed(compute)(cell, losses) for cell in missing])
    if "scores" in steps:
        peers = importlib.util.find_spec("skada") is not None
        if not peers:
            print("skada is not installed, so its estimators are left out")
        missing = [
            cell
            for cell in asked
            if (losses / cell.name).exists() and not file_of(cell, results, "scores").exists()
        ]
        each(
            args.jobs,
            [joblib.delayed(scores)(cell, losses, results, peers=peers) for cell in missing],
        )
    first = two_per_data_set(asked)
    if "ratios" in steps:
        missing = [c for c in first if not file_of(c, results, "ratios").exists()]
        each(args.jobs, [joblib.delayed(ratios)(cell, losses, results) for cell in missing])
    if "training" in steps:
        missing = [c for c in first if not file_of(c, results, "training").exists()]
        each(args.jobs, [joblib.delayed(training)(cell, results) for cell in missing])
    gathered(results)
    if "report" in steps:
        write_report(results, args.page)


if __name__ == "__main__":
    main()
