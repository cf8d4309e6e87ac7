"""Intervals and sets that hold at a new site: their coverage at hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/conformal.py --losses FOLDER/losses --seeds 31 \
        --out conformal.csv

reads the cells that ``benchmarks/arena losses`` has computed, makes the ensemble of three families
by the package's own code, and calibrates intervals (sets of classes) on the rows of the sources,
each predicted by members trained without the row's site. Rows of the target, whose labels nobody
has seen, show the coverage. For comparison: the quantile of all rows together, as if each row were
drawn by itself.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from pools import FAMILIES
from stored_cells import arguments, over_cells
from trials import read

from shiftune.predictor._conformal import SiteScores, class_sets, row_scores

LEVELS = (0.5, 0.8, 0.9)


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Score one problem at every level that its number of sites allows."""
    warnings.simplefilter("ignore")
    trials = read(files, dataset, target, seed).first(FAMILIES, 24)
    weights, nested = trials.ensemble()
    at_target = trials.at_target(weights)
    pairs = zip(trials.y, trials.by_site(nested), strict=True)
    sites = [row_scores(y, predicted, trials.classes) for y, predicted in pairs]
    new = row_scores(trials.y_target, at_target, trials.classes)
    if trials.classes is not None:  # the likeliest class is always in the set
        new[at_target.argmax(axis=1) == np.searchsorted(trials.classes, trials.y_target)] = 0.0
    scores, pooled = SiteScores.of(sites), np.concatenate(sites)
    rows = []
    for level in LEVELS:
        if level > scores.highest_level:
            continue
        q, q_pooled = scores.quantile(level), float(np.quantile(pooled, level))
        row = {
            "seed": seed,
            "dataset": dataset,
            "target": target,
            "sites": len(sites),
            "level": level,
        }
        row |= {"classes": trials.classes is not None, "rows": len(new)}
        row |= {"covered": np.mean(new <= q), "covered_pooled": np.mean(new <= q_pooled)}
        if trials.classes is None:
            row["size"] = q / float(np.mean(new))
        else:
            row["size"] = class_sets(at_target, q).sum(axis=1).mean()
        rows.append(row)
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean coverage by data set, then over data sets, with its standard error."""
    by_set = rows.groupby(["classes", "level", "dataset"])[["covered", "covered_pooled"]].mean()
    found = by_set.groupby(["classes", "level"]).agg(["mean", "sem", "min"])
    found["datasets"] = by_set.groupby(["classes", "level"]).size()
    found["targets"] = rows.groupby(["classes", "level"]).size()
    return found


def main() -> None:
    args = arguments(__doc__).parse_args()
    rows = over_cells(scored, args, FAMILIES)
    rows.to_csv(args.out, index=False, float_format="%.6g")
    for seed, part in rows.groupby("seed"):
        print(f"seed {seed}")
        print(summary(part).round(3).to_string())


if __name__ == "__main__":
    main()
