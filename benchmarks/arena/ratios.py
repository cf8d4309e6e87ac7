"""Which density ratio? The estimators that need one, with each."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from balanced import BalancedRatio, self_normalised
from cells import Cell
from estimators import judged_by
from evaluate import about, file_of, scored
from problems import problem
from threadpoolctl import threadpool_limits
from view import View

from shiftune.ratio import ratio_named
from shiftune.risk import estimate

NAMES = ("ulsif", "logistic")


def ratios(cell: Cell, folder: Path, out: Path) -> None:
    """Score VR and balanced weights with every ratio on a cell's losses."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = dict(np.load(folder / cell.name))
        truth = arrays.pop("target").astype(float).mean(axis=1)
        p = problem(cell.dataset, cell.target, cell.seed)
        view = View(p, arrays)
        X, sources = view.pooled.X, view.training_X
        losses = [view.pooled.by_site(row) for row in view.pooled.L]
        found = {"naive": judged_by(estimate(own, method="naive") for own in losses)}
        for name in NAMES:
            ratio = ratio_named(name).fit(p.X_target, sources)
            own_weights = ratio.weights(X)
            found[f"VR, {name}"] = judged_by(
                estimate(own, own_weights, "variance_reduced") for own in losses
            )
            balanced = BalancedRatio(ratio_named(name)).fit(p.X_target, sources)
            w = balanced.weights(X)
            if np.concatenate(w).any():
                found[f"balanced, {name}"] = judged_by(self_normalised(own, w) for own in losses)
        rows = [
            about(cell, p)
            | {"estimator": name, "group": "ratios", "fits": 0}
            | scored(judged, truth)
            for name, judged in found.items()
        ]
        pd.DataFrame(rows).to_csv(file_of(cell, out, "ratios"), index=False)
