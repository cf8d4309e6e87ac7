"""Samplers side by side: the same five first points per seed, 50 trials, paired differences.

    python benchmarks/samplers.py > benchmarks/results/samplers-DATE.md

Optuna's GPSampler needs torch and is left out, with a note, where torch is missing.
"""

# ruff: noqa: E402  (the number of threads has to be set before NumPy is imported)
from __future__ import annotations

import os

# The samplers are compared on one core.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import importlib.metadata
import importlib.util
import json
import math
import platform
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from shiftune.search.gp._acquisition import UnitCube
from shiftune.search.gp._gaussian_process import Posterior, fit
from shiftune.search.gp._sampler import VARIANCE_KEY, GPLCBSampler, TrialHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler


N_START = 5
# Regrets below this are the same for any purpose; without it logarithms reward the last digits.
FLOOR = 1e-4
# Columns of a result: which trial is the chosen one.
BEST_TRIAL, LOWEST_MEAN = 0, 2


@dataclass(frozen=True)
class Problem:
    """An objective to be minimised, with its true optimum; ``noise`` is the variance at a point."""

    name: str
    space: Mapping[str, BaseDistribution]
    true_value: Callable[[Mapping[str, Any]], float]
    optimum: float
    noise: Callable[[Mapping[str, Any]], float] | None = None


def branin(p: Mapping[str, Any]) -> float:
    x, y = p["x0"], p["x1"]
    bowl = y - 5.1 * x**2 / (4 * np.pi**2) + 5 * x / np.pi - 6
    return float(bowl**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10)


HARTMANN_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann6(p: Mapping[str, Any]) -> float:
    x = np.array([p[f"x{i}"] for i in range(6)])
    heights = np.array([1.0, 1.2, 3.0, 3.2])
    return float(-heights @ np.exp(-np.sum(HARTMANN_A * (x - HARTMANN_P) ** 2, axis=1)))


VALLEY = np.array([0.3, 0.6, 0.45, 0.7])


def valley4(p: Mapping[str, Any]) -> float:
    """A smooth bowl with a ripple that leaves the minimum where it is, at 0."""
    d = np.array([p[f"x{i}"] for i in range(4)]) - VALLEY
    curved = np.array([d[0], d[1] + 0.5 * d[0], 0.5 * d[2], 0.3 * d[3]])
    return float(4 * curved @ curved + 0.2 * np.sum(1 - np.cos(6 * d)))


def valley4_noise(p: Mapping[str, Any]) -> float:
    """Standard deviation from 0.02 to 0.5 along x2: some configurations are measured badly."""
    return float((0.02 + 0.48 * p["x2"] ** 2) ** 2)


def booster(p: Mapping[str, Any]) -> float:
    """The shape of a booster's validation loss; 0 at the best of the grid's points."""
    rate = np.log10(p["rate"]) + 1.2
    leaves = np.log2(p["leaves"]) - 5
    fraction = p["fraction"] - 0.7
    kind = {"plain": 0.15, "dart": 0.3, "goss": 0.0}[p["kind"]]
    rounds = 0.3 * (rate + 0.4 * (p["depth"] - 6) / 6) ** 2
    return float(
        0.5 * rate**2
        + rounds
        + 0.03 * leaves**2
        + 0.01 * (p["depth"] - 6) ** 2
        + fraction**2
        + kind * (1 + 0.5 * abs(rate))
    )


def unit_box(d: int) -> dict[str, BaseDistribution]:
    return {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(d)}


PROBLEMS = [
    Problem(
        "Branin (2)",
        {"x0": FloatDistribution(-5, 10), "x1": FloatDistribution(0, 15)},
        branin,
        0.39788735772973816,
    ),
    Problem("Hartmann (6)", unit_box(6), hartmann6, -3.32236801141551),
    Problem("noisy valley (4)", unit_box(4), valley4, 0.0, valley4_noise),
    Problem(
        "mixed (5)",
        {
            "rate": FloatDistribution(1e-3, 1.0, log=True),
            "leaves": IntDistribution(4, 512, log=True),
            "depth": IntDistribution(2, 14),
            "fraction": FloatDistribution(0.3, 1.0, step=0.05),
            "kind": CategoricalDistribution(["plain", "dart", "goss"]),
        },
        booster,
        0.0,
    ),
]


