"""The arena: which estimator chooses best for sites whose labels are hidden.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena losses --out FOLDER [--seeds 4] [--jobs 2]

Computes the losses of all cells; those that the folder has are not computed again, so it can be
stopped and resumed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import joblib
from cells import Cell, compute
from pools import FAMILIES
from problems import GENERATED, real_datasets, targets
from tqdm import tqdm


def cells(args: argparse.Namespace) -> list[Cell]:
    """List the cells, seed by seed, so that what is finished first is balanced."""
    return [
        Cell(name, target, family, seed, args.size)
        for seed in range(args.first_seed, args.seeds)
        for name in args.datasets or [*real_datasets(), *GENERATED]
        for family in (["constant"] if name.startswith("toy") else args.families)
        for target in targets(name, args.targets, seed)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["losses"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--targets", type=int, default=5)
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    asked = cells(args)
    missing = [cell for cell in asked if not (args.out / cell.name).exists()]
    done = joblib.Parallel(n_jobs=args.jobs, return_as="generator_unordered", batch_size=1)(
        joblib.delayed(compute)(cell, args.out) for cell in missing
    )
    for _ in tqdm(done, total=len(missing), unit="cell"):
        pass


if __name__ == "__main__":
    main()
