"""Where no source overlaps enough: fall back on naive, or on self-normalised weights.

    python benchmarks/fallback.py [--seeds 100]

Toy problems (one column, c = 3, 4, 5) and their like in seven columns, in which the covariate
shift assumption holds: the "model" answers theta, and the best theta depends on p(x) alone. Only
problems in which the guard leaves out every source count. For each of the limits under which
self-normalised weights take the place of naive: the excess risk of the chosen theta over the best.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections import defaultdict

import numpy as np

from shiftune.datasets import GaussianSites
from shiftune.errors import OverlapWarning
from shiftune.ratio import ULSIF, ClassifierRatio, effective_rows
from shiftune.risk import estimate

MIN_ESS = (1.0, 3.0, 10.0, 30.0)
MIN_MEAN_WEIGHT = (0.0, 0.01, 0.1)
CASES = [(1, 3.0), (1, 4.0), (1, 5.0), (7, 0.8), (7, 1.2)]


def problem(d: int, c: float, seed: int):
    rng = np.random.default_rng([seed, d, int(10 * c)])
    k = 2 if d == 1 else 5
    centres = rng.uniform(-c, c, (k, d)) if d == 1 else rng.normal(0, c, (k, d))
    sites = GaussianSites(np.vstack([rng.uniform(-1, 1, d), centres]))
    target = sites.draw(0, 1000, rng)
    density = [sites.draw(j, 210, rng) for j in range(1, k + 1)]
    X = [sites.draw(j, 300, rng) for j in range(1, k + 1)]
    y = [0.7 * x[:, 0] + 0.3 + rng.standard_normal(300) for x in X]
    return target, density, X, y, 0.7 * sites.means[0, 0] + 0.3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore", OverlapWarning)
    ratios = {
        "logistic": ClassifierRatio(),
        "uLSIF": ULSIF(),
        "uLSIF, no guard": ULSIF(guard=False),
    }
    for (d, c), (name, ratio) in itertools.product(CASES, ratios.items()):
        excess, together = defaultdict(list), []
        for seed in range(seeds):
            target, density, X, y, best = problem(d, c, seed)
            weights = ratio.fit(target, density).weights(X)
            if not all(estimate([np.ones(300)] * len(X), weights).left_out):
                continue
            ess = np.array([float(effective_rows(w)[0]) for w in weights])
            means = np.array([w.mean() for w in weights])
            together.append(ess.sum())
            naive = np.concatenate(y).mean()
            excess["naive"].append((naive - best) ** 2 / 2)
            for fewest, lowest in itertools.product(MIN_ESS, MIN_MEAN_WEIGHT):
                heard = np.where((means >= lowest) & (means > 0), ess, 0.0)
                theta = naive
                if heard.sum() >= fewest:
                    own = [
                        w @ v / w.sum() if h else 0.0
                        for w, v, h in zip(weights, y, heard, strict=True)
                    ]
                    theta = heard @ own / heard.sum()
                excess[f"ess >= {fewest:g}, mean weight >= {lowest:g}"].append(
                    (theta - best) ** 2 / 2
                )
        if not together:
            continue
        print(
            f"\n{d} column(s), c = {c:g}, {name}: {len(together)} of {seeds} problems without "
            f"overlap, median of the effective rows in all {np.median(together):.1f}"
        )
        for policy, values in excess.items():
            error = np.std(values) / np.sqrt(len(values))
            print(f"  {policy:32s} {np.mean(values):8.3f} ({error:.3f})")


if __name__ == "__main__":
    main()
