"""Recalibration learned on unseen sites: log loss at hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/recalibration.py --losses FOLDER/losses \
        --seeds 30 31 --out recalibration.csv

For tables of two classes: intercept, Platt's line and an isotonic curve are learned from the
unseen-site answers of all sources (with the shares that sources have in estimates) and applied at
the target, to the ensemble and to the best trial of each family. What sites left out of the
recalibration would have gained decides whether it is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from ensembles import read
from metrics import at_target, predictions_of
from scipy import special
from sklearn.isotonic import IsotonicRegression
from stored_cells import arguments, over_cells

from shiftune.evaluate.site_shares import ROWS_FOR_HALF_SHARE
from shiftune.metrics import METRICS
from shiftune.metrics.calibration import log_odds, recalibration
from shiftune.metrics.predictions import SitePredictions

FAMILIES = ("trees", "kernel", "linear", "forest")
KINDS = ("none", "intercept", "Platt", "isotonic")
# Gain of the sites, in standard errors of its mean, from which it is used.
LEAST_GAINS = (0.0, 1.0, 2.0)
LARGEST = 0.999  # as losses are bounded in the arena
Change = Callable[[np.ndarray], np.ndarray]


def learned(kind: str, y: np.ndarray, p: np.ndarray, w: np.ndarray) -> Change:
    """Return a recalibration of probabilities; none where it has no solution."""
    ones, odds = np.ones(len(y)), log_odds(p)
    if kind == "isotonic":
        curve = IsotonicRegression(y_min=0.001, y_max=LARGEST, out_of_bounds="clip").fit(p, y, w)
        return curve.predict
    if kind == "intercept":
        line = np.append(recalibration(y, ones[:, None], odds, w), 1.0)
    else:
        line = recalibration(y, np.column_stack([ones, odds]), 0 * odds, w)
    if kind == "none" or np.isnan(line).any():
        return lambda q: q
    return lambda q: special.expit(line[0] + line[1] * log_odds(q))


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    """Return the mean log loss, bounded as in the arena."""
    return METRICS["log_loss"](y, np.clip(p, 1 - LARGEST, LARGEST))


def compared(given: SitePredictions, y: np.ndarray, p: np.ndarray) -> list[dict[str, object]]:
    """Return loss at the target and gain at sources left out, for every recalibration."""
    n = np.array([len(own) for own in given.y])
    shares = n / (n + ROWS_FOR_HALF_SHARE)

    def of(kind: str, sites: list[int]) -> Change:
        rows = [np.full(n[j], shares[j] / n[j]) for j in sites]
        labels, answers = ([each[j] for j in sites] for each in (given.y, given.p))
        together = (np.concatenate(each) for each in (labels, answers, rows))
        return learned(kind, *together)

    every, found = list(range(len(n))), []
    plain = np.array([log_loss(given.y[j], given.p[j]) for j in every])
    for kind in KINDS:
        without = [of(kind, [i for i in every if i != j])(given.p[j]) for j in every]
        gains = plain - [log_loss(given.y[j], without[j]) for j in every]
        error = gains.std(ddof=1) / np.sqrt(len(n))
        row = {"kind": kind, "loss": log_loss(y, of(kind, every)(p))}
        found.append(row | {"gain": np.average(gains, weights=shares), "error": error})
    return found


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Compare recalibrations of the ensemble and of single trials."""
    warnings.simplefilter("ignore")
    trials = read(files, dataset, target, seed)
    if trials.classes is None or len(trials.classes) > 2:
        return []
    handed = {}
    for family in FAMILIES:
        own = np.flatnonzero(trials.family == family)
        best = own[np.argmin(trials.losses[own] @ trials.row_shares)]
        handed[family] = trials.answers[best], np.eye(len(trials.family))[best]
    three = trials.first(FAMILIES[:3], 24)
    found, weights = three.candidates(), np.zeros(len(three.family))
    weights[found.numbers] = found.weights()
    rows = []
    for name, (answers, own) in handed.items():
        rows += [
            {"what": name} | row
            for row in compared(predictions_of(trials, answers), *at_target(trials, own))
        ]
    nested = predictions_of(three, found.nested_answers())
    rows += [{"what": "ensemble"} | row for row in compared(nested, *at_target(three, weights))]
    return [{"dataset": dataset, "target": target, "seed": seed} | row for row in rows]


def report(rows: pd.DataFrame) -> pd.DataFrame:
    """Loss over that without recalibration, geometric mean and worst cell; how often it is used."""
    key = ["what", "dataset", "target"]
    wide = {name: rows.pivot_table(name, key, "kind") for name in ("loss", "gain", "error")}
    ratio = wide["loss"].div(wide["loss"]["none"], axis=0).map(np.log)
    found = {kind: ratio[kind] for kind in KINDS[1:]}
    for least in LEAST_GAINS:
        sure = (wide["gain"] > least * wide["error"]) & (wide["gain"] > 0)
        best = wide["gain"].where(sure).fillna(0.0).drop(columns="none")
        chosen = best.idxmax(axis=1).where(best.max(axis=1) > 0, "none")
        values = [ratio.loc[cell, kind] for cell, kind in chosen.items()]
        found[f"auto, {least:g} s.e."] = pd.Series(values, index=ratio.index)
    table = pd.DataFrame(found)
    by = table.groupby("what")
    parts = {
        "ratio": np.exp(by.mean()),
        "worst": np.exp(by.max()),
        "used": (table != 0).groupby("what").mean(),
    }
    return pd.concat(parts, axis=1).T.swaplevel().sort_index()


def main() -> None:
    args = arguments(__doc__).parse_args()
    rows = over_cells(scored, args, FAMILIES)
    rows.to_csv(args.out, index=False, float_format="%.6g")
    for seed, part in rows.groupby("seed"):
        print(f"seed {seed}, {part['dataset'].nunique()} tables")
        print(report(part).round(3).to_string())


if __name__ == "__main__":
    main()
