from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from shiftune import ShiftProblem, ShiftSearch
from shiftune._names import Level
from shiftune.checks import Check

SCRIPT = "<script>alert(1)</script>"
IMAGE = "</script><img src=x onerror=alert(1)>"
SITES = [SCRIPT, IMAGE, "<a href='javascript:alert(1)'>x</a>", "%{x} {{ 7*7 }} &lt;b&gt;", "2024"]


def hostile_table() -> pd.DataFrame:
    """Sites, columns and categories whose names would like to be more than names."""
    rng = np.random.default_rng(0)
    site = np.repeat(SITES, 80)
    X = rng.normal(np.where(site == SITES[-1], 6.0, 0.0)[:, None], 1, (400, 2))
    df = pd.DataFrame(X, columns=[SCRIPT, IMAGE]).assign(site=site)
    df["ward"] = pd.Categorical(rng.choice([IMAGE, "icu"], 400))
    df["cost"] = np.where(site == SCRIPT, np.nan, X[:, 0] + (df["ward"] == "icu") + X[:, 1] ** 2)
    return df


def searched(**settings) -> ShiftSearch:
    problem = ShiftProblem.from_frame(hostile_table(), site="site", label="cost", target=SCRIPT)
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["ward"]), remainder="passthrough"
    )
    space = {
        "ridge__alpha": FloatDistribution(0.01, 1e4, log=True),
        "ridge__solver": CategoricalDistribution(["svd", "cholesky", IMAGE]),
    }
    model = make_pipeline(columns, Ridge())
    return ShiftSearch(model, space, progress=False, **settings).fit(problem)


@pytest.fixture(scope="session")
def hostile_search() -> ShiftSearch:
    return searched(n_trials=18, importance_timeout=60)


@pytest.fixture(scope="session")
def weighted_search() -> ShiftSearch:
    """The same with density ratios, by which the site 2024 is left out."""
    return searched(n_trials=4, risk="variance_reduced")


@pytest.fixture
def checks() -> list[Check]:
    return [
        Check("Overlap", Level.OK, "All is well.", "", {}),
        Check(IMAGE, Level.PROBLEM, SCRIPT, IMAGE, {}),
    ]
