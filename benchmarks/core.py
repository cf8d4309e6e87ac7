"""The figures of the statistical core, measured side by side in one run.

    python benchmarks/core.py [--full]

Speed and accuracy of uLSIF for 30 sources against densratio in a loop on the same grid, accuracy
of every density ratio on Gaussian shifts in 7 dimensions, the time of one risk estimate, and the
memory of a fit with a million target rows. densratio is timed on 3 of the 30 sources and its
time multiplied by 10, since all sources cost it the same; --full times all of them.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from densratio import densratio
from threadpoolctl import threadpool_limits

from shiftune._names import RATIOS
from shiftune.datasets import GaussianSites
from shiftune.ratio import ULSIF, ratio_named
from shiftune.risk import estimate

K, D = 30, 7
SIGMAS = 10.0 ** np.linspace(-1, 1, 9)
LAMBDAS = 10.0 ** np.linspace(-3, 1, 9)
REPEATS = 3


def shift(n: int, seed: int) -> tuple[GaussianSites, list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    sites = GaussianSites(np.vstack([np.zeros(D), rng.normal(0, 0.3, (K, D))]))
    rows = [sites.draw(j, n, rng) for j in range(K + 1)]
    return sites, rows, [sites.draw(j, 2000, rng) for j in range(1, K + 1)]


def error(weights: list[np.ndarray], sites: GaussianSites, fresh: list[np.ndarray]) -> float:
    """Mean over sources of the mean squared error over the true weights' variance."""
    truth = [sites.ratio(j)(x) for j, x in enumerate(fresh, start=1)]
    return float(
        np.mean([np.mean((w - t) ** 2) / np.var(t) for w, t in zip(weights, truth, strict=True)])
    )


def seconds(task) -> tuple[float, Any]:
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def against_densratio(n: int, timed: int) -> None:
    sites, (target, *sources), fresh = shift(n, seed=0)
    ours = ULSIF(bandwidths=SIGMAS, penalties=LAMBDAS, scale=False)
    fast = min(seconds(lambda: ours.fit(target, sources))[0] for _ in range(REPEATS))

    def loop() -> list:
        np.random.seed(0)  # noqa: NPY002  densratio draws its centres from the global stream
        grid = {"sigma_range": list(SIGMAS), "lambda_range": list(LAMBDAS), "verbose": False}
        return [densratio(target, X, **grid) for X in sources[:timed]]

    slow, fitted = seconds(loop)
    slow *= K / timed
    theirs = [r.compute_density_ratio(x) for r, x in zip(fitted, fresh[:timed], strict=True)]
    part = slice(0, timed)
    print(
        f"n = {n}: densratio {slow:8.1f} s ({timed} of {K} sources timed), "
        f"ours {fast:6.2f} s, {slow / fast:6.0f} times as fast; error on those sources: "
        f"densratio {error(theirs, sites, fresh[part]):.3f}, "
        f"ours {error(ours.weights(fresh)[part], sites, fresh[part]):.3f}"
    )


def accuracy() -> None:
    for n in (210, 1000):
        for name, ratio in ((name, ratio_named(name)) for name in RATIOS):
            errors, spent = [], 0.0
            for seed in range(3):
                sites, (target, *sources), fresh = shift(n, seed)
                took, fitted = seconds(lambda r=ratio, t=target, s=sources: r.fit(t, s))
                spent += took / 3
                errors.append(error(fitted.weights(fresh), sites, fresh))
            print(f"n = {n:<5} {name:<9} error {np.mean(errors):.3f}   fit {spent:6.2f} s")


def risk() -> None:
    rng = np.random.default_rng(0)
    losses = [rng.exponential(size=300) for _ in range(K)]
    weights = [rng.exponential(size=300) for _ in range(K)]
    for divergence in ("plug_in", "cross_fitted"):
        times = [
            seconds(lambda d=divergence: estimate(losses, weights, divergence=d))[0]
            for _ in range(300)
        ]
        print(f"{divergence:<13} median {1e3 * np.median(times):.2f} ms")


def memory() -> None:
    """Peak resident memory above what is in use before the fit (read from Linux' /proc)."""
    status = Path("/proc/self/status")
    if not status.exists():
        print("skipped: this system has no /proc")
        return

    def mebibytes(key: str) -> float:
        (line,) = [x for x in status.read_text().splitlines() if x.startswith(key)]
        return int(line.split()[1]) / 1024

    rng = np.random.default_rng(0)
    target = rng.standard_normal((1_000_000, D))
    sources = [rng.standard_normal((1000, D)) + 0.2 for _ in range(5)]
    for name, ratio in ((name, ratio_named(name)) for name in RATIOS):
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = mebibytes("VmRSS")
        took, _ = seconds(lambda r=ratio: r.fit(target, sources))
        print(f"{name:<9} peak {mebibytes('VmHWM') - before:5.0f} MiB above the data, {took:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="time densratio on all 30 sources")
    full = parser.parse_args().full
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, one BLAS thread\n")
    print("uLSIF for 30 sources, 7 columns, the same 9 x 9 grid")
    with threadpool_limits(1):
        against_densratio(1000, K if full else 3)
        against_densratio(5000, K if full else 3)
    print("\nmean squared error over the true weights' variance, 30 Gaussian sources, 7 columns")
    accuracy()
    print("\none risk estimate, 30 sources of 300 rows, variance_reduced with guard")
    risk()
    print("\nmemory of a fit with 1,000,000 target rows and 5 sources of 1000, 7 columns")
    memory()


if __name__ == "__main__":
    main()
