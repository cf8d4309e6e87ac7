"""Trials under way at once: what they cost in regret, and how busy they keep workers.

    python benchmarks/look_ahead.py --seeds 24

A search with W workers has `look_ahead(W, F)` trials of F fits under way and records them in the
order of proposal. Regret: 50 trials of `samplers.PROBLEMS`. Busy: share of the workers' time spent
on fits, in a simulation where trials differ in length (log-normal) and the first fit of a trial
comes before its others unless workers are idle.
"""

from __future__ import annotations

import argparse
import heapq
import warnings
from collections import deque

import numpy as np
import optuna
from samplers import N_START, PROBLEMS, Problem, standard_error

from shiftune.search._loop import look_ahead
from shiftune.search.gp import GPLCBSampler
from shiftune.search.gp._acquisition import UnitCube

TRIALS = 50
WORKERS = (1, 2, 8, 16, 40)


def regret(problem: Problem, seed: int, under_way: int) -> float:
    """Regret of the best trial of a search with so many trials under way."""
    study = optuna.create_study(sampler=GPLCBSampler(seed=seed, n_startup_trials=N_START))
    cube = UnitCube(problem.space)
    for row in cube.sample(np.random.default_rng([seed, 1]), N_START):
        study.enqueue_trial(cube.decode(row))
    waiting: deque[optuna.Trial] = deque()
    for number in range(TRIALS + under_way):
        if number < TRIALS:
            waiting.append(study.ask(dict(problem.space)))
        if len(waiting) >= under_way or number >= TRIALS:
            trial = waiting.popleft()
            study.tell(trial, problem.true_value(trial.params))
        if not waiting and number >= TRIALS - 1:
            break
    return problem.true_value(study.best_trial.params) - problem.optimum


def busy(
    n_workers: int, n_fits: int, under_way: int, spread: float, rng: np.random.Generator
) -> float:
    """Share of the workers' time that fits take, in a search of `TRIALS` trials."""
    seconds = np.exp(spread * rng.standard_normal((TRIALS, 1)) + np.zeros((1, n_fits)))
    waiting = [set(range(n_fits)) for _ in range(TRIALS)]
    left = [n_fits] * TRIALS
    running: list[tuple[float, int, int]] = []
    now, recorded = 0.0, 0
    first_done = [False] * TRIALS
    while recorded < TRIALS:
        open_trials = range(recorded, min(recorded + under_way, TRIALS))
        early = [(i, f) for i in open_trials for f in waiting[i] if f and not first_done[i]]
        ready = [(i, f) for i in open_trials for f in waiting[i] if not f or first_done[i]]
        for i, f in (ready + early)[: n_workers - len(running)]:
            waiting[i].discard(f)
            heapq.heappush(running, (now + seconds[i, f], i, f))
        now, i, f = heapq.heappop(running)
        left[i] -= 1
        first_done[i] |= f == 0
        while recorded < TRIALS and not left[recorded]:
            recorded += 1
    return float(seconds.sum() / (now * n_workers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    seeds = range(options.first_seed, options.first_seed + options.seeds)

    print("| workers | fits of a trial | trials under way | busy, trials alike | 0.5 | 1.0 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for n_fits in (5, 1):
        for n_workers in WORKERS[1:]:
            ahead = look_ahead(n_workers, n_fits)
            rng = np.random.default_rng(0)
            shares = [
                np.mean([busy(n_workers, n_fits, ahead, spread, rng) for _ in range(20)])
                for spread in (0.0, 0.5, 1.0)
            ]
            busy_shares = " | ".join(f"{share:.2f}" for share in shares)
            print(f"| {n_workers} | {n_fits} | {ahead} | {busy_shares} |")

    problems = [problem for problem in PROBLEMS if problem.noise is None]
    cases = {f"{n} workers": look_ahead(n, 5) for n in WORKERS}
    cases |= {"16 workers, 2 trials each": 32, "40 workers, 2 trials each": 80}
    print(f"\nRegret after {TRIALS} trials: mean (standard error), median; {len(seeds)} seeds")
    print("\n| | trials under way |", " | ".join(p.name for p in problems), "|")
    print("| --- | --- |" + " --- |" * len(problems))
    for case, ahead in cases.items():
        cells = []
        for problem in problems:
            found = np.array([regret(problem, seed, ahead) for seed in seeds])
            mean, error = found.mean(), standard_error(found)
            cells.append(f"{mean:.2g} ({error:.1g}), {np.median(found):.2g}")
        print(f"| {case} | {ahead} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
