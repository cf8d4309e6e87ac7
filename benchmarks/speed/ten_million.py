"""A search on ten million rows of 20 columns within a limit of memory.

    python -m benchmarks.speed.ten_million [--rows 10000000] [--gib 4]

The operating system refuses memory beyond the limit (RLIMIT_DATA), so that a run that ends has
needed less. Rows are float32, as given; nothing is sampled.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from lightgbm import LGBMClassifier
from optuna.distributions import IntDistribution

from shiftune import ShiftProblem, ShiftSearch

SITES, COLUMNS = 10, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--gib", type=float, default=4.0)
    options = parser.parse_args()
    limit = int(options.gib * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, COLUMNS), dtype=np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > rng.standard_normal(options.rows, dtype=np.float32)).astype(
        np.int8
    )
    where = np.arange(options.rows, dtype=np.int8) % SITES
    _tell(f"given {(X.nbytes + y.nbytes + where.nbytes) / 2**30:.2f} GiB")
    problem = ShiftProblem.from_arrays(X, y, where, X[:10_000] + np.float32(0.1))
    _tell("problem")
    model = LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
    search = ShiftSearch(
        model, {"num_leaves": IntDistribution(4, 31)}, n_trials=2, final="best", random_state=0
    )
    search.fit(problem)
    _tell(f"search: risk {search.risk_.value:.4f} with standard error {search.risk_.stderr:.4f}")


def _tell(what: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{time.process_time():7.1f} CPU s, at most {peak:.2f} GiB: {what}", flush=True)


if __name__ == "__main__":
    main()
