"""Searches of cheap trials with two workers, beside the same searches with one.

    python benchmarks/cheap_trials.py

80 trials of three fits each, which take 0 to 0.1 CPU seconds. Seconds of the clock, and the ratio.
"""

from __future__ import annotations

import time
import warnings

from optuna.distributions import FloatDistribution
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune import ShiftSearch

SPACE = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
TRIALS, ROUNDS = 80, 2


class Costly(Ridge):
    """A model whose fits take a given number of CPU seconds more."""

    def __init__(self, alpha: float = 1.0, seconds: float = 0.0) -> None:
        super().__init__(alpha=alpha)
        self.seconds = seconds

    def fit(self, X, y, sample_weight=None):
        end = time.process_time() + self.seconds
        while time.process_time() < end:
            pass
        return super().fit(X, y, sample_weight)


def seconds_of(search: ShiftSearch, problem) -> float:
    began = time.perf_counter()
    search.fit(problem)
    return time.perf_counter() - began


def main() -> None:
    warnings.simplefilter("ignore")
    problem = toy_problem(1.0, n=200, random_state=1).problem
    print("| CPU seconds of a fit | one worker | two | ratio |\n| --- | --- | --- | --- |")
    for seconds in (0.0, 0.002, 0.02, 0.1):
        for _ in range(ROUNDS):
            options = {"n_trials": TRIALS, "sampler": "random", "progress": False}
            one, two = (
                seconds_of(
                    ShiftSearch(Costly(seconds=seconds), SPACE, n_jobs=n_jobs, **options), problem
                )
                for n_jobs in (1, 2)
            )
            print(f"| {seconds:g} | {one:.2f} | {two:.2f} | {two / one:.2f} |", flush=True)


if __name__ == "__main__":
    main()
