"""Command line of scripts that score every stored cell of some families."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from tqdm import tqdm
from trials import cells_in

CELL = ["seed", "dataset", "target"]


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Return a parser of --losses, --seeds, --jobs and --out."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def over_cells(
    scored: Callable[..., Iterable[dict[str, Any]]],
    args: argparse.Namespace,
    families: Sequence[str],
    *others: Any,
    kind: str = "real",
) -> pd.DataFrame:
    """Return the rows of all cells, in order.

    Parameters
    ----------
    scored : function
        Of the files of a cell, its data set, target and seed, and `others`.
    args : of `arguments`
    families : names
        A cell counts where every family has been computed.
    kind : "real" or "generated"
    """
    work = [
        joblib.delayed(scored)(files, *key, seed, *others)
        for seed in args.seeds
        for key, files in cells_in(args.losses, seed, families, kind).items()
    ]
    done = joblib.Parallel(n_jobs=args.jobs, return_as="generator_unordered")(work)
    rows = pd.DataFrame([row for cell in tqdm(done, total=len(work), unit="cell") for row in cell])
    return rows.sort_values(CELL, kind="stable", ignore_index=True)
