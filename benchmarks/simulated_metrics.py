"""AUC and calibration slope at a new site, from ten simulated sources of 200 rows.

    python benchmarks/simulated_metrics.py [--runs 40]

A logistic model whose sites differ in their columns and, with a spread above 0, in their level. The
truth comes from 20,000 rows of the target. Printed are the bias of `metrics_`, the width of its
95 % intervals and their coverage.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from shiftune import ShiftProblem, ShiftSearch

SOURCES, ROWS, COLUMNS, NEW_ROWS = 10, 200, 5, 20_000
METRICS = ["auc", "calibration_slope"]


def run(seed: int, spread: float) -> list[tuple[object, ...]]:
    """Return spread, metric, truth, estimate and interval of one problem."""
    rng = np.random.default_rng([seed, int(10 * spread)])
    slopes = rng.normal(0, 0.6, COLUMNS)
    means = rng.normal(0, 0.4, (SOURCES + 1, COLUMNS))
    levels = rng.normal(0, spread, SOURCES + 1) - 0.5

    def rows(site: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = means[site] + rng.normal(size=(n, COLUMNS))
        return X, (rng.random(n) < expit(levels[site] + X @ slopes)).astype(int)

    (target, _), *sources = [rows(site, ROWS) for site in range(SOURCES + 1)]
    problem = ShiftProblem.from_arrays(
        np.concatenate([X for X, _ in sources]),
        np.concatenate([y for _, y in sources]),
        np.repeat([f"s{j}" for j in range(SOURCES)], ROWS),
        target,
    )
    space = {"C": [0.1, 1.0, 10.0]}
    search = ShiftSearch(LogisticRegression(), space, n_trials=3, metrics=METRICS, progress=False)
    found = search.fit(problem).metrics_
    X, y = rows(0, NEW_ROWS)
    chances = search.predict_proba(X)[:, 1]
    line = LogisticRegression(C=1e9).fit(logit(chances)[:, None], y)
    truth = {"auc": roc_auc_score(y, chances), "calibration_slope": float(line.coef_[0, 0])}
    columns = ["estimate", "low", "high"]
    return [(spread, name, truth[name], *found.loc[name, columns]) for name in METRICS]


def main() -> None:
    """Print bias, width and coverage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    rows = [row for seed in range(runs) for spread in (0.0, 0.3) for row in run(seed, spread)]
    table = pd.DataFrame(rows, columns=["spread", "metric", "truth", "estimate", "low", "high"])
    table["bias"], table["width"] = table["estimate"] - table["truth"], table["high"] - table["low"]
    table["covered"] = table["truth"].between(table["low"], table["high"])
    by = table.groupby(["metric", "spread"])
    print(by[["bias", "width", "covered"]].mean().assign(error=by["bias"].sem()).round(3))


if __name__ == "__main__":
    main()
