"""Limits of the guard: error of the estimated risk over a grid of limits.

    python benchmarks/guard.py [--problems 60]
    python benchmarks/guard.py --known 200     # bias and coverage with known density ratios alone

Generated problems in which covariate shift holds exactly and the target risk is known: sites
N(m_j, I) in 1 and 7 dimensions, y = 0.7 x_1 + 0.3 + noise, loss (theta - y)^2 / 2. Sources lie
near the target, far from it, or beyond reach. Density ratios: known, uLSIF, logistic.
"""

from __future__ import annotations

import argparse
import itertools
import warnings

import numpy as np
import pandas as pd
from reproduction.toy import KnownRatio

from shiftune.datasets import GaussianSites
from shiftune.errors import OverlapWarning
from shiftune.ratio import ULSIF, ClassifierRatio, Guard
from shiftune.risk import estimate

SPREADS = [(1, 1.0), (1, 2.0), (1, 4.0), (7, 0.3), (7, 0.6), (7, 1.2)]
ROWS = [(210, 300), (30, 40)]  # of every source, for the ratio and for validation


def problems(count: int, spread: tuple[int, float], rows: tuple[int, int], known: bool = False):
    d, sd = spread
    for seed in range(count):
        rng = np.random.default_rng([seed, d, int(10 * sd), *rows])
        k = int(rng.integers(2, 9))
        sites = GaussianSites(np.vstack([np.zeros(d), rng.normal(0, sd, (k, d))]))
        target = sites.draw(0, 1000, rng)
        density = [sites.draw(j, rows[0], rng) for j in range(1, k + 1)]
        X = [sites.draw(j, rows[1], rng) for j in range(1, k + 1)]
        y = [0.7 * x[:, 0] + 0.3 + rng.standard_normal(len(x)) for x in X]
        theta = 0.3 + rng.uniform(-2, 2)
        losses = [(theta - v) ** 2 / 2 for v in y]
        truth = ((theta - 0.3) ** 2 + 1.49) / 2
        ratios = {
            "known": KnownRatio([sites.ratio(j) for j in range(1, k + 1)]),
        }
        if not known:
            ratios |= {"ulsif": ULSIF(), "logistic": ClassifierRatio()}
        for name, ratio in ratios.items():
            yield name, losses, ratio.fit(target, density).weights(X), truth


