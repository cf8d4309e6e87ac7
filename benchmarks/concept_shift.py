"""The check of concept shift between sites, and Cochran's Q.

    python benchmarks/concept_shift.py [--runs 20]

Generated sites, N(m_j, S_j) in d dimensions, whose means (and, mostly, spreads) differ: the inputs
are shifted, p(y|x) is the same (level) or moves (power). Then Cochran's Q of the sources' risks
where covariate shift holds exactly. Then, where the environment variable SHIFTUNE_DATA names a
folder with real tables in `sites`, the check on them, and on the same inputs and sites with labels
drawn anew from one model for all sites, where knowing the site gains nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from reproduction.toy import KnownRatio
from sklearn.ensemble import HistGradientBoostingRegressor

from shiftune import ShiftProblem, ShiftSearch
from shiftune.checks._of_data import concept_shift_check
from shiftune.datasets import GaussianSites
from shiftune.ratio import ClassifierRatio
from shiftune.risk import estimate, heterogeneity, heterogeneity_of

FIVE_PERCENT = 0.05
# From here on a check mentions the gain, and is a caution.
MENTIONED, CAUTION = 0.01, 0.1
# Rows of a real site that are read.
MOST_ROWS = 300
# k sites of n rows in d columns; how y depends on x; its noise; how far the means lie apart (in
# standard deviations of a site).
LEVEL = [
    (5, 60, 4, "line", "plain", 0.7),
    (5, 60, 4, "curves", "uneven", 0.7),
    (5, 200, 4, "curves", "uneven", 0.7),
    (5, 1000, 4, "curves", "uneven", 0.7),
    (10, 200, 4, "curves", "heavy tails", 1.5),
    (10, 200, 10, "curves", "two classes", 0.7),
    (5, 200, 4, "curves", "four classes", 0.7),
    (30, 60, 4, "curves", "uneven", 0.7),
    (30, 200, 4, "curves", "uneven", 0.7),
]
# What moves, by how much (the noise has a standard deviation of about 1).
MOVES = [
    (5, 200, "level of one site", 0.2),
    (5, 200, "level of one site", 0.4),
    (10, 200, "slope of one site", 0.3),
    (10, 200, "slope of one site", 0.6),
    (30, 60, "levels of all sites", 0.1),
    (30, 60, "levels of all sites", 0.2),
    (10, 200, "slopes of all sites", 0.1),
    (10, 200, "slopes of all sites", 0.2),
]


def drawn_sites(rng, k, n, d, shape="curves", noise="uneven", apart=0.7, moves="", size=0.0):
    """Return k sites; what moves at one site moves at the first, "site 0"."""
    means, sds = rng.normal(0, apart, (k, d)), np.exp(rng.normal(0, 0.3, (k, d)))
    site = np.repeat(np.arange(k), n)
    X = means[site] + sds[site] * rng.standard_normal((k * n, d))
    f = X[:, 0] + X[:, 1] / 2
    if shape == "curves":
        f = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + X[:, 0] * X[:, 2] / 2
    one, everyone = size * (np.arange(k) == 0), rng.normal(0, size, k)
    if moves.startswith("level"):
        f = f + (one if "one" in moves else everyone)[site]
    elif moves:
        f = f + (one if "one" in moves else everyone)[site] * (X[:, 0] - means[site, 0])
    if noise == "two classes":
        y = (rng.random(k * n) < 1 / (1 + np.exp(-f))).astype(int)
    elif noise == "four classes":
        scores = np.column_stack([f, -f, X[:, 0], np.zeros(k * n)])
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    else:
        sd = np.exp(0.3 * X[:, 0]) if noise == "uneven" else 1.0
        tails = rng.standard_t(3, k * n) if noise == "heavy tails" else rng.standard_normal(k * n)
        y = f + sd * tails
    return X, y, np.array([f"site {j}" for j in range(k)])[site]


def gain_of(X, y, site, task=None):
    """Return the gain from knowing the site, its standard error, and the site that gains most."""
    problem = ShiftProblem.from_arrays(X, y, site, X[:50], task=task)
    search = ShiftSearch(["linear", "lightgbm"], n_trials=6, random_state=0, progress=False)
    check = concept_shift_check(search.fit(problem).result_)
    first = check.finding.partition("most at ")[2].partition("'")[2].partition("'")[0]
    return check.figures["gain"], check.figures["gain_stderr"], first


def level(runs: int) -> None:
    print(f"## Level: p(y|x) is the same everywhere, {runs} runs each\n")
    rows = []
    for k, n, d, shape, noise, apart in LEVEL:
        rngs = [np.random.default_rng([run, k, n]) for run in range(runs)]
        gains = np.array([gain_of(*drawn_sites(r, k, n, d, shape, noise, apart))[0] for r in rngs])
        rows.append(
            {
                "sites x rows, columns": f"{k} x {n}, {d}",
                "y given x": f"{shape}, {noise}",
                "means apart": apart,
            }
            | _summary(gains)
        )
    print(_markdown(rows))


def power(runs: int) -> None:
    print(f"\n## Power: p(y|x) moves, {runs} runs each (curves, uneven noise, 4 columns)\n")
    rows = []
    for k, n, moves, size in MOVES:
        rngs = [np.random.default_rng([run, k, n]) for run in range(runs)]
        found = [gain_of(*drawn_sites(r, k, n, 4, moves=moves, size=size)) for r in rngs]
        row = {"sites x rows": f"{k} x {n}", "moves": f"{moves}, {size}"}
        row |= _summary(np.array([gain for gain, _, _ in found]))
        right = np.mean([first == "site 0" for _, _, first in found])
        row["the site is named first"] = f"{right:.2f}" if "one" in moves else ""
        rows.append(row)
    print(_markdown(rows))


def _summary(gains) -> dict[str, str]:
    return {
        "mean gain": f"{gains.mean():+.3f}",
        "largest": f"{gains.max():+.3f}",
        "mentioned": f"{np.mean(gains >= MENTIONED):.2f}",
        "caution": f"{np.mean(gains >= CAUTION):.2f}",
    }


def cochran(runs: int) -> None:
    """Sites N(m_j, 1) in 2 dimensions, y = x_1 + noise, loss (0.5 - y)^2."""
    print(f"\n## Cochran's Q where covariate shift holds exactly, {runs} runs each\n")
    print(
        "Share of p values below 0.05: taken as published (sources' means and variances, "
        "chi-square), and by `heterogeneity_of`; power: the same where every other source has "
        "losses 1.5 times as large.\n"
    )
    rows = []
    for k, n in [(5, 40), (5, 300), (20, 40), (20, 300)]:
        found = {"known": [], "logistic": []}
        for run in range(runs):
            rng = np.random.default_rng([run, k, n])
            sites = GaussianSites(np.vstack([np.zeros(2), rng.normal(0, 0.4, (k, 2))]))
            target = sites.draw(0, 1000, rng)
            density = [sites.draw(j, n, rng) for j in range(1, k + 1)]
            X = [sites.draw(j, n, rng) for j in range(1, k + 1)]
            losses = [(0.5 - x[:, 0] - rng.standard_normal(n)) ** 2 for x in X]
            moved = [loss * (1 + 0.5 * (j % 2)) for j, loss in enumerate(losses)]
            known = KnownRatio([sites.ratio(j) for j in range(1, k + 1)])
            for name, ratio in (("known", known), ("logistic", ClassifierRatio())):
                weights = ratio.fit(target, density).weights(X)
                risk = estimate(losses, weights)
                ours, power = heterogeneity_of(risk), heterogeneity_of(estimate(moved, weights))
                if ours is None or power is None:
                    continue
                m, v = risk.estimates[risk.lam > 0], (risk.divergences / risk.n)[risk.lam > 0]
                p_values = [heterogeneity(m, v).p_value, ours.p_value, power.p_value]
                found[name].append(np.array(p_values) < FIVE_PERCENT)
        for name, small in found.items():
            published, ours, power = np.mean(small, axis=0)
            rows.append(
                {
                    "sources x rows": f"{k} x {n}",
                    "weights": name,
                    "as published": f"{published:.3f}",
                    "heterogeneity_of": f"{ours:.3f}",
                    "power": f"{power:.3f}",
                }
            )
    print(_markdown(rows))


def real(folder: Path, draws: int) -> None:
    print("\n## Real tables\n")
    print(
        "gain: share of the loss that goes away with 300 labels of a site (standard error over "
        f"sites), {MOST_ROWS} rows of each site; control: {draws} tables with the same inputs and "
        "sites, and labels drawn anew from one model for all sites.\n"
    )
    rows = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as table:
            X, y, site = table["X"], table["y"], table["site"]
        rng = np.random.default_rng(0)
        drawn = [rng.permutation(np.flatnonzero(site == s))[:MOST_ROWS] for s in np.unique(site)]
        rows_read = np.concatenate(drawn)
        X, y, site = X[rows_read], y[rows_read], site[rows_read]
        stored = json.loads(path.with_suffix(".json").read_text())["task"]
        task = "regression" if stored == "regression" else "classification"
        gain, stderr, _ = gain_of(X, y, site, task)
        row = {"table": path.stem, "sites": len(drawn), "gain": f"{gain:+.1%} ({stderr:.1%})"}
        row["control, by draw"] = ""
        if stored != "multiclass":
            again = [
                _labels_of_one_model(X, y, task, np.random.default_rng(d)) for d in range(draws)
            ]
            row["control, by draw"] = ", ".join(
                f"{gain_of(X, labels, site, task)[0]:+.1%}" for labels in again
            )
        rows.append(row)
        print(row, flush=True, file=sys.stderr)
    print(_markdown(rows))


def _labels_of_one_model(X, y, task, rng):
    """Labels with a common p(y|x): a model of the pooled table, and its residuals, shuffled."""
    classes = np.unique(y)
    number = y.astype(float) if task == "regression" else (y == classes[-1]).astype(float)
    fitted = HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(X, number).predict(X)
    if task == "regression":
        return fitted + rng.permutation(number - fitted)
    return (rng.random(len(y)) < fitted).astype(int)


def _markdown(rows: list[dict[str, object]]) -> str:
    table = pd.DataFrame(rows).astype(str)
    lines = [list(table.columns), ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    print("# Concept shift between sites\n")
    level(runs)
    power(runs)
    cochran(20 * runs)
    folder = Path(os.environ.get("SHIFTUNE_DATA", "")) / "sites"
    if os.environ.get("SHIFTUNE_DATA") and folder.is_dir():
        real(folder, max(runs // 10, 1))


if __name__ == "__main__":
    main()
