"""The simplest trial within one standard error of the best, against the best itself.

    SHIFTUNE_DATA=/path/to/data python benchmarks/one_se.py [--targets 2] [--trials 16]

Real multi-site tables (see `benchmarks/arena/problems.py`), 16 random LightGBM configurations, the
default estimate. "one_se" takes the configuration with the fewest leaves in all (trees x leaves of
a tree, then the larger L2 penalty) among those whose paired difference to the lowest risk is at
most one standard error. Regret: excess of the choice on the target's hidden labels over the best
configuration, divided by the excess of the median configuration, capped at 3, averaged per table.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from optuna.distributions import IntDistribution
from sklearn.metrics import log_loss, mean_squared_error

from shiftune import ShiftProblem, ShiftSearch
from shiftune.models import spaces
from shiftune.search._trial import finished_trials, paired_difference, risk_of

sys.path.insert(0, str(Path(__file__).parent / "arena"))
from problems import Problem, problem, real_datasets, targets

MOST_SOURCES, MOST_ROWS, MOST_REGRET = 10, 250, 3.0


def regrets(p: Problem, trials: int, seed: int) -> tuple[float, float, int]:
    """Regret of the best and of one_se, and how many trials lie within one standard error."""
    rng = np.random.default_rng(seed)
    kept = sorted(rng.permutation(len(p.X))[:MOST_SOURCES])
    X = np.concatenate([p.X[j][:MOST_ROWS] for j in kept])
    y = np.concatenate([p.y[j][:MOST_ROWS] for j in kept])
    site = np.repeat([str(j) for j in kept], [len(p.X[j][:MOST_ROWS]) for j in kept])
    found = ShiftProblem.from_arrays(X, y, site, p.X_target)
    kind = LGBMRegressor if p.task == "regression" else LGBMClassifier
    model = kind(n_jobs=1, verbose=-1)
    space = spaces.lightgbm() | {"n_estimators": IntDistribution(50, 300, log=True)}
    search = ShiftSearch(
        model, space, n_trials=trials, sampler="random", random_state=seed, progress=False
    ).fit(found)
    tried = [trial for trial in finished_trials(search.study_) if trial.params]  # not the defaults
    judged = [(trial, risk) for trial in tried if (risk := risk_of(trial))]
    risks, params = [risk for _, risk in judged], [trial.params for trial, _ in judged]
    truth = []
    for chosen in params:
        fitted = kind(n_jobs=1, verbose=-1, random_state=seed, **chosen).fit(X, y)
        truth.append(_loss(fitted, p))
    best = int(np.argmin([risk.criterion for risk in risks]))
    apart = [paired_difference(risk, risks[best]) for risk in risks]
    near = [t for t, d in enumerate(apart) if t == best or d.value <= d.stderr]
    simplest = min(near, key=lambda t: (_leaves(params[t]), -params[t]["reg_lambda"]))
    excess = np.array(truth) - min(truth)
    scaled = np.minimum(excess / max(float(np.median(excess)), 1e-12), MOST_REGRET)
    return float(scaled[best]), float(scaled[simplest]), len(near)


def _loss(model, p: Problem) -> float:
    if p.task == "regression":
        return float(mean_squared_error(p.y_target, model.predict(p.X_target)))
    return float(log_loss(p.y_target, model.predict_proba(p.X_target), labels=model.classes_))


def _leaves(params: dict[str, float]) -> float:
    return params["n_estimators"] * params["num_leaves"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", type=int, default=2)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    by_table: dict[str, list[tuple[float, float, int]]] = {}
    for round_ in range(options.targets):
        for name in real_datasets():
            chosen = targets(name, options.targets, options.seed)
            if round_ < len(chosen):
                cell = problem(name, chosen[round_], options.seed)
                if len(cell.X) < 2 or len(np.unique(np.concatenate(cell.y))) in range(3, 30):
                    continue  # several classes cost several times as much
                by_table.setdefault(name, []).append(regrets(cell, options.trials, options.seed))
                print(name, *(f"{value:.2f}" for value in by_table[name][-1]), flush=True)
        summary(by_table)


def summary(by_table: dict[str, list[tuple[float, float, int]]]) -> None:
    means = np.array([np.mean(cells, axis=0) for cells in by_table.values()])
    rng = np.random.default_rng(0)
    draws = means[rng.integers(len(means), size=(2000, len(means)))].mean(axis=1)
    low, high = np.quantile(draws[:, 1] / draws[:, 0], [0.05, 0.95])
    best, simplest, near = means.mean(axis=0)
    print(
        f"{len(means)} tables, {sum(map(len, by_table.values()))} cells: regret of the best "
        f"{best:.3f}, of one_se {simplest:.3f}; ratio {simplest / best:.2f} "
        f"({low:.2f} to {high:.2f}); {near:.1f} trials within one standard error; one_se better on "
        f"{(means[:, 1] < means[:, 0]).sum()}, worse on {(means[:, 1] > means[:, 0]).sum()} tables",
        flush=True,
    )


if __name__ == "__main__":
    main()
