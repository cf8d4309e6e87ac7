"""Rows of the table about data: reading, preparing, adjusting, memory, checks, many sites."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from benchmarks.preparation import TRANSFORM, Clock
from benchmarks.speed.measure import Figures, Growth, cpu, memory, rounded
from optuna.distributions import FloatDistribution, IntDistribution
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import PolynomialFeatures

from shiftune import ShiftProblem, ShiftSearch
from shiftune.checks._of_result import influence_check
from shiftune.models import ready_model
from shiftune.models._by_name import ColumnReader
from shiftune.risk import RegressionAdjusted
from shiftune.search._settings import check_settings
from shiftune.tables import read_file

SPACE = {
    "num_leaves": IntDistribution(4, 64, log=True),
    "learning_rate": FloatDistribution(0.02, 0.3, log=True),
}


def table(n: int, sites: int = 6, random_state: int = 0) -> pd.DataFrame:
    """Twelve numbers (four with gaps), six categories of 3 to 43 levels, a date, a boolean."""
    rng = np.random.default_rng(random_state)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n).round(4) for i in range(12)})
    for i in range(0, 12, 3):
        frame.loc[rng.random(n) < 0.05, f"x{i}"] = np.nan
    for i in range(6):
        frame[f"c{i}"] = rng.choice([f"level {j}" for j in range(3 + 8 * i)], n)
    days = pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    frame["seen"] = (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d")
    frame["urgent"] = rng.random(n) < 0.5
    score = frame["x1"] + frame["x2"] * frame["urgent"] + rng.normal(size=n)
    site = rng.choice([f"site {j}" for j in range(sites)], n)
    return frame.assign(site=site, sick=np.where(score > 0, "yes", "no"))


def arrays(sites: int, rows: int, columns: int, dtype: str = "float64") -> dict[str, Any]:
    """Arguments of `ShiftProblem.from_arrays`: sites whose means differ, and two classes."""
    rng = np.random.default_rng(0)
    n = sites * rows
    where = np.repeat(np.arange(sites), rows)
    X = rng.standard_normal((n, columns), dtype=np.float32).astype(dtype, copy=False)
    X += rng.normal(0, 0.3, (sites, columns)).astype(dtype)[where]
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n) > 0).astype(int)
    return {"X": X, "y": y, "groups": where, "X_target": X[: max(rows, 200)] + np.float32(0.1)}


def reading(quick: bool) -> Figures:
    """`ShiftProblem.from_frame` against reading the same CSV file."""
    sizes = [10_000, 30_000] if quick else [50_000, 200_000, 1_000_000]
    seconds, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            path = Path(folder, "table.csv")
            table(n).to_csv(path, index=False)
            read = cpu(lambda path=path: read_file(path))
            df = read_file(path)
            spent = cpu(
                lambda df=df: ShiftProblem.from_frame(
                    df, site="site", target="site 0", label="sick"
                )
            )
            seconds.append(spent)
            ratios.append(spent / read)
    return Figures(
        ratios[-1],
        f"reading the file, {sizes[-1]:,} rows of 22 columns",
        (Growth.of("rows", sizes, seconds),),
        {"ratios": rounded(ratios)},
    )


def from_arrays(quick: bool) -> Figures:
    """`ShiftProblem.from_arrays`, 1,000 sites of 200 rows against 10 of 20,000."""
    sizes = [30, 100] if quick else [100, 300, 1000]
    seconds = []
    for sites in sizes:
        given = arrays(sites, 200, 10)
        seconds.append(cpu(lambda given=given: ShiftProblem.from_arrays(**given), 3))
    few = arrays(10, sizes[-1] * 20, 10)
    one = cpu(lambda: ShiftProblem.from_arrays(**few), 3)
    return Figures(
        seconds[-1] / one,
        "10 sites of the same rows",
        (Growth.of("sites", sizes, seconds),),
    )


def adjusted(quick: bool) -> Figures:
    """Fit and ten estimates of `RegressionAdjusted` against a ridge regression on all products."""
    sizes = [2_000, 6_000] if quick else [10_000, 40_000, 160_000]
    seconds = []
    for n in sizes:
        given = arrays(8, n // 8, 20)
        seconds.append(cpu(lambda given=given: _estimates(given, 8)))
    given = arrays(8, sizes[1] // 8, 20)
    made = PolynomialFeatures(2, include_bias=False).fit_transform(given["X"])
    peer = cpu(lambda: Ridge(9.0 * made.shape[1]).fit(made, given["y"]))
    wide_sizes = [50, 100] if quick else [250, 500, 1000, 2000]
    wide = []
    for columns in wide_sizes:
        many = arrays(8, 250, columns)
        wide.append(cpu(lambda many=many: _estimates(many, 8)))
    error, plain = _cliff(30_000 if quick else 90_000)
    return Figures(
        seconds[1] / peer,
        f"scikit-learn's Ridge on the 230 products, {sizes[1]:,} rows of 20 columns",
        (Growth.of("rows", sizes, seconds), Growth.of("columns", wide_sizes, wide)),
        {"estimate over truth, large table": error, "mean over truth, large table": plain},
    )


def _estimates(given: dict[str, Any], sites: int) -> None:
    X = np.split(given["X"], sites)
    losses = np.split(given["y"].astype(float), sites)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = RegressionAdjusted().fit(given["X_target"], X)
    for _ in range(10):
        fitted.estimate(losses)


def _cliff(n: int) -> tuple[float, float]:
    """Estimate and plain mean over the truth, where the loss depends on a product of columns."""
    rng = np.random.default_rng(0)

    def draw(rows: int, correlation: float) -> np.ndarray:
        X = rng.normal(size=(rows, 20))
        X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
        return X

    X, target = [draw(n // 5, c) for c in (-0.2, -0.1, 0, 0.1, 0.2)], draw(20_000, 0.3)
    losses = [1 + x[:, 0] * x[:, 1] for x in X]
    value = RegressionAdjusted().fit(target, X).estimate(losses).value
    truth = 1 + float(np.mean(target[:, 0] * target[:, 1]))
    return value / truth, float(np.mean(np.concatenate(losses))) / truth


def bytes_held(quick: bool) -> Figures:
    """Problem, split, stacked rows and estimator before the first trial, in bytes given."""
    rows = 4_000 if quick else 100_000
    given = arrays(10, rows, 20, "float32")
    size = sum(array.nbytes for array in given.values())

    def prepared() -> Any:
        problem = ShiftProblem.from_arrays(**given)
        search = ShiftSearch(lightgbm.LGBMClassifier(), SPACE)
        settings = check_settings(search.get_params(deep=False), problem)
        split = settings.split(problem)
        return problem, split, settings.context(problem, split, None)

    held, peak, _ = memory(prepared)
    return Figures(
        held / size,
        f"the arrays given, {10 * rows:,} rows of 20 columns, float32",
        details={"largest on the way": peak / size},
    )


def preparation(quick: bool) -> Figures:
    """Transformers of a pipeline against the search they are part of."""
    n, trials = (4_000, 3) if quick else (100_000, 10)
    df = table(n)
    df["seen"] = pd.to_datetime(df["seen"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = ShiftProblem.from_frame(df, site="site", label="sick", target="site 0")
    model = ready_model("lightgbm", problem.task, problem.columns)
    space = {f"model__{name}": values for name, values in SPACE.items()}
    search = ShiftSearch(model.pipeline, space, n_trials=trials, progress=False)
    steps = [(c, m) for c in (ColumnReader, ColumnTransformer) for m in TRANSFORM]
    with Clock().of(*steps) as clock:
        spent = cpu(lambda: search.fit(problem))
    return Figures(clock.seconds / spent, f"the search, {n:,} rows, {trials} trials")


def binning(quick: bool) -> Figures:
    """LightGBM's binning of the rows, as a share of a fit (100 trees)."""
    given = arrays(8, 500 if quick else 12_500, 20)
    X, y = given["X"], given["y"]
    fit = cpu(lambda: lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(X, y), 2)
    bins = cpu(lambda: lightgbm.Dataset(X, y, params={"num_threads": 1}).construct(), 2)
    problem = ShiftProblem.from_arrays(**given)
    search = ShiftSearch("lightgbm", n_trials=2 if quick else 5, progress=False)
    with Clock().of((lightgbm.Dataset, "construct")) as clock:
        spent = cpu(lambda: search.fit(problem))
    share = clock.seconds / spent
    return Figures(
        bins / fit, f"a fit, {len(X):,} rows of 20 columns", details={"of a whole search": share}
    )


