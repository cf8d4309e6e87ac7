"""Searches by a metric that is no mean over rows, instead of log loss.

    SHIFTUNE_DATA=FOLDER python benchmarks/arena/tuned_metrics.py --losses FOLDER/losses \
        --seeds 30 31 --out tuned_metrics.csv

reads the cells that ``benchmarks/arena losses`` has computed. Members of the ensemble, and the best
single trial, are chosen by log loss and by 1 - metric (`metrics._as_loss`), and compared by
that metric at the hidden target; so is the estimate of the metric with its truth.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from metrics import LEVEL, as_read
from pools import FAMILIES
from stored_cells import arguments, over_cells
from trials import Trials, read

from shiftune._names import SITE_LOSSES
from shiftune.metrics import METRICS, Metric
from shiftune.metrics._as_loss import metric_loss
from shiftune.metrics._new_site import at_site, too_few

BY_LOG_LOSS, BY_METRIC = "log loss", "the metric"


def judged_by(trials: Trials, metric: Metric) -> Trials | None:
    """Return the trials with the loss of a metric, at sites where it has a value."""
    codes = [np.searchsorted(trials.classes, own) for own in trials.y]
    has_value = [not too_few(metric, own, len(trials.classes)) for own in codes]
    if sum(has_value) < 2:
        return None
    rows = np.repeat(has_value, [len(own) for own in trials.y])
    return replace(
        trials,
        predictions=trials.predictions[:, rows],
        y=[own for own, kept in zip(trials.y, has_value, strict=True) if kept],
        X=[own for own, kept in zip(trials.X, has_value, strict=True) if kept],
        loss=metric_loss(metric),
    )


def scored(files: dict[str, Path], dataset: str, target: int, seed: int) -> list[dict[str, object]]:
    """Compare both searches of one problem, for every metric."""
    warnings.simplefilter("ignore")
    trials = read(files, dataset, target, seed).first(FAMILIES, 24)
    if trials.classes is None:
        return []
    rows = []
    by_log_loss = {"ensemble": trials.ensemble()[0], "one trial": trials.best()}
    for metric in (METRICS[name] for name in SITE_LOSSES):
        own = judged_by(trials, metric)
        if own is None:
            continue
        weights, nested = own.ensemble()
        by_metric = {"ensemble": weights, "one trial": own.best()}
        estimate = own.fitted.estimate(own.by_site(own.losses_of(nested)))
        low, high = estimate.interval(LEVEL)
        for by, chosen in ((BY_LOG_LOSS, by_log_loss), (BY_METRIC, by_metric)):
            for final, weights in chosen.items():
                labelled = as_read(trials, trials.y_target, trials.at_target(weights))
                truth = at_site(metric, "", *labelled).value
                row = {"dataset": dataset, "target": target, "seed": seed, "metric": metric.name}
                row |= {"final": final, "by": by, "truth": truth}
                if (final, by) == ("ensemble", BY_METRIC):
                    row |= {"estimate": 1 - estimate.value, "low": 1 - high, "high": 1 - low}
                rows.append(row)
    return rows


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean gain of searches by the metric over those by log loss, over tables."""
    wide = rows.pivot_table(
        index=["metric", "final", "dataset", "target"], columns="by", values="truth"
    )
    gain = (wide[BY_METRIC] - wide[BY_LOG_LOSS]).groupby(["metric", "final", "dataset"]).mean()
    by = gain.groupby(["metric", "final"])
    found = pd.DataFrame({"gain": by.mean(), "standard error": by.sem(), "worst": by.min()})
    return found.assign(best=by.max(), tables=by.size())


def main() -> None:
    args = arguments(__doc__).parse_args()
    rows = over_cells(scored, args, FAMILIES)
    rows.to_csv(args.out, index=False, float_format="%.6g")
    for seed, part in rows.groupby("seed"):
        print(f"seed {seed}, {part['dataset'].nunique()} tables")
        print(compared(part).round(4).to_string())
        known = part.dropna(subset="estimate")
        covered = known["truth"].between(known["low"], known["high"]).groupby(known["metric"])
        error = (known["estimate"] - known["truth"]).abs().groupby(known["metric"]).median()
        print(pd.DataFrame({"covered": covered.mean(), "median error": error}).round(3))


if __name__ == "__main__":
    main()
