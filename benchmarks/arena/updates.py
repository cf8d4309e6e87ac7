"""A few labels of the target update the ensemble: losses at hidden targets.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/updates.py --losses FOLDER/losses --seeds 31 \
        --out updates.csv

reads the cells that ``benchmarks/arena losses`` has computed, makes the ensemble of three families
by the package's own code, labels rows of the target at random, and writes the loss on its other
rows with and without the update, the estimated risk of the updated predictor with its interval,
and what the sources promised.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from pools import FAMILIES
from regret import mean
from stored_cells import arguments, over_cells
from trials import LABELS, LOSSES, MOST_LABELLED, Trials, naive, read

from shiftune.effects import SiteEffects
from shiftune.effects._site_effects import strength, to_scale
from shiftune.risk._adjusted import combined

REPEATS = 5


def ensemble_effects(trials: Trials) -> tuple[Trials, SiteEffects, np.ndarray]:
    """Return the ensemble's trials, the sources' effects, and its predictions at the target."""
    trials = trials.first(FAMILIES, 24)
    weights, nested = trials.ensemble()
    predictions, loss = trials.by_site(nested), LOSSES[trials.task]
    effects = SiteEffects(predictions, trials.X, trials.y, loss, trials.classes)
    return trials, effects, trials.at_target(weights)


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Score one problem with every number of labels."""
    warnings.simplefilter("ignore")
    trials, effects, at_target = ensemble_effects(read(files, dataset, target, seed))
    plain = effects.loss(trials.y_target, at_target, trials.classes)
    relative = naive(trials.first(["trees"], 24)) / plain.mean()
    rows = []
    for m in (0, *LABELS):
        if m > MOST_LABELLED * len(plain):
            continue
        worth = trials.fitted.estimate(effects.source_losses(0)).minus(
            trials.fitted.estimate(effects.source_losses(m))
        )
        promised = dict(zip(("promised_low", "promised_high"), worth.interval(0.9), strict=True))
        promised["promised"] = worth.value
        for repeat in range(REPEATS if m else 1):
            rng = np.random.default_rng([seed, target, m, repeat])
            row = {
                "seed": seed,
                "dataset": dataset,
                "target": target,
                "labels": m,
                "repeat": repeat,
            }
            row |= updated(trials, effects, at_target, rng.permutation(len(plain)), m)
            if m:
                spread = updated(trials, effects, at_target, systematic(at_target, m, rng), m)
                row["systematic"] = spread["with"] / spread["without"]
            row["naive"] = relative * row["without"]
            row |= promised
            rows.append(row)
    return rows


def systematic(at_target: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Order the rows so that the first m are spread evenly over the predictions."""
    by_prediction = np.argsort(strength(to_scale(at_target)), kind="stable")
    places = ((np.arange(m) + rng.random()) / m * len(by_prediction)).astype(np.intp)
    return np.concatenate([by_prediction[places], np.delete(by_prediction, places)])


def updated(
    trials: Trials, effects: SiteEffects, at_target: np.ndarray, order: np.ndarray, m: int
) -> dict[str, float]:
    """Update with the first m rows; score on the others."""
    own, others = order[:m], order[m:]
    rest = effects.role(trials.X_target[others], at_target[others], trials.y_target[others])
    without = float(effects.row_losses(rest.y, rest.scaled).mean())
    if not m:
        risk, with_labels = trials.fitted.estimate(effects.source_losses(0)), without
    else:
        update = effects.update(trials.X_target[own], at_target[own], trials.y_target[own])
        scaled = rest.scaled + rest.Z @ update.effect.T
        with_labels = float(effects.row_losses(rest.y, scaled, update.limits).mean())
        of_sources = trials.fitted.estimate(update.source_losses)
        both = trials.fitted.estimate([*update.source_losses, update.own_losses])
        risk = combined(both, of_sources)
    low, high = risk.interval(0.9)
    return {
        "without": without,
        "with": with_labels,
        "estimate": risk.value,
        "low": low,
        "high": high,
        "updates": effects.spread(m).intercept if m else 0.0,
    }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return percent by number of labels: means over cells, then tables, bootstrapped."""
    found = {}
    for m, part in rows.groupby("labels"):
        by = part.groupby("dataset")
        percent = 100 * (part["with"] / part["naive"] - 1)
        against = 100 * (part["with"] / part["without"] - 1)
        means = percent.groupby(part["dataset"]).mean()
        changes = against.groupby(part["dataset"]).mean()
        against_naive = mean(means)
        covers = part["with"].between(part["low"], part["high"])
        found[m] = {
            "tables": by.ngroups,
            "%": against_naive.value,
            "low": against_naive.low,
            "high": against_naive.high,
            "worst": means.max(),
            "% of no labels": changes.mean(),
            "worst of no labels": changes.max(),
            "its table": changes.idxmax(),
            "systematic": 100
            * (part["systematic"] * part["without"] / part["with"] - 1)
            .groupby(part["dataset"])
            .mean()
            .mean(),
            "covered": covers.groupby(part["dataset"]).mean().mean(),
            "estimate / truth": (part["estimate"] / part["with"]).median(),
            "promise kept": (
                (part["without"] - part["with"]).between(
                    part["promised_low"], part["promised_high"]
                )
            ).mean(),
            "half width": ((part["high"] - part["low"]) / 2 / part["with"]).median(),
        }
    return pd.DataFrame(found).T


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--kind", choices=["real", "generated"], default="real")
    args = parser.parse_args()
    rows = over_cells(scored, args, FAMILIES, kind=args.kind)
    rows.to_csv(args.out, index=False, float_format="%.6g")
    for seed, part in rows.groupby("seed"):
        print(f"seed {seed}")
        print(summary(part).round(2).to_string())


if __name__ == "__main__":
    main()
