"""Should models be trained on weighted rows? The same pools, trained with three kinds of them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from balanced import BalancedRatio
from cells import Cell, losses_of, predictions_of, split_rows
from evaluate import file_of
from pools import pool
from problems import problem
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from shiftune.evaluate._fits import fit
from shiftune.risk import RegressionAdjusted, estimate

# Powers of the density ratio of the target to the mixture of the sources.
WEIGHTS = {"none": 0.0, "tempered": 0.5, "importance": 1.0}


def training(cell: Cell, out: Path) -> None:
    """Train a cell's pool with each kind of weights, choose, and write the target losses."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = problem(cell.dataset, cell.target, cell.seed)
        site, train = split_rows(p, np.random.default_rng([cell.seed, 1]))
        X, y = np.concatenate(p.X), np.concatenate(p.y)
        classes = None if p.task == "regression" else np.unique(y)
        sources = range(len(p.X))
        ratio = BalancedRatio().fit(p.X_target, [X[(site == j) & train] for j in sources])
        w = ratio.weights([X[train]])[0]
        judged = [X[(site == j) & ~train] for j in sources]
        adjusted = RegressionAdjusted().fit(p.X_target, judged)
        rows = []
        for name, power in WEIGHTS.items():
            relative = w**power / np.mean(w**power) if np.any(w**power) else np.ones(len(w))
            truth, estimates = [], {"naive": [], "adjusted, known sites only": []}
            for model in pool(cell.family, p.task, X.shape[1], cell.size, cell.seed):
                weights = None if power == 0 else relative
                fitted = fit(clone(model), X[train], y[train], weights)
                own = losses_of(predictions_of(fitted, p.X_target, classes), p.y_target, classes)
                truth.append(own.mean())
                losses = losses_of(predictions_of(fitted, X[~train], classes), y[~train], classes)
                by_site = [losses[site[~train] == j] for j in sources]
                estimates["naive"].append(estimate(by_site, method="naive").value)
                estimates["adjusted, known sites only"].append(adjusted.estimate(by_site).value)
            rows += [
                {
                    "dataset": cell.dataset,
                    "kind": p.kind,
                    "target": p.target,
                    "family": cell.family,
                    "seed": cell.seed,
                    "weights": name,
                    "chosen_by": estimator,
                    "loss": truth[int(np.argmin(values))],
                    "best": min(truth),
                }
                for estimator, values in estimates.items()
            ]
        pd.DataFrame(rows).to_csv(file_of(cell, out, "training"), index=False)