class SklearnLCBSampler(GPLCBSampler):
    """The same sampler on scikit-learn's regressor: maximum likelihood with two restarts.

    Candidates as in ours; the best is refined with numerical gradients, since the regressor has
    none. Kept here only to be measured.
    """

    def _lowest_bound(self, history: TrialHistory, cube: UnitCube, rng: Any) -> Any:
        n_columns = len(cube.groups)
        kernel = ConstantKernel(1.0, (0.05, 20.0)) * Matern(
            np.full(n_columns, 0.5), (0.02, 50.0), nu=2.5
        ) + WhiteKernel(1e-3, (1e-6, 7.0))
        gp = GaussianProcessRegressor(
            kernel,
            alpha=1e-10 + history.variances,
            n_restarts_optimizer=2,
            random_state=int(rng.integers(2**31)),
        ).fit(history.rows, history.y)
        # The sd of the regressor includes the white noise, which a bound on the mean must not.
        white = gp.kernel_.k2.noise_level

        def bound(rows: Any) -> Any:
            mean, sd = gp.predict(rows, return_std=True)
            return mean - self._beta * np.sqrt(np.maximum(sd**2 - white, 1e-12))

        anchors = history.rows[np.argsort(gp.predict(history.rows))[:4]]
        near = [cube.perturb(rng, np.repeat(anchors, 16, axis=0), s) for s in (0.1, 0.02)]
        rows = np.vstack([cube.sample(rng, 512), *near])
        row = rows[np.argmin(bound(rows))]
        free = cube.continuous
        if not free.any():
            return row

        def at(columns: Any) -> float:
            moved = row.copy()
            moved[free] = columns
            return float(bound(moved[None, :])[0])

        found = minimize(
            at, row[free], method="L-BFGS-B", bounds=[(0, 1)] * free.sum(), options={"maxiter": 20}
        )
        moved = row.copy()
        moved[free] = found.x
        return moved


class AllTrials(GPLCBSampler):
    """Ours without a limit on the trials that the process remembers."""

    most_fitted = most_rows = sys.maxsize


OURS, REFERENCE = "shiftune GP-LCB", "Optuna GPSampler"
SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "Optuna TPE": lambda seed: optuna.samplers.TPESampler(seed=seed, n_startup_trials=N_START),
    REFERENCE: lambda seed: optuna.samplers.GPSampler(seed=seed, n_startup_trials=N_START),
    "scikit-learn GPR-LCB": lambda seed: SklearnLCBSampler(seed=seed, n_startup_trials=N_START),
    OURS: lambda seed: GPLCBSampler(seed=seed, n_startup_trials=N_START),
    "the same, all trials": lambda seed: AllTrials(seed=seed, n_startup_trials=N_START),
}


def lowest_mean(study: optuna.Study, problem: Problem) -> Mapping[str, Any]:
    """Parameters of the trial with the lowest posterior mean; the same model for all samplers."""
    space = dict(problem.space)
    cube = UnitCube(space)
    seen = TrialHistory.read(study.trials, cube, space, study.direction, {})
    known = (seen.rows, seen.y, seen.variances, cube.groups)
    mean, _ = Posterior(*known, fit(*known)).predict(seen.rows)
    return cube.decode(seen.rows[np.argmin(mean)])


def run(
    problem: Problem, sampler: BaseSampler, seed: int, n_trials: int
) -> tuple[float, float, float]:
    """Regret of the best trial, CPU ms per trial (ask + tell), regret of the lowest mean.

    Without noise the best trial is known, and the third is the first.
    """
    study = optuna.create_study(sampler=sampler)
    cube = UnitCube(problem.space)
    for row in cube.sample(np.random.default_rng([seed, 1]), N_START):
        study.enqueue_trial(cube.decode(row))
    noise = np.random.default_rng([seed, 2]).standard_normal(n_trials)
    cpu = 0.0
    for z in noise:
        start = time.process_time()
        trial = study.ask(dict(problem.space))
        cpu += time.process_time() - start
        value = problem.true_value(trial.params)
        if problem.noise is not None:
            variance = problem.noise(trial.params)
            value += float(z) * math.sqrt(variance)
            trial.set_user_attr(VARIANCE_KEY, variance)
        start = time.process_time()
        study.tell(trial, value)
        cpu += time.process_time() - start
    regret = by_mean = problem.true_value(study.best_trial.params) - problem.optimum
    if problem.noise is not None:
        by_mean = problem.true_value(lowest_mean(study, problem)) - problem.optimum
    return regret, 1000.0 * cpu / n_trials, by_mean


