"""A search on ten million rows of 20 columns in a Parquet folder, within a limit of memory.

    python -m benchmarks.speed.ten_million [--rows 10000000] [--read 1000000] [--gib 4]

The operating system refuses memory beyond the limit (RLIMIT_DATA), so that a run that ends has
needed less.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from optuna.distributions import IntDistribution

from shiftune import ShiftProblem, ShiftSearch

SITES, COLUMNS, ROWS_OF_A_FILE = 10, 20, 500_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--read", type=int, default=1_000_000)
    parser.add_argument("--gib", type=float, default=4.0)
    options = parser.parse_args()
    limit = int(options.gib * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        written = _write(Path(folder), options.rows)
        _tell(f"{options.rows:,} rows written, {written / 2**30:.2f} GiB")
        problem = ShiftProblem.from_large(
            folder, site="site", label="y", target="site 0", most_rows=options.read
        )
    _tell(problem.notes[0])
    model = LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)
    search = ShiftSearch(model, {"num_leaves": IntDistribution(4, 31)}, n_trials=2, final="best")
    search.fit(problem)
    _tell(f"risk {search.risk_.value:.4f} with standard error {search.risk_.stderr:.4f}")


def _write(folder: Path, rows: int) -> int:
    rng = np.random.default_rng(0)
    for start in range(0, rows, ROWS_OF_A_FILE):
        n = min(ROWS_OF_A_FILE, rows - start)
        X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
        df = pd.DataFrame(X, columns=[f"x{i}" for i in range(COLUMNS)])
        site = rng.integers(0, SITES, n)
        y = (X[:, 0] + X[:, 1] * X[:, 2] > rng.standard_normal(n)).astype(float)
        df["site"] = np.array([f"site {j}" for j in range(SITES)])[site]
        df["y"] = np.where(site == 0, np.nan, y)
        df.to_parquet(folder / f"{start:09}.parquet", compression=None)
    return sum(path.stat().st_size for path in folder.iterdir())


def _tell(what: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{time.process_time():7.1f} CPU s, at most {peak:.2f} GiB: {what}", flush=True)


if __name__ == "__main__":
    main()
