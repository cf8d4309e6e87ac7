"""Signs in uLSIF's fit that a source is out of reach, and how often its guard detects them.

    python benchmarks/reach.py [--seeds 20]

Target N(0, I), one source at a distance, in 1 and 7 dimensions, 1000 target rows. For the fit that
is best by J alone: the mean weight on new source rows (1 for the true ratio), and mean_T(w) over
mean_j(w^2) (also 1). With the guard: how often all weights are set to 0.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from shiftune.datasets import GaussianSites
from shiftune.ratio import ULSIF


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    rows = []
    for d in (1, 7):
        for n in (30, 210):
            for distance in (0, 1, 1.5, 2, 2.5, 3, 4, 6, 10, 14, 20):
                found = [one(d, n, distance, seed) for seed in range(seeds)]
                rows.append((d, n, distance, *np.median(found, axis=0)[:2], np.mean(found, 0)[2]))
    columns = ["columns", "source rows", "distance", "mean weight", "excess", "set to 0"]
    table = pd.DataFrame(rows, columns=columns).set_index(columns[:3])
    print("medians over the seeds, and the share of seeds in which the guard sets the weights to 0")
    print(table.round(2).to_string())


def one(d: int, n: int, distance: float, seed: int) -> tuple[float, float, float]:
    rng = np.random.default_rng([seed, d, n, int(10 * distance)])
    sites = GaussianSites(np.vstack([np.zeros(d), np.full(d, distance / np.sqrt(d))]))
    target, source = sites.draw(0, 1000, rng), sites.draw(1, n, rng)
    new_target, new_source = sites.draw(0, 1000, rng), sites.draw(1, 300, rng)
    plain = ULSIF(guard=False).fit(target, [source])
    w = plain.weights([new_source])[0]
    excess = plain.weights([new_target])[0].mean() / max(np.mean(w**2), 1e-300)
    guarded = ULSIF().fit(target, [source]).weights([new_source])[0]
    return float(w.mean()), float(excess), float(guarded.max() == 0)


if __name__ == "__main__":
    main()
