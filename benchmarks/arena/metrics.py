"""Metrics at hidden targets: error of the estimates, coverage of their intervals.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/metrics.py --losses FOLDER/losses \
        --seeds 30 31 --out metrics.csv

reads the cells that ``benchmarks/arena losses`` has computed, makes the ensemble of three families
by the package's own code, and compares estimates of all metrics with those of the ensemble on the
rows of the target: the package's, which linearises a metric on its scale and adjusts it to the
target's rows; the same without adjustment, and without the scale; and what plain validation
promises, validation rows of known sites put together. The first seed decides, the second judges.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from pools import FAMILIES
from stored_cells import arguments, over_cells
from trials import LOSSES, Trials, read

from shiftune.evaluate._fits import StudyData
from shiftune.metrics import METRICS, Metric
from shiftune.metrics._metric import SCALES, SitePredictions
from shiftune.metrics._new_site import NewSite, at_site
from shiftune.risk import RegressionAdjusted

LEVEL = 0.9
PACKAGE, PLAIN = "adjusted on the scale", "mean of the sites on the scale"
# Of the columns' share in the variance of losses: nothing is adjusted.
NOTHING = 1e-9


def site_predictions(trials: Trials, predictions: np.ndarray) -> SitePredictions:
    """Return out-of-site predictions of all rows as the package reads them."""
    X, y = np.concatenate(trials.X), np.concatenate(trials.y)
    site = np.repeat(np.arange(len(trials.y)), [len(own) for own in trials.y])
    data = StudyData(
        X_train=X,
        y_train=y,
        train_folds=site,
        training_weights=None,
        X_validation=X,
        y_validation=tuple(trials.y),
        folds=site,
        weights=None,
        names=tuple(map(str, range(len(trials.y)))),
        classes=trials.classes,
    )
    return SitePredictions.of(predictions, data, LOSSES[trials.task])


def as_read(
    trials: Trials, y: np.ndarray, predictions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and predictions of some rows as metrics read them."""
    if trials.classes is None:
        return y, predictions
    p = predictions / predictions.sum(axis=1, keepdims=True)
    return np.searchsorted(trials.classes, y), p[:, 1] if p.shape[1] == 2 else p


Rule = Callable[[Metric], tuple[float, float, float]]


def rules_of(trials: Trials, weights: np.ndarray, nested: np.ndarray) -> dict[str, Rule]:
    """Return the estimates that are compared, each with its interval."""
    predictions = site_predictions(trials, nested)

    def by(new_site: NewSite, change: Callable[[Metric], Metric] = lambda m: m) -> Rule:
        def rule(metric: Metric) -> tuple[float, float, float]:
            found = new_site.estimate(change(metric))
            return found.value, found.low, found.high

        return rule

    def pooled(metric: Metric) -> tuple[float, float, float]:
        known = np.tensordot(weights, trials.pooled_predictions, axes=1)
        site = at_site(metric, "", *as_read(trials, trials.y_pooled, known))
        half = 1.645 * site.stderr
        return site.value, site.value - half, site.value + half

    X = trials.X_target
    nothing = RegressionAdjusted(prior_r2=NOTHING).fit(X, trials.X)
    adjusted = NewSite(predictions, X, trials.fitted, level=LEVEL)
    plain = NewSite(predictions, X, nothing, level=LEVEL)
    return {
        PACKAGE: by(adjusted),
        "adjusted, as it is": by(adjusted, lambda m: replace(m, scale="identity")),
        PLAIN: by(plain),
        "mean of the sites, as it is": by(plain, lambda m: replace(m, scale="identity")),
        "validation rows of known sites": pooled,
    }


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Estimate all metrics of one problem by all rules."""
    warnings.simplefilter("ignore")
    trials = read(files, dataset, target, seed).first(FAMILIES, 24)
    weights, nested = trials.ensemble()
    y, p = as_read(trials, trials.y_target, trials.at_target(weights))
    rules = rules_of(trials, weights, nested)
    rows: list[dict[str, object]] = []
    for metric in METRICS.values():
        if metric.task != trials.task or (metric.two_classes and p.ndim > 1):
            continue
        truth = at_site(metric, "", y, p)
        if not np.isfinite(truth.value) or metric.name == "coverage":
            continue
        scale = SCALES[metric.scale]
        inside = scale.inside(np.array([truth.value]), np.array([truth.resolution]))[0]
        for name, rule in rules.items():
            value, low, high = rule(metric)
            row = {"dataset": dataset, "target": target, "seed": seed, "sources": len(trials.y)}
            row |= {"metric": metric.name, "rule": name, "truth": truth.value, "inside": inside}
            rows.append(row | {"estimate": value, "low": low, "high": high})
    return rows


# ---------------------------------------------------------------- tables


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Add error, coverage and interval score (Gneiting and Raftery 2007)."""
    low, high, truth = rows["low"], rows["high"], rows["inside"]
    missed = (low - truth).clip(lower=0) + (truth - high).clip(lower=0)
    return rows.assign(
        error=(rows["estimate"] - rows["truth"]).abs(),
        # A target without a single error is covered by an interval that ends half a row off.
        covered=truth.between(low, high),
        score=high - low + 2 / (1 - LEVEL) * missed,
    ).dropna(subset="estimate")


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over the cells of a table, then over tables, for every metric and rule.

    Median and 95th percentile of the error are over all cells.
    """
    by = ["metric", "rule"]
    means = rows.groupby([*by, "dataset"])[["error", "covered", "score"]].mean()
    cells = rows.groupby(by)["error"]
    found = (
        means.groupby(level=[0, 1])
        .mean()
        .assign(median=cells.median(), p95=cells.quantile(0.95), cells=cells.size())
    )
    order = [(m, r) for m in METRICS for r in dict.fromkeys(rows["rule"]) if (m, r) in found.index]
    return found.loc[order]


def against_plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Error and score of every rule over those of plain means, geometric means over metrics."""
    found = summary(rows)[["error", "score"]]
    logs = np.log(found / found.xs(PLAIN, level="rule"))
    covered = summary(rows)["covered"].groupby("rule").mean()
    return pd.DataFrame(np.exp(pd.DataFrame(logs).groupby("rule").mean())).assign(covered=covered)


def main() -> None:
    args = arguments(__doc__).parse_args()
    rows = over_cells(scored, args, FAMILIES)
    rows.to_csv(args.out, index=False, float_format="%.6g")
    for seed, part in measured(rows).groupby("seed"):
        print(f"seed {seed}, {part['dataset'].nunique()} tables")
        print(against_plain(part).round(3).to_string())
        print(summary(part).round(3).to_string())


if __name__ == "__main__":
    main()
