"""Rows of the table about searches: overhead, growth, proposals, workers, density ratios."""

from __future__ import annotations

import time
from typing import Any

import lightgbm
import numpy as np
import optuna
from benchmarks.core import LAMBDAS, SIGMAS, shift
from benchmarks.speed.data_rows import SPACE, arrays
from benchmarks.speed.measure import Figures, Growth, cpu, rounded
from densratio import densratio
from optuna.distributions import FloatDistribution
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from shiftune import ShiftProblem, ShiftSearch
from shiftune.evaluate import StudyData
from shiftune.ratio import ULSIF
from shiftune.search import GPLCBSampler

Folds = list[tuple[np.ndarray, np.ndarray]]


def model(trees: int = 100) -> lightgbm.LGBMClassifier:
    return lightgbm.LGBMClassifier(n_estimators=trees, n_jobs=1, verbose=-1, random_state=0)


def search_of(n_trials: int, trees: int = 100, **options: Any) -> ShiftSearch:
    """Return a search without the final fits, which nobody else is asked for."""
    given = {"n_trials": n_trials, "random_state": 0, "progress": False, "final": "best"}
    return Unfitted(model(trees), SPACE, **given | options)


class Unfitted(ShiftSearch):
    def _refitted(self, problem: ShiftProblem) -> Any:
        return clone(self.estimator)


def folds_of(data: StudyData) -> Folds:
    """Return the folds of a trial as indices of the sources' rows, for scikit-learn."""
    folds = range(data.folds.max() + 1)
    return [(np.flatnonzero(data.trains(f)), np.flatnonzero(data.folds == f)) for f in folds]


def overhead(quick: bool) -> Figures:
    """A search against its fits alone, and against GridSearchCV with the same folds."""
    rows, trials = (100, 3) if quick else (1000, 10)
    problem = ShiftProblem.from_arrays(**arrays(10, rows, 10))
    search = search_of(trials)
    clone(search).set_params(n_trials=2).fit(problem)  # imports and first touches of memory
    whole = cpu(lambda: search.fit(problem))
    data = search.result_.context.data
    X, y, folds = data.X_train, data.y_train, folds_of(data)
    tried = [trial.params for trial in search.study_.trials]

    def bare() -> None:
        for params in tried:
            for train, test in folds:
                clone(model()).set_params(**params).fit(X[train], y[train]).predict_proba(X[test])

    grid = GridSearchCV(
        model(),
        [{name: [value] for name, value in params.items()} for params in tried],
        cv=folds,
        scoring="neg_log_loss",
        refit=False,
    )
    alone, theirs = cpu(bare), cpu(lambda: grid.fit(X, y))
    return Figures(
        whole / alone,
        f"the {len(folds) * trials} fits alone, 10 sources of {rows:,} rows, 10 columns",
        details={"against GridSearchCV": whole / theirs},
    )


def search_growth(quick: bool) -> Figures:
    """A search of 20 small trees: growth in rows, columns, sources and trials."""
    base = {"sources": 8, "rows": 200 if quick else 500, "columns": 10, "trials": 4}
    times = (1, 3) if quick else (1, 4, 16)

    def seconds(**change: int) -> float:
        size = base | change
        problem = ShiftProblem.from_arrays(**arrays(size["sources"], size["rows"], size["columns"]))
        return cpu(lambda: search_of(size["trials"], 20).fit(problem))

    seconds()
    found = []
    for along in ("rows", "columns", "sources", "trials"):
        sizes = [factor * base[along] for factor in times]
        change: dict[str, Any] = {"rows": 100} if along == "sources" else {}
        found.append(Growth.of(along, sizes, [seconds(**change | {along: n}) for n in sizes]))
    return Figures(
        found[-1].seconds[-1] / found[-1].seconds[0],
        f"a search of {base['trials']} trials, with {times[-1]} times as many",
        tuple(found),
    )


def proposals(quick: bool) -> Figures:
    """A proposal of GP-LCB against one of Optuna's TPE, after many trials."""
    sizes = [30, 100] if quick else [100, 300, 1000]
    ours, theirs = [], []
    for n in sizes:
        for seconds, sampler in (
            (ours, GPLCBSampler(seed=0)),
            (theirs, optuna.samplers.TPESampler(seed=0)),
        ):
            study = _study(n, sampler)
            asked = {f"x{i}": FloatDistribution(0, 1) for i in range(6)}
            seconds.append(cpu(lambda study=study, asked=asked: study.ask(asked), 3))
    return Figures(
        ours[-1] / theirs[-1],
        f"Optuna's TPE at trial {sizes[-1]:,}, 6 parameters",
        (Growth.of("trials", sizes, ours),),
        {
            "ms": rounded([1000 * each for each in ours]),
            "ms of TPE": rounded([1000 * t for t in theirs]),
        },
    )


def _study(n: int, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=sampler)
    rng = np.random.default_rng(0)
    space = {f"x{i}": FloatDistribution(0, 1) for i in range(6)}
    for x in rng.random((n, 6)):
        params = {f"x{i}": float(value) for i, value in enumerate(x)}
        value = float(np.sum((x - 0.4) ** 2) + rng.normal(0, 0.01))
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
    return study


def workers(quick: bool) -> Figures:
    """Seconds of a search with two workers against one; short trials, and long ones."""
    problem = ShiftProblem.from_arrays(**arrays(8, 100 if quick else 1000, 10))
    small = ShiftProblem.from_arrays(**arrays(8, 50, 5), task="regression")
    alpha = {"alpha": FloatDistribution(0.1, 10, log=True)}
    short, long = [], []
    for jobs in (1, 2):
        given = {"n_trials": 10 if quick else 80, "n_jobs": jobs, "progress": False}
        cheap = ShiftSearch(Ridge(), alpha, random_state=0, final="best", **given)
        short.append(_wall(lambda cheap=cheap: cheap.fit(small)))
        long.append(_wall(lambda n=jobs: search_of(2 if quick else 8, 200, n_jobs=n).fit(problem)))
    return Figures(
        long[1] / long[0],
        "one worker: seconds of a clock, LightGBM",
        (Growth.of("workers", [1, 2], long),),
        {"80 trials of a ridge regression": short[1] / short[0]},
    )


def _wall(task: Any) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def ratios(quick: bool) -> Figures:
    """Density ratios of 30 sources (uLSIF) against densratio in a loop, on the same grid."""
    _, (target, *sources), _ = shift(100 if quick else 1000, seed=0)
    ours = cpu(
        lambda: ULSIF(bandwidths=SIGMAS, penalties=LAMBDAS, scale=False).fit(target, sources)
    )
    grid = {"sigma_range": list(SIGMAS), "lambda_range": list(LAMBDAS), "verbose": False}
    theirs = cpu(lambda: densratio(target, sources[0], **grid)) * len(sources)
    return Figures(
        ours / theirs,
        f"densratio, 30 sources of {len(target):,} rows, 7 columns (one of them timed)",
        details={"times as fast": theirs / ours},
    )


ROWS = (overhead, search_growth, proposals, workers, ratios)
