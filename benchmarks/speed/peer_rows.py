"""Row of the table about packages that have an environment of their own."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.speed import peers as script
from benchmarks.speed.data_rows import arrays
from benchmarks.speed.measure import Figures, cpu
from benchmarks.speed.search_rows import folds_of, model, search_of

from shiftune import ShiftProblem
from shiftune.risk import RegressionAdjusted


def peers(quick: bool, python: Path | None = None) -> Figures:
    """A search against OptunaSearchCV with the same folds; FLAML at equal time; skada's scorers."""
    against = "OptunaSearchCV, as many trials on the same folds"
    if python is None:
        return Figures(None, against, details={"left out": "no --peers"})
    rows, trials = (100, 3) if quick else (1000, 20)
    given = arrays(11, rows, 10)
    own, others = given["groups"] == 0, given["groups"] != 0
    X, y, site = (given[name][others] for name in ("X", "y", "groups"))
    target, hidden = given["X"][own], given["y"][own]
    problem = ShiftProblem.from_arrays(X, y, site, target)
    search = search_of(trials)
    search_of(2).fit(problem)  # imports and first touches of memory
    start = time.perf_counter()
    spent = cpu(lambda: search.fit(problem))
    wall = time.perf_counter() - start
    best = model().set_params(**search.best_params_).fit(X, y)
    loss = script.log_loss(hidden, best.predict_proba(target)[:, 1])
    data = search.result_.context.data
    folds = folds_of(data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.npz")
        parts = {f"train{i}": train for i, (train, _) in enumerate(folds)}
        parts |= {f"test{i}": test for i, (_, test) in enumerate(folds)}
        sites = np.repeat(problem.names, [len(each) for each in problem.sources])
        np.savez(
            path, X=data.X_train, y=data.y_train, site=sites, X_target=target, y_target=hidden,
            folds=len(folds), trials=trials, seconds=spent, wall=wall, **parts,
        )  # fmt: skip
        done = subprocess.run(
            [python, script.__file__, path], capture_output=True, text=True, check=True
        )
    found = json.loads(done.stdout.strip().splitlines()[-1])
    adjusted, sources = RegressionAdjusted(), [each.X for each in problem.sources]
    losses = [np.random.default_rng(0).exponential(size=len(each)) for each in problem.sources]
    fit = cpu(lambda: adjusted.fit(target, sources))
    estimate = cpu(lambda: [adjusted.estimate(losses) for _ in range(20)]) / 20
    theirs = found["optuna_search"]
    return Figures(
        spent / theirs["seconds"] if "seconds" in theirs else None,
        against,
        details={
            "seconds": spent,
            "log loss at the hidden target": loss,
            "seconds of an estimate": estimate,
            "seconds of fitting the estimator, once per search": fit,
            **found,
        },
    )


ROWS = (peers,)
