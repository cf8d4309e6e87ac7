"""What follows a search, beside the search: CPU seconds at many sites.

    python -m benchmarks.speed.thousand_sites [--sites 1000] [--rows 200] [--trials 6]

prints the CPU of a search, of checks, metrics, label worth and report, and the share of these in a
search of 50 trials. One thread.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch

COLUMNS, OF_A_SEARCH = 11, 50


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--trials", type=int, default=6)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(args.sites), args.rows)
    X = rng.normal(size=(len(site), COLUMNS)) + 0.3 * rng.normal(size=(args.sites, COLUMNS))[site]
    noise = rng.normal(size=len(site)) + 0.5 * rng.normal(size=args.sites)[site]
    y = X[:, 0] + np.sin(2 * X[:, 1]) + noise
    problem = ShiftProblem.from_arrays(X, y, site, rng.normal(size=(args.rows, COLUMNS)))
    seconds: dict[str, float] = {}

    def measure(name: str, function) -> None:
        start = time.process_time()
        function()
        seconds[name] = time.process_time() - start
        print(f"{name}: {seconds[name]:.1f} CPU s", flush=True)

    with threadpool_limits(1), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        search = ShiftSearch("lightgbm", n_trials=args.trials, random_state=0, progress=False)
        measure(f"search of {args.trials} trials", lambda: search.fit(problem))
        trials = search.trials_["seconds"].sum() / args.trials * OF_A_SEARCH
        measure("checks", lambda: search.result_.checks)
        measure("metrics", lambda: search.metrics_)
        measure("label worth", lambda: search.label_worth())
        measure("report", lambda: search.report(Path(folder) / "report.html"))
    after = sum(value for name, value in seconds.items() if not name.startswith("search"))
    share = after / (after + trials)
    print(f"{OF_A_SEARCH} such trials {trials:.0f} s; what follows is {share:.1%} of a search")


if __name__ == "__main__":
    main()