def checks(quick: bool) -> Figures:
    """Checks of a result against its search (50 trials, of which 10 are timed)."""
    shapes = [(5, 200, 5), (10, 100, 10)] if quick else [(10, 2000, 20), (10, 2000, 200)]
    ratios = []
    for shape in shapes:
        problem = ShiftProblem.from_arrays(**arrays(*shape))
        search = ShiftSearch(
            lightgbm.LGBMClassifier(verbose=-1, n_jobs=1), SPACE, n_trials=10, random_state=0
        )
        spent = cpu(lambda search=search, problem=problem: search.fit(problem))
        ratios.append(cpu(lambda search=search: search.result_.checks) / (5 * spent))
    return Figures(
        ratios[0],
        f"the search, {shapes[0][0]} sites of {shapes[0][1]:,} rows, {shapes[0][2]} columns",
        (),
        {"shapes": shapes, "ratios": rounded(ratios)},
    )


def influence(quick: bool) -> Figures:
    """Influence checks of 20 risks against their estimates."""
    sizes = [10, 30] if quick else [100, 300, 1000]
    seconds, estimates = [], []
    for sites in sizes:
        rng = np.random.default_rng(0)
        X = [rng.normal(rng.normal(0, 0.2, 5), 1, (60, 5)) for _ in range(sites)]
        fitted = RegressionAdjusted().fit(rng.normal(size=(200, 5)), X)
        losses = [rng.exponential(1 + 0.01 * t, (sites, 60)) for t in range(20)]
        risks = [fitted.estimate(list(own)).condensed() for own in losses]
        estimates.append(cpu(lambda f=fitted, ls=losses: [f.estimate(list(own)) for own in ls]))
        seconds.append(cpu(lambda risks=risks: [influence_check(risk) for risk in risks]))
    return Figures(
        seconds[-1] / estimates[-1],
        f"estimates of 20 trials, {sizes[-1]:,} sites",
        (Growth.of("sites", sizes, seconds),),
    )


ROWS = (reading, preparation, binning, adjusted, bytes_held, checks, from_arrays, influence)
