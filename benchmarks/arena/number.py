"""Peers for the number: estimates of the loss at hidden targets, against the default's.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/number.py --losses FOLDER/losses \
        --seeds 30 31 --out FOLDER/number

reads the cells that ``benchmarks/arena losses`` has computed and estimates the loss at the target
of what could be the final model (the chosen trial of each family, the ensemble).
The first seed decides, the others judge. The estimates are kept in ``number.csv`` and read from
it if it is there; so are the rows of the ensembles of regression tables, in ``rows``, for NannyML,
which has an environment of its own (`nannyml_dle.py` writes ``nannyml.csv``).

All estimates read the predictions of models that do not know the site, at all rows of the sources:

- *DLE*: boosted trees regress the loss on the columns and the prediction; mean over the target's
  rows.
- *CBPE*: probabilities of the classes, calibrated (isotonic, one class against the others); mean
  of the expected loss over the target's rows.
- *DoC*: mean loss plus the difference of the expected loss by the model's own probabilities
  (*entropy*), or by a regression of the sites' losses on their mean confidence (*confidence*).
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from pools import FAMILIES
from regret import mean, resampled
from sklearn.isotonic import IsotonicRegression
from stored_cells import arguments, over_cells
from trials import Trials, handed_over, read

# Losses of classes are at most those of this chance (`cells.losses_of`).
SMALLEST_CHANCE = 1e-3
# Sites from which the slope of the loss on the confidence is estimated.
FEWEST_SITES = 5
DEFAULT, MEAN = "default", "mean of the sites"
CELL = ["dataset", "target", "seed", "kind", "family"]


# ---------------------------------------------------------------- estimates


def estimates(trials: Trials, predictions: np.ndarray, at_target: np.ndarray) -> dict[str, float]:
    """Return all estimates of the loss at the target."""
    losses = trials.losses_of(predictions)
    risk = trials.fitted.estimate(trials.by_site(losses))
    found = {
        DEFAULT: risk.value,
        MEAN: risk.criterion,
        "DLE": dle(trials, predictions, losses, at_target),
    }
    if trials.classes is not None:
        found["CBPE"] = cbpe(trials, predictions, at_target)
        own, there = (expected(P, P) for P in (predictions, at_target))
        found["DoC, entropy"] = risk.criterion + float(there.mean() - trials.row_shares @ own)
        found["DoC, confidence"] = doc(trials, predictions, losses, at_target)
    return found


def dle(
    trials: Trials, predictions: np.ndarray, losses: np.ndarray, at_target: np.ndarray
) -> float:
    """Mean over the target's rows of a boosted regression of the loss."""
    rows, there = (
        np.column_stack([X, own])
        for X, own in ((np.concatenate(trials.X), predictions), (trials.X_target, at_target))
    )
    model = LGBMRegressor(n_jobs=1, verbose=-1, random_state=0).fit(rows, losses)
    return float(model.predict(there).mean())


def cbpe(trials: Trials, predictions: np.ndarray, at_target: np.ndarray) -> float:
    """Mean expected loss at the target by probabilities calibrated on unseen sites."""
    y, classes = np.concatenate(trials.y), trials.classes
    calibrated = np.column_stack(
        [
            IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            .fit(predictions[:, c], y == each)
            .predict(at_target[:, c])
            for c, each in enumerate(classes)
        ]
    )
    total = calibrated.sum(axis=1, keepdims=True)
    calibrated = np.where(total > 0, calibrated / np.maximum(total, 1e-12), at_target)
    return float(expected(calibrated, at_target).mean())


def doc(
    trials: Trials, predictions: np.ndarray, losses: np.ndarray, at_target: np.ndarray
) -> float:
    """Loss at the target's mean confidence, by a line through the sites' losses."""
    if len(trials.y) < FEWEST_SITES:
        return float(np.nan)
    confidence = [own.mean() for own in trials.by_site(predictions.max(axis=1))]
    means = [own.mean() for own in trials.by_site(losses)]
    shares = [own.sum() for own in trials.by_site(trials.row_shares)]
    slope, at_zero = np.polyfit(confidence, means, 1, w=np.sqrt(shares))
    return float(at_zero + slope * at_target.max(axis=1).mean())