def measure(
    samplers: list[str], problems: list[Problem], seeds: range, n_trials: int, raw: Path | None
) -> dict[str, list[float]]:
    """What `run` returns by "problem / sampler / seed"; what ``raw`` holds already is not rerun."""
    known: dict[str, list[float]] = json.loads(raw.read_text()) if raw and raw.exists() else {}
    for seed in seeds:
        for problem in problems:
            for name in samplers:
                key = f"{problem.name} / {name} / {seed}"
                if key not in known:
                    known[key] = list(run(problem, SAMPLERS[name](seed), seed, n_trials))
            if raw:
                raw.write_text(json.dumps(known))
        print(f"done: seed {seed}", file=sys.stderr, flush=True)
    return known


def table(
    problem: Problem,
    samplers: list[str],
    seeds: range,
    known: dict[str, list[float]],
    rule: int,
    to: str,
) -> str:
    results = {
        name: np.array([known[f"{problem.name} / {name} / {seed}"] for seed in seeds])
        for name in samplers
    }
    lines = [
        f"### {problem.name}" + (", chosen by posterior mean" if rule else ""),
        "",
        f"| sampler | median regret | mean regret (SE) | mean difference to {to} (SE) "
        "| ratio to it, geometric mean (90 % interval) | CPU ms / trial |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        regret, cpu = result[:, rule], result[:, 1]
        difference = ratio = "-"
        if to in results and name != to:
            reference = results[to][:, rule]
            delta = regret - reference
            difference = f"{delta.mean():+.2g} ({standard_error(delta):.1g})"
            logs = np.log((regret + FLOOR) / (reference + FLOOR))
            centre, half = logs.mean(), 1.645 * standard_error(logs)
            ratio = (
                f"{np.exp(centre):.2f} ({np.exp(centre - half):.2f}-{np.exp(centre + half):.2f})"
            )
        lines.append(
            f"| {name} | {np.median(regret):.2g} | {regret.mean():.2g} "
            f"({standard_error(regret):.1g}) | {difference} | {ratio} | {cpu.mean():.1f} |"
        )
    return "\n".join([*lines, ""])


def standard_error(x: Any) -> float:
    return float(np.std(x, ddof=1) / math.sqrt(len(x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=24, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLERS), default=list(SAMPLERS))
    parser.add_argument("--reference", choices=list(SAMPLERS), default=REFERENCE)
    names = [problem.name for problem in PROBLEMS]
    parser.add_argument("--problems", nargs="+", choices=names, default=names)
    parser.add_argument("--raw", type=Path, help="JSON file to keep single results in")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    samplers = list(options.samplers)
    notes = []
    if REFERENCE in samplers and importlib.util.find_spec("torch") is None:
        samplers.remove(REFERENCE)
        notes.append(f"**{REFERENCE} SKIPPED: it needs torch, which is not installed here.**\n")
    problems = [problem for problem in PROBLEMS if problem.name in options.problems]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    known = measure(samplers, problems, seeds, options.trials, options.raw)
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("optuna", "numpy", "scipy", "scikit-learn")
    )
    print(f"# Samplers: {options.trials} trials, seeds {seeds[0]} to {seeds[-1]}\n")
    print(f"Python {platform.python_version()}, {versions}; one BLAS thread; in-memory storage.")
    print(
        f"The first {N_START} points of a seed are the same for every sampler. Regret: true value"
    )
    print(f"of `study.best_trial` minus the optimum. Ratios after adding {FLOOR:g} to both.\n")
    print("\n".join(notes))
    for problem in problems:
        print(table(problem, samplers, seeds, known, BEST_TRIAL, options.reference))
        if problem.noise is not None:
            print(table(problem, samplers, seeds, known, LOWEST_MEAN, options.reference))


if __name__ == "__main__":
    main()
