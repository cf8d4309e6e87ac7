"""Importance of a column at the target: where its values come from, and what intervals cover.

    python benchmarks/importance.py [--draws 100]

Generated sites x_0 ~ N(m_j, 1), m_j ~ N(0, 0.3^2), other columns N(0, 1), and a target
x_0 ~ N(mean, sd^2). The model is the truth; site j has the loss (y - h(x))^2, with
y = h(x) + u_j x_0 + e, u_j ~ N(0, tau^2). The importance of x_0 at the target is known from 100,000
rows. It is estimated with values of x_0 "within" sites (mean of the sites, or adjusted to the
target, there also with each row as donor, which makes it right to first order), and from the
"target", as `search.importance()` does it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import OverlapWarning
from shiftune.risk import RegressionAdjusted
from shiftune.search._importance import _adjustment

Floats = NDArray[np.float64]
Model = Callable[[Floats], Any]

MODELS: dict[str, Model] = {
    "3 x0 + x1": lambda X: 3 * X[:, 0] + X[:, 1],
    "x0 + x0^2": lambda X: X[:, 0] + X[:, 0] ** 2,
    "x0 x1 + x0": lambda X: X[:, 0] * X[:, 1] + X[:, 0],
    "3 [x0 > 0.5]": lambda X: 3.0 * (X[:, 0] > 0.5),
}
SIZES = {"10 x 500, 3 columns": (10, 500, 3), "10 x 100, 20 columns": (10, 100, 20)}
TARGETS = [(0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (0.0, 1.5), (0.5, 0.7)]
REPEATS = 3


def rows(rng: np.random.Generator, n: int, columns: int, mean: float, sd: float) -> Floats:
    X = rng.normal(size=(n, columns))
    X[:, 0] = mean + sd * X[:, 0]
    return X


def increase(h: Model, X: Floats, own: Floats, values: Floats) -> Floats:
    """Rise of the squared error, where `own` is y - h(x)."""
    moved = X.copy()
    moved[:, 0] = values
    return np.asarray((h(X) + own - h(moved)) ** 2 - own**2)


def estimates(
    h: Model,
    size: tuple[int, int, int],
    at_target: tuple[float, float],
    tau: float,
    rng: np.random.Generator,
) -> tuple[Floats, bool]:
    """Return four estimates over the truth, and whether the last interval covers it."""
    k, n, columns = size
    target = rows(rng, 1000, columns, *at_target)
    many = rows(rng, 100_000, columns, *at_target)
    # With u the slope of a site, the importance has the part -2 u E x_0 (h(x') - h(x)).
    moved = np.column_stack([rng.permutation(many[:, 0]), many[:, 1:]])
    of_slope = -2 * np.mean(many[:, 0] * (h(moved) - h(many)))
    mean = increase(h, many, np.zeros(len(many)), moved[:, 0]).mean()
    truth = mean + of_slope * tau * rng.normal()
    sources, within, both, from_target = [], [], [], []
    for _ in range(k):
        X = rows(rng, n, columns, rng.normal(0, 0.3), 1.0)
        own = tau * rng.normal() * X[:, 0] + rng.normal(size=n)
        donors = np.array([rng.permutation(n) for _ in range(REPEATS)])
        d = np.array([increase(h, X, own, X[each, 0]) for each in donors])
        given = np.take_along_axis(d, np.argsort(donors, axis=1), axis=1)
        sources.append(X)
        within.append(d.mean(axis=0))
        both.append((d + given).mean(axis=0) - d.mean())
        values = rng.choice(target[:, 0], (REPEATS, n))
        from_target.append(np.mean([increase(h, X, own, each) for each in values], axis=0))
    fitted = RegressionAdjusted().fit(target, sources)
    found = [fitted.estimate(each).signed(nonnegative=False) for each in (within, both)]
    last = fitted.estimate(from_target).signed(nonnegative=False)
    low, high = last.interval(0.9)
    means = [np.mean([each.mean() for each in within]), *(each.value for each in found), last.value]
    return np.array(means) / mean, bool(low <= truth <= high)


def adjustments(k: int, n: int, tau: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Adjustment of losses (1 + x_0)^2 e^2 by x_0 and by x_1, which are 1 higher at the target."""
    centres = rng.normal(0, 0.3, (k, 2))
    sources = [rng.normal(size=(n, 2)) + centre for centre in centres]
    losses = [
        (1 + X[:, 0]) ** 2 * rng.normal(size=n) ** 2 + max(0.0, 1 + tau * rng.normal())
        for X in sources
    ]
    target = rng.normal(size=(1000, 2)) + 1
    truth = np.array([5 - np.mean(1 + (1 + centres[:, 0]) ** 2), 0.0])
    found = [
        _adjustment(RegressionAdjusted().fit(target[:, [c]], [X[:, [c]] for X in sources]), losses)
        for c in (0, 1)
    ]
    ends = np.array([each.interval(0.9) for each in found])
    return np.array([each.value for each in found]) - truth, (ends[:, 0] <= truth) & (
        truth <= ends[:, 1]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    draws = range(parser.parse_args().draws)
    warnings.simplefilter("ignore", OverlapWarning)
    print("| rows | target | within, mean | within, adjusted | both | from the target |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, size in SIZES.items():
        for at_target in TARGETS:
            found = [
                estimates(h, size, at_target, 0.0, np.random.default_rng([seed, m]))[0]
                for m, h in enumerate(MODELS.values())
                for seed in draws
            ]
            error = np.sqrt(np.mean((np.array(found) - 1) ** 2, axis=0))
            words = " | ".join(f"{each:.2f}" for each in error)
            print(f"| {name} | N({at_target[0]:g}, {at_target[1]:g}²) | {words} |", flush=True)
    print("\n| sites | tau | covers, target like the sources | covers, N(0.5, 1) |")
    print("| --- | --- | --- | --- |")
    for k in (3, 5, 10, 30):
        for tau in (0.0, 0.3, 1.0):
            covers = [
                np.mean(
                    [
                        estimates(
                            MODELS["3 x0 + x1"],
                            (k, 200, 3),
                            (mean, 1.0),
                            tau,
                            np.random.default_rng([seed, k]),
                        )[1]
                        for seed in draws
                    ]
                )
                for mean in (0.0, 0.5)
            ]
            print(f"| {k} | {tau:g} | {covers[0]:.2f} | {covers[1]:.2f} |", flush=True)
    print("\n| rows | tau | error by x0 | by x1 | covers, x0 | x1 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for k, n, tau in [(10, 500, 0.0), (10, 100, 0.0), (10, 500, 0.7), (4, 200, 0.3), (30, 50, 0.3)]:
        pairs = [adjustments(k, n, tau, np.random.default_rng([seed, k, n])) for seed in draws]
        errors = np.sqrt(np.mean(np.array([each for each, _ in pairs]) ** 2, axis=0))
        covers = np.mean([each for _, each in pairs], axis=0)
        print(
            f"| {k} x {n} | {tau:g} | {errors[0]:.2f} | {errors[1]:.2f} | {covers[0]:.2f} | "
            f"{covers[1]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