def expected(chances: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Return the expected log loss of predictions (n, C) if classes have these chances, (n,)."""
    return -np.sum(chances * np.log(np.clip(predictions, SMALLEST_CHANCE, 1.0)), axis=1)


def estimated(
    files: dict[str, Path], dataset: str, target: int, seed: int, rows: Path
) -> list[dict[str, object]]:
    """Return the estimates for every possible final model of one problem; keep NannyML's rows."""
    warnings.simplefilter("ignore")
    trials = read(files, dataset, target, seed).first(FAMILIES, 24)
    found = []
    for kind, family, predictions, weights in handed_over(trials):
        at_target = trials.at_target(weights)
        row = {"dataset": dataset, "target": target, "seed": seed, "kind": kind, "family": family}
        row |= {"task": trials.task, "truth": trials.target_loss(weights)}
        found.append(row | estimates(trials, predictions, at_target))
        if kind == "ensemble" and trials.classes is None:
            np.savez_compressed(
                rows / f"{dataset}-{target}-{seed}.npz",
                X=np.concatenate(trials.X),
                predictions=predictions,
                y=np.concatenate(trials.y),
                X_target=trials.X_target,
                predictions_target=at_target,
            )
    return found


# ---------------------------------------------------------------- tables


def with_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Add means of the default and its peers; where a peer is not defined the others count."""
    peers = ([MEAN], ["DLE"], ["CBPE"], ["DoC, entropy"], ["DLE", "CBPE"])
    means = {
        f"mean of default and {' and '.join(names)}": rows[[DEFAULT, *names]]
        .mean(axis=1)
        .where(rows[names].notna().any(axis=1))
        for names in peers
    }
    return rows.assign(**means)


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return |estimate - truth| / truth, means over the cells of a table, (tables, estimators)."""
    known = [*CELL, "task", "truth"]
    wide = with_means(rows).set_index(known)
    truth = wide.index.get_level_values("truth").to_numpy()
    error = wide.sub(truth, axis=0).abs().div(truth, axis=0)
    return error.groupby(level="dataset").mean()


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Median and mean over tables, and the difference to the default's, with intervals."""
    table = {}
    for name in found:
        own = found[[name, DEFAULT]].loc[:, lambda f: ~f.columns.duplicated()].dropna()
        if own.empty:
            continue
        apart = mean(own[name] - own[DEFAULT])
        drawn = resampled(len(own))
        medians = np.median(own[name].to_numpy()[drawn], axis=1) - np.median(
            own[DEFAULT].to_numpy()[drawn], axis=1
        )
        table[name] = {
            "tables": len(own),
            "median": own[name].median(),
            "mean": own[name].mean(),
            "default's": own[DEFAULT].mean(),
            "mean less default's": apart.value,
            "low": apart.low,
            "high": apart.high,
            "median less default's": own[name].median() - own[DEFAULT].median(),
            "median low": np.quantile(medians, 0.05),
            "median high": np.quantile(medians, 0.95),
            "better on": (own[name] < own[DEFAULT]).mean(),
        }
    return pd.DataFrame(table).T


def main() -> None:
    args = arguments(__doc__).parse_args()
    file, kept, nannyml = (args.out / name for name in ("number.csv", "rows", "nannyml.csv"))
    if not file.exists():
        kept.mkdir(parents=True, exist_ok=True)
        over_cells(estimated, args, FAMILIES, kept).to_csv(file, index=False, float_format="%.6g")
    rows = pd.read_csv(file).fillna({"family": ""})
    if nannyml.exists():
        own = pd.read_csv(nannyml).assign(kind="ensemble")
        rows = rows.merge(own, how="left", on=["dataset", "target", "seed", "kind"])
    for (kind, seed), part in rows.groupby(["kind", "seed"]):
        for task in ("all", *part["task"].unique()):
            own = part if task == "all" else part[part["task"] == task]
            print(f"{kind}, seed {seed}, {task}")
            print(summary(errors(own)).round(3).to_string())


if __name__ == "__main__":
    main()
