"""Demonstration over many draws of hospitals: promises, truth and coverage of each estimator.

    python benchmarks/demo_seeds.py --seeds 25

Runs what `shiftune demo --seed 0`, `--seed 1`, ... run. Source of `shiftune.cli._demo.OVER_SEEDS`.
"""

from __future__ import annotations

import argparse

import pandas as pd

from shiftune.cli._demo import demo_problem, outcomes


def draws(seeds: int, trials: int) -> pd.DataFrame:
    """Return estimate, interval and truth of every estimator in every draw."""
    rows = []
    for seed in range(seeds):
        for outcome in outcomes(demo_problem(seed=seed), trials=trials, seed=seed, progress=False):
            risk = outcome.search.risk_
            rows.append((seed, outcome.method, risk.value, *risk.interval(), outcome.truth))
            print(f"seed {seed}, {outcome.method}: {risk.value:.3f}, truth {outcome.truth:.3f}")
    return pd.DataFrame(rows, columns=["seed", "method", "promised", "low", "high", "truth"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over the draws, and in how many of them something holds."""
    naive = table[table["method"] == "naive"].set_index("seed")["truth"]
    gain = table["seed"].map(naive) - table["truth"]
    counted = table.assign(
        covered=table["truth"].between(table["low"], table["high"]),
        too_low=table["promised"] < table["truth"],
        better_than_naive=gain > 0,
        gain=gain,
    )
    by = counted.groupby("method", sort=False)
    found = by[["promised", "truth", "gain"]].mean().round(3)
    found["least_gain"], found["most_gain"] = by["gain"].min().round(3), by["gain"].max().round(3)
    return found.join(by[["covered", "too_low", "better_than_naive"]].sum())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--trials", type=int, default=12)
    given = parser.parse_args()
    print(summary(draws(given.seeds, given.trials)).to_string())


if __name__ == "__main__":
    main()
