"""Level and power of the test of p(y|x), and its results on real tables.

    python -m benchmarks.stability [--runs 100]

Generated sites, N(m_j, S_j) in d dimensions, whose means (and, mostly, spreads) differ: the inputs
are shifted, p(y|x) is the same (level) or moves (power). Then Cochran's Q of the sources' risks
where covariate shift holds exactly. Then, where the environment variable SHIFTUNE_DATA names a
folder with real tables in `sites`, the result of the test on them, and on the same inputs and sites
with labels drawn anew from one model for all sites, where it should find nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.label_stability import NotTested, label_stability
from reproduction.toy import KnownRatio
from sklearn.ensemble import HistGradientBoostingRegressor

from shiftune.datasets import GaussianSites
from shiftune.errors import OverlapWarning
from shiftune.problem import Site
from shiftune.ratio import ClassifierRatio
from shiftune.risk import estimate, heterogeneity, heterogeneity_of

FIVE_PERCENT = 0.05
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
    return [Site(f"site {j}", X[site == j], y[site == j]) for j in range(k)]


def level(runs: int) -> None:
    print(f"## Level: p(y|x) is the same everywhere, {runs} runs each\n")
    print(
        "Share of runs with a p value below 0.05 (Monte Carlo error "
        f"{np.sqrt(0.05 * 0.95 / runs):.3f} at 0.05); share of runs in which any site is named.\n"
    )
    rows = []
    for k, n, d, shape, noise, apart in LEVEL:
        found, seconds = [], time.perf_counter()
        for run in range(runs):
            rng = np.random.default_rng([run, k, n])
            test = label_stability(drawn_sites(rng, k, n, d, shape, noise, apart))
            found.append((test.p_value < FIVE_PERCENT, bool(test.moved()), test.gain))
        wrong, named, gain = np.mean(found, axis=0)
        rows.append(
            {
                "sites x rows, columns": f"{k} x {n}, {d}",
                "y given x": f"{shape}, {noise}",
                "means apart": apart,
                "p < 0.05": f"{wrong:.3f}",
                "a site named": f"{named:.3f}",
                "mean gain": f"{gain:+.3f}",
                "s": f"{(time.perf_counter() - seconds) / runs:.2f}",
            }
        )
    print(_markdown(rows))


def power(runs: int) -> None:
    print(f"\n## Power: p(y|x) moves, {runs} runs each (curves, uneven noise, 4 columns)\n")
    rows = []
    for k, n, moves, size in MOVES:
        found = []
        for run in range(runs):
            rng = np.random.default_rng([run, k, n])
            test = label_stability(drawn_sites(rng, k, n, 4, moves=moves, size=size))
            named = test.moved()
            right = named[:1] == ["site 0"] if "one" in moves else bool(named)
            found.append((test.p_value < FIVE_PERCENT, right, test.gain))
        seen, right, gain = np.mean(found, axis=0)
        rows.append(
            {
                "sites x rows": f"{k} x {n}",
                "moves": f"{moves}, {size}",
                "p < 0.05": f"{seen:.2f}",
                "the site named first (any, where all move)": f"{right:.2f}",
                "mean gain": f"{gain:+.3f}",
            }
        )
    print(_markdown(rows))


def cochran(runs: int) -> None:
    """Sites N(m_j, 1) in 2 dimensions, y = x_1 + noise, loss (0.5 - y)^2."""
    print(f"\n## Cochran's Q where covariate shift holds exactly, {runs} runs each\n")
    print(
        "Share of p values below 0.05: taken as published (sources' means and variances, "
        "chi-square), and by `heterogeneity_of`; power: the same where every other source has "
        "losses 1.5 times as large.\n"
    )
    warnings.simplefilter("ignore", OverlapWarning)
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
        "explained: share of the label's variance, by the inputs; gain: share of the remaining "
        "squared error, by knowing the site as well (standard error); control: "
        f"{draws} tables with the same inputs and sites, and labels drawn anew from one model for "
        "all sites.\n"
    )
    rows = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as table:
            X, y, site = table["X"], table["y"], table["site"]
        stored = json.loads(path.with_suffix(".json").read_text())["task"]
        task = "regression" if stored == "regression" else "classification"
        found = label_stability(_sites(X, y, site), task=task)
        asked = found.sites["not_tested"] == NotTested.TESTED
        row = {
            "table": path.stem,
            "sites": len(found.sites),
            "p value": f"{found.p_value:.1g}",
            "sites named": f"{len(found.moved())} of {asked.sum()}",
            "explained": f"{found.explained:.0%}",
            "gain": f"{found.gain:+.1%} ({found.gain_stderr:.1%})",
            "control: p < 0.05": "",
            "control: largest gain": "",
        }
        if stored != "multiclass":
            wrong, gains = 0, []
            for draw in range(draws):
                again = _labels_of_one_model(X, y, task, np.random.default_rng(draw))
                test = label_stability(
                    _sites(X, again, site), task=task, max_rows=3000, random_state=draw
                )
                wrong += test.p_value < FIVE_PERCENT
                gains.append(test.gain)
            row["control: p < 0.05"] = f"{wrong} of {draws}"
            row["control: largest gain"] = f"{max(gains):+.1%}"
        rows.append(row)
    print(_markdown(rows))


def _sites(X, y, site) -> list[Site]:
    return [Site(str(name), X[site == name], y[site == name]) for name in np.unique(site)]


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
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    print("# Is p(y|x) the same everywhere?\n")
    level(runs)
    power(max(runs // 4, 1))
    cochran(4 * runs)
    folder = Path(os.environ.get("SHIFTUNE_DATA", "")) / "sites"
    if os.environ.get("SHIFTUNE_DATA") and folder.is_dir():
        real(folder, max(runs // 20, 1))


if __name__ == "__main__":
    main()
