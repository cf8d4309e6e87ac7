"""Errors of density ratios, and the regularisation of logistic ones.

    python benchmarks/ratios.py [--seeds 5]

Gaussian sites with known ratios: mean shifts, scale shifts, and both kinds side by side, with
8 sources each. The error of a ratio is its mean squared error on new rows of the source, over
the variance of the true weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from shiftune._names import RATIOS
from shiftune.datasets import GaussianSites
from shiftune.ratio import ClassifierRatio, ratio_named

K = 8


def shifts(rng: np.random.Generator) -> Iterator[tuple[str, GaussianSites]]:
    def means(d: int, sd: float) -> np.ndarray:
        return np.vstack([np.zeros(d), rng.normal(0, sd, (K, d))])

    def scales(d: int, high: float) -> np.ndarray:
        return np.vstack([np.ones(d), rng.uniform(1, high, (K, d))])

    yield "means, 7 columns", GaussianSites(means(7, 0.3))
    yield "means, 2 columns", GaussianSites(means(2, 0.5))
    yield "means, 1 column", GaussianSites(means(1, 1.0))
    yield "scales, 2 columns", GaussianSites(means(2, 0.2), scales(2, 1.6))
    yield "scales, 7 columns", GaussianSites(means(7, 0.2), scales(7, 1.3))
    mixed_means, mixed_scales = means(3, 0.5), scales(3, 1.8)
    mixed_means[1 : K // 2] = 0.0
    mixed_scales[K // 2 :] = 1.0
    yield "some means, some scales", GaussianSites(mixed_means, mixed_scales)


def penalties() -> dict[str, ClassifierRatio]:
    found = {
        f"logistic, C = {C:g}": ClassifierRatio(LogisticRegression(C=C, max_iter=1000))
        for C in (1.0, 0.3, 0.1, 0.03)
    }
    return {**found, "logistic (the default)": ClassifierRatio()}


def few_rows(seeds: int) -> list:
    """Few rows in many columns, mean shifts of about 0.8 in all, 8 sources."""
    rows = []
    cases = [(60, 1), (60, 7), (60, 20), (200, 1), (200, 7), (200, 20), (200, 60), (1000, 20)]
    for n, d in cases:
        for seed in range(seeds):
            rng = np.random.default_rng([seed, n, d])
            shift = rng.normal(0, 0.8 / np.sqrt(d), (K, d))
            sites = GaussianSites(np.vstack([np.zeros(d), shift]))
            every = range(1, K + 1)
            target, sources = sites.draw(0, 1000, rng), [sites.draw(j, n, rng) for j in every]
            fresh = [sites.draw(j, 2000, rng) for j in every]
            truth = [sites.ratio(j)(x) for j, x in zip(every, fresh, strict=True)]
            data = target, sources, fresh, truth
            rows += [
                (n, f"{n} rows, {d} columns", name, np.median(errors(ratio, *data)))
                for name, ratio in penalties().items()
            ]
    return rows


def errors(ratio, target, sources, fresh, truth) -> np.ndarray:
    weights = ratio.fit(target, sources).weights(fresh)
    return np.array(
        [np.mean((w - t) ** 2) / np.var(t) for w, t in zip(weights, truth, strict=True)]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    by_ratio = []
    for n in (200, 500, 1000):
        for seed in range(seeds):
            rng = np.random.default_rng([seed, n])
            for name, sites in shifts(rng):
                target = sites.draw(0, n, rng)
                every = range(1, sites.k + 1)
                sources = [sites.draw(j, n, rng) for j in every]
                fresh = [sites.draw(j, 2000, rng) for j in every]
                truth = [sites.ratio(j)(x) for j, x in zip(every, fresh, strict=True)]
                data = target, sources, fresh, truth
                by_ratio += [(n, name, r, np.median(errors(ratio_named(r), *data))) for r in RATIOS]
    pd.set_option("display.width", 200)
    show("median error of the ratios", by_ratio)
    show("median error of logistic ratios where rows are few", few_rows(seeds))


def show(title: str, rows: list) -> None:
    table = pd.DataFrame(rows, columns=["n", "shift", "what", "value"])
    print(f"\n{title}")
    print(table.pivot_table("value", "what", ["n"], sort=False, margins=True).round(3).to_string())
    print(table.pivot_table("value", "what", "shift", sort=False).round(3).to_string())


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
