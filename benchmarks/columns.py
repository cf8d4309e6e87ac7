"""Evidence for two rules of `shiftune.columns`: identifiers, and the days of a date.

    python -m benchmarks.columns [--draws N] [--out FILE]

1. Whole numbers that differ in almost every row are left out unless the label differs over ten
   intervals of them within sites (an F test at 1 %). How often does a number without any meaning
   pass, for labels that are far from normal, and how often does a quantity?
2. Days since 1970 are a feature only where the target's dates lie within those of the sources. What
   do they cost and gain elsewhere? Errors on the target's rows, relative to those without days.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftune.columns._column import _helps

Floats = NDArray[np.float64]
Rng = np.random.Generator

LABELS: dict[str, Callable[[Floats, Rng], Floats]] = {
    "normal": lambda z, rng: z,
    "lognormal (costs)": lambda z, rng: np.exp(1.5 * z),
    "t with 2 degrees of freedom": lambda z, rng: z / np.sqrt(rng.chisquare(2, len(z)) / 2),
    "two classes, half": lambda z, rng: (z > 0).astype(float),
    "two classes, 2 %": lambda z, rng: (z > 2.054).astype(float),
    "five classes": lambda z, rng: np.digitize(z, [-0.84, -0.25, 0.25, 0.84]).astype(object),
    "spread grows with the column": lambda z, rng: z * np.linspace(0.2, 2, len(z)),
}
SIZES = {(60, 3): "60 rows, 3 sites", (500, 6): "500 rows, 6 sites", (5_000, 30): "5,000, 30 sites"}
EXPLAINED = (0.0, 0.02, 0.05, 0.1, 0.2)


def passing(draws: int) -> pd.DataFrame:
    """Share of columns that pass, by label and by the share of variance that they explain."""
    found = []
    for label, made in LABELS.items():
        for (n, sites), size in SIZES.items():
            for share in EXPLAINED:
                passed = 0
                for draw in range(draws):
                    rng = np.random.default_rng([n, int(100 * share), draw])
                    x = np.sort(rng.choice(1_000 * n, n, replace=False)).astype(float)
                    z = np.sqrt(share) * (x - x.mean()) / x.std()
                    y = made(z + np.sqrt(1 - share) * rng.normal(size=n), rng)
                    where = rng.integers(0, sites, n)
                    passed += _helps(pd.Series(x), pd.Series(where), pd.Series(y))
                found.append((label, size, f"{share:.0%}", passed / draws))
    table = pd.DataFrame(found, columns=["label", "rows", "explained", "share"])
    return table.pivot(index=["label", "rows"], columns="explained", values="share")[
        [f"{share:.0%}" for share in EXPLAINED]
    ].reindex([(label, size) for label in LABELS for size in SIZES.values()])


TRENDS: dict[str, Callable[[Floats], Floats]] = {
    "none": lambda years: 0 * years,
    "linear": lambda years: 0.5 * years,
    "one step": lambda years: (years > 1.5).astype(float),
    "levels off": lambda years: 1.5 * np.tanh(years - 1),
    "turns round": lambda years: np.abs(years - 2.0),
}


def days(draws: int) -> pd.DataFrame:
    """Error with days relative to without, by trend, model and place of the target."""
    models = {
        "LightGBM": lambda: LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1, num_leaves=15),
        "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))),
    }
    found = []
    for trend, level in TRENDS.items():
        for place in ("within", "later", "later, and sites one after another"):
            for draw in range(draws):
                rng = np.random.default_rng([draw, 7])
                n, new, sites = 1_200, 400, 6
                where = np.append(np.arange(n) % sites, np.full(new, sites))
                span = (0.0, 2.0) if place == "within" else (2.0, 2.5)
                first, last = np.zeros(n), np.full(n, 2.0)
                if place.endswith("another"):
                    first, last = where[:n] / sites * 2, (where[:n] + 1) / sites * 2
                years = np.append(rng.uniform(first, last), rng.uniform(*span, new))
                x = rng.normal(size=(n + new, 4)) + 0.5 * rng.normal(size=(sites + 1, 4))[where]
                season = np.sin(2 * np.pi * years)
                effect = 0.5 * rng.normal(size=sites + 1)[where]
                y = x[:, 0] + 0.5 * season + level(years) + effect + rng.normal(size=n + new)
                month = np.floor(12 * (years % 1))
                plain = np.column_stack([x, month])
                clipped = np.clip(years, years[:n].min(), years[:n].max())
                for name, make in models.items():
                    errors = []
                    for X in (plain, np.column_stack([plain, clipped])):
                        model = make().fit(X[:n], y[:n])
                        errors.append(np.mean((model.predict(X[n:]) - y[n:]) ** 2))
                    found.append((trend, place, name, errors[1] / errors[0] - 1))
    table = pd.DataFrame(found, columns=["trend", "target's dates", "model", "change"])
    return (
        table.groupby(["trend", "target's dates", "model"], sort=False)["change"]
        .agg(["mean", "median", "max"])
        .unstack("model")
    )


def _markdown(table: pd.DataFrame) -> str:
    rows = [list(table), ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    first = (100 * passing(args.draws)).round(1)
    second = (100 * days(max(args.draws // 4, 2))).round(1)
    text = "\n".join(
        [
            "# Identifiers and days of dates",
            "",
            f"`python -m benchmarks.columns --draws {args.draws}`",
            "",
            "## Columns that pass as a help in predicting the label, in per cent",
            "",
            "By the share of the (latent) variance that the column explains; 0 % is an identifier.",
            "",
            _markdown(first.reset_index()),
            "",
            "## Squared error with days since 1970 against without, change in per cent",
            "",
            _markdown(second.set_axis(map(" ".join, second.columns), axis=1).reset_index()),
            "",
        ]
    )
    print(text)
    if args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
