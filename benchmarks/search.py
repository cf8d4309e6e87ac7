"""Overhead of ShiftSearch over the fits themselves, and the gain from two workers.

    python benchmarks/search.py [--rows 1000 10000] [--trials 50]

LightGBM on generated classification sites: 30 sources, 10 columns. The search's own 50
configurations are first fitted and evaluated alone, on the same rows; the overhead is the search's
time (density ratios, sampler, losses, estimates, storage in memory; without the final refit)
minus theirs, in CPU seconds. Everything is timed in one run on the same machine.
"""

from __future__ import annotations

import argparse
import platform
import time

import lightgbm
import numpy as np
from sklearn.base import clone

from shiftune import ShiftProblem
from shiftune.models import spaces
from shiftune.problem import PAPER_SHARES, pooled
from shiftune.search import ShiftSearch

SOURCES, COLUMNS = 30, 10


def sites(rows: int, seed: int = 0) -> ShiftProblem:
    rng = np.random.default_rng(seed)
    beta = rng.normal(size=COLUMNS)

    def draw(n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(rng.normal(0, shift, COLUMNS), 1, (n, COLUMNS))
        return X, (rng.random(n) < 1 / (1 + np.exp(-(X @ beta)))).astype(int)

    target, _ = draw(rows, 0.0)
    return ShiftProblem.from_sites({f"S{j}": draw(rows, 0.2) for j in range(SOURCES)}, target)


class Untimed(ShiftSearch):
    """The paper's search (one fit a trial) without the refit, which is a fit the user asks for."""

    def _refitted(self, problem):
        return clone(self.estimator)


def seconds(task, clock=time.perf_counter) -> float:
    start = clock()
    task()
    return clock() - start


def overhead(rows: int, trials: int, ratio: str) -> None:
    problem = sites(rows)
    model = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1)
    search = Untimed(
        model, spaces.lightgbm_paper(), risk="variance_reduced", n_trials=trials, ratio=ratio
    )
    clone(search).set_params(n_trials=2).fit(problem)  # imports and first touches of memory
    # CPU seconds: what else the machine is doing must not count as overhead.
    whole = seconds(lambda: search.fit(problem), time.process_time)
    split = problem.split(PAPER_SHARES, random_state=0)
    (X, y), (V, _) = pooled(split.train), pooled(split.validation)
    configurations = [t.params for t in search.study_.trials]
    bare = seconds(
        lambda: [clone(model).set_params(**p).fit(X, y).predict_proba(V) for p in configurations],
        time.process_time,
    )
    print(
        f"30 x {rows:>6} rows, ratio {ratio:<8}: search {whole:6.1f} CPU s, bare fits {bare:6.1f}, "
        f"overhead {(whole - bare) / bare:6.1%}"
    )


def workers(rows: int, trials: int) -> None:
    problem = sites(rows)
    model = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1)
    times = {}
    for n_jobs in (1, 2):
        search = Untimed(
            model,
            spaces.lightgbm_paper(),
            risk="variance_reduced",
            n_trials=trials,
            n_jobs=n_jobs,
        )
        times[n_jobs] = seconds(lambda s=search: s.fit(problem))
    print(
        f"30 x {rows:>6} rows: 1 worker {times[1]:.1f} s, 2 workers {times[2]:.1f} s, "
        f"{times[1] / times[2]:.2f} times as fast"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--trials", type=int, default=50)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, LightGBM {lightgbm.__version__}, one thread each\n")
    for rows in options.rows:
        overhead(rows, options.trials, "logistic")
    workers(options.rows[-1], min(options.trials, 20))


if __name__ == "__main__":
    main()