def settings() -> dict[str, bool | Guard]:
    found: dict[str, bool | Guard] = {"off": False}
    for low, ess in itertools.product([0.0, 0.1, 0.3, 0.5, 0.6, 0.7], [0.0, 5.0, 10.0, 20.0]):
        high = np.inf if low == 0 else 1 / low
        guard = Guard(low, high, ess)
        found[_name(guard)] = guard
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--known", type=int, metavar="PROBLEMS")
    count, known = vars(parser.parse_args()).values()
    rows = []
    warnings.simplefilter("ignore", OverlapWarning)
    if known:
        known_weights(known)
        return
    for size, spread in itertools.product(ROWS, SPREADS):
        for ratio, losses, weights, truth in problems(count, spread, size):
            case = (size[1], spread, ratio)
            naive = estimate(losses, method="naive")
            rows.append((*case, "naive", "naive", _figures(naive, truth)))
            for name, guard in settings().items():
                for divergence in ("plug_in", "cross_fitted"):
                    try:
                        risk = estimate(losses, weights, guard=guard, divergence=divergence)
                    except ValueError:  # no guard, and all weights are 0: no estimate at all
                        rows.append((*case, divergence, name, (3.0, 0.0, 0.0)))
                        continue
                    rows.append((*case, divergence, name, _figures(risk, truth)))
    columns = ["rows", "spread", "ratio", "divergence", "guard", "figures"]
    table = pd.DataFrame(rows, columns=columns)
    table[["log_error", "covered", "fell_back"]] = table.pop("figures").to_list()
    pd.set_option("display.width", 200, "display.max_rows", 500)
    by = table.groupby(["guard", "divergence"], sort=False)[["log_error", "covered", "fell_back"]]
    print("mean |log(estimate / truth)| (capped at 3), coverage of 90 % intervals, fallbacks")
    print(by.mean().round(3).to_string())
    plug_in = table[table.divergence.isin(["plug_in", "naive"])]
    for by_what in (["spread"], ["ratio", "rows"]):
        print(f"\nmean |log error| by guard and {' and '.join(by_what)}, plug_in")
        print(plug_in.pivot_table("log_error", "guard", by_what, sort=False).round(3).to_string())
    print("\ncoverage of 90 % intervals by divergence, ratio and rows, default guard")
    default = _name(Guard())
    kept = table[table.guard.isin([default, "naive"])]
    print(kept.pivot_table("covered", "divergence", ["ratio", "rows"]).round(3).to_string())
    priors(count // 3)
    small_sources()


def known_weights(count: int) -> None:
    """Bias of the estimate and coverage where nothing but the divergences is estimated."""
    rows = []
    for size, spread in itertools.product(ROWS, SPREADS):
        for _, losses, weights, truth in problems(count, spread, size, known=True):
            for divergence in ("plug_in", "cross_fitted"):
                risk = estimate(losses, weights, divergence=divergence)
                covered = _figures(risk, truth)[1]
                rows.append((divergence, size[1], risk.value / truth, covered))
    table = pd.DataFrame(rows, columns=["divergence", "rows", "estimate / truth", "covered"])
    print(f"known density ratios, {count} problems per spread, 90 % intervals")
    by = table.groupby(["divergence", "rows"])
    kept = {"estimate / truth": ["mean", "median", "sem"], "covered": ["mean", "sem"]}
    print(by.agg(kept).round(3).to_string())


def small_sources() -> None:
    """Weights 1 and exponential losses (truth 1): what the prior rows are for."""
    print("\nk sources of n rows, weights 1: root mean square error / coverage of 90 % intervals")
    for k, n in [(2, (300,)), (5, (40,)), (30, (40,)), (30, (10,)), (7, (300, 300, 3, 3, 3, 3, 3))]:
        sizes = list(n) * (k // len(n))
        line = f"{k:3d} x {n[0] if len(n) == 1 else '300 300 3 3 3 3 3'!s:18}"
        for prior in (0.0, 5.0, 20.0, 80.0):
            rng = np.random.default_rng(0)
            guard = Guard(prior_rows=prior)
            rows = []
            for _ in range(400):
                losses = [rng.exponential(size=m) for m in sizes]
                risk = estimate(losses, [np.ones(m) for m in sizes], guard=guard)
                low, high = risk.interval(0.9)
                rows.append((risk.value - 1, low <= 1 <= high))
            error, covered = np.array(rows, dtype=float).T
            line += f"  prior {prior:3.0f}: {np.sqrt(np.mean(error**2)):.3f} / {covered.mean():.2f}"
        print(line)


def priors(count: int) -> None:
    """The same problems as above, with other numbers of prior rows."""
    rows = []
    for size, spread in itertools.product(ROWS, SPREADS):
        for _, losses, weights, truth in problems(count, spread, size):
            for prior in (0.0, 5.0, 20.0, 80.0, 300.0, 1e6):
                risk = estimate(losses, weights, guard=Guard(prior_rows=prior))
                rows.append((size[1], prior, *_figures(risk, truth)))
    table = pd.DataFrame(rows, columns=["rows", "prior", "log_error", "covered", "fell_back"])
    print("\nmean |log error| and coverage of 90 % intervals by rows and prior rows, plug_in")
    print(table.groupby(["rows", "prior"])[["log_error", "covered"]].mean().round(3).to_string())


def _name(guard: Guard) -> str:
    return f"mean {guard.min_mean_weight:.1f}..{guard.max_mean_weight:.1f}, ess {guard.min_ess:.0f}"


def _figures(risk, truth: float) -> tuple[float, float, float]:
    low, high = risk.interval(0.9)
    error = abs(np.log(max(risk.value, 1e-300) / truth))
    return min(error, 3.0), float(low <= truth <= high), float(bool(risk.fallback))


if __name__ == "__main__":
    main()
