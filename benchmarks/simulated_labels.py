"""A few labels of the target on simulated sites: loss, interval, promise, and a mixed model.

    python benchmarks/simulated_labels.py [--runs 60] [--first-seed 3000] [--only NAME ...]
        [--rows 400] [--jobs 2] [--out FILE]

In every situation sites are drawn, a small search of a linear model runs without labels
(`situations.search_of`), and 10, 30 and 100 random rows of the target update it. Shown are means
over the runs of the loss on 20,000 new rows, relative to that without labels: of the update, and of
a mixed model fitted by restricted maximum likelihood on the rows of all sites and the labels (BLUP;
its terms are the true ones, random intercepts or intercepts and slopes); the worst run; the share
of 90 % intervals of `risk_` that cover the loss; and what `label_worth` promised.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.optimize import minimize
from situations import NORMAL, Sites, Situation, search_of

from shiftune.evaluate._losses import loss_named

LABELS = (10, 30, 100)
LEVEL, NEW_ROWS = 0.9, 20_000
ALIKE = replace(NORMAL, intercepts=0.0, curve=0.0, sizes=(150,) * 6)
LEVELS = replace(ALIKE, intercepts=0.7)
SITUATIONS = {
    "intercepts, 3 sources": replace(LEVELS, sizes=(150,) * 3),
    "intercepts, 10 sources": replace(LEVELS, sizes=(150,) * 10),
    "intercepts, 3 sources, same columns": replace(LEVELS, sizes=(150,) * 3, apart=0.0),
    "slopes, 3 sources": replace(LEVELS, sizes=(150,) * 3, intercepts=0.3, slopes=0.4),
    "slopes, 10 sources": replace(LEVELS, sizes=(150,) * 10, intercepts=0.3, slopes=0.4),
    "alike": ALIKE,
    "alike, target 2 sd higher": replace(ALIKE, target_level=2.0),
    "alike, 30 sources, target 2 sd higher": replace(ALIKE, sizes=(50,) * 30, target_level=2.0),
    "outside": replace(ALIKE, curve=0.3, target_shift=(3.0,)),
    "heavy tails": replace(LEVELS, noise=lambda rng, n: rng.standard_t(3, n)),
    "small sites": replace(LEVELS, sizes=(40,) * 8),
    "2 sources": replace(LEVELS, sizes=(300,) * 2),
    "1 source, target 2 sd higher": replace(ALIKE, sizes=(600,), target_level=2.0),
    "classes, intercepts": replace(LEVELS, task="classification"),
    "classes, alike": replace(ALIKE, task="classification"),
    "classes, target 2 higher": replace(ALIKE, task="classification", target_level=2.0),
}


class MixedModel:
    """Linear mixed model with independent random effects of the sites, by REML."""

    def __init__(self, X: list[np.ndarray], y: list[np.ndarray], slopes: bool) -> None:
        self.sites = [
            (np.column_stack([np.ones(len(x)), x]), own) for x, own in zip(X, y, strict=True)
        ]
        self.random = self.sites[0][0].shape[1] if slopes else 1
        start = np.log([0.1] * (2 if slopes else 1))
        options = {"maxiter": 150, "xatol": 0.02, "fatol": 1e-3}
        best = minimize(lambda t: self._fit(t)[0], start, method="Nelder-Mead", options=options)
        _, self.beta, self.inverses = self._fit(best.x)

    def _fit(self, log_ratios: np.ndarray) -> tuple[float, np.ndarray, list[np.ndarray]]:
        ratios = np.exp(np.clip(log_ratios, -12, 6))
        s = np.array([ratios[0], *np.full(self.random - 1, ratios[-1])])
        d = self.sites[0][0].shape[1]
        A, b, squares, log_det, n, inverses = np.zeros((d, d)), np.zeros(d), 0.0, 0.0, 0, []
        for x, y in self.sites:
            Z = x[:, : self.random]
            inverse = np.linalg.inv(np.diag(1 / s) + Z.T @ Z)
            both = np.column_stack([x, y])
            left = both - Z @ (inverse @ (Z.T @ both))
            A, b, squares = A + x.T @ left[:, :-1], b + x.T @ left[:, -1], squares + y @ left[:, -1]
            log_det += np.linalg.slogdet(np.eye(self.random) + (Z.T @ Z) * s)[1]
            n += len(y)
            inverses.append(inverse)
        beta = np.linalg.solve(A, b)
        noise = (squares - b @ beta) / (n - d)
        value = (log_det + np.linalg.slogdet(A)[1] + (n - d) * np.log(noise)) / 2
        return value, beta, inverses

    def predict_first(self, X: np.ndarray) -> np.ndarray:
        """Predict rows of the first site."""
        x, y = self.sites[0]
        effect = self.inverses[0] @ (x[:, : self.random].T @ (y - x @ self.beta))
        rows = np.column_stack([np.ones(len(X)), X])
        return rows @ self.beta + rows[:, : self.random] @ effect


def run(name: str, seed: int, rows: int) -> list[dict]:
    """Draw one problem; return a row for every number of labels."""
    warnings.simplefilter("ignore")
    law: Situation = SITUATIONS[name]
    sites = Sites(law, seed)
    problem = sites.problem(rows)
    search = search_of(law, problem, seed)
    X_new, y_new, _ = sites.rows(0, NEW_ROWS)
    X, y, _ = sites.rows(0, max(LABELS))
    values = law.task == "regression"
    loss = loss_named("squared" if values else "log_loss")
    columns = list(problem.target.X)

    def truth(model: Any) -> float:
        frame = pd.DataFrame(X_new, columns=columns)
        predicted = model.predict(frame) if values else model.predict_proba(frame)
        return float(loss(y_new, predicted, None if values else search.classes_).mean())

    before, found = truth(search), []
    several = len(law.sizes) > 1
    promised = search.label_worth(LABELS)["gain"] if several else None
    for m in LABELS:
        updated = search.update(pd.DataFrame(X[:m], columns=columns), y[:m])
        after = truth(updated)
        low, high = updated.risk_.interval(LEVEL)
        row = {
            "situation": name,
            "seed": seed,
            "labels": m,
            "before": before,
            "after": after,
            "used": updated.used_,
            "estimate": updated.risk_.value,
            "low": low,
            "high": high,
            "promised": np.nan if promised is None else promised[m],
            "mixed": np.nan,
        }
        if values:
            given = [(np.asarray(s.X, dtype=float), s.labels) for s in problem.sources]
            mixed = MixedModel(
                [X[:m], *(x for x, _ in given)],
                [y[:m], *(own for _, own in given)],
                law.slopes > 0,
            )
            row["mixed"] = float(np.mean((mixed.predict_first(X_new) - y_new) ** 2))
        found.append(row)
    return found


def page(table: pd.DataFrame) -> str:
    """Return the results as Markdown."""
    lines = [
        "| situation | update, 10 / 30 / 100 labels | mixed model | worst run | 90 % covers | "
        "estimate / truth | promised / got |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, own in table.groupby("situation", sort=False):
        by = own.assign(
            relative=own["after"] / own["before"],
            mixed=own["mixed"] / own["before"],
            covered=own["after"].between(own["low"], own["high"]),
            ratio=own["estimate"] / own["after"],
            got=own["before"] - own["after"],
        ).groupby("labels")
        promise = by["promised"].mean() / by["got"].mean()

        def cells(values: pd.Series, digits: int = 2) -> str:
            return " ".join("-" if np.isnan(v) else f"{v:.{digits}f}" for v in values)

        lines.append(
            f"| {name} | {cells(by['relative'].mean(), 3)} | {cells(by['mixed'].mean(), 3)} | "
            f"{cells(by['relative'].max())} | {cells(by['covered'].mean())} | "
            f"{cells(by['ratio'].median())} | {cells(promise)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the situations."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--first-seed", type=int, default=3000)
    parser.add_argument("--only", nargs="*", default=list(SITUATIONS), choices=list(SITUATIONS))
    parser.add_argument("--rows", type=int, default=400, help="rows of the target")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.runs)
    tasks = [(name, seed) for name in args.only for seed in seeds]
    found = Parallel(n_jobs=args.jobs, verbose=1)(delayed(run)(*t, args.rows) for t in tasks)
    table = pd.DataFrame([row for rows in found for row in rows])
    if args.out:
        table.to_csv(args.out, index=False, float_format="%.6g")
    print(page(table))


if __name__ == "__main__":
    main()
