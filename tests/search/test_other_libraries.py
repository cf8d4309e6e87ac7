"""Models of other libraries, as their users have them; skipped where a library is not there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import SettingsError


@pytest.fixture(scope="module")
def wards():
    """Numbers, categories and booleans, and text as classes."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"site": np.repeat(list("ABCD"), 30), "age": rng.normal(50, 9, 120)})
    df["ward"] = pd.Categorical(rng.choice(["icu", "er"], 120))
    df["smoker"] = rng.random(120) < 0.3
    df["ill"] = np.where(rng.random(120) < 1 / (1 + np.exp((50 - df["age"]) / 8)), "yes", "no")
    df.loc[df["site"] == "A", "ill"] = None
    return df


@pytest.fixture(scope="module")
def problem(wards):
    return ShiftProblem.from_frame(wards, site="site", label="ill", target="A")


def searched(problem, model, space):
    return ShiftSearch(model, space, n_trials=2, progress=False, final="best").fit(problem)


def test_lightgbm_with_a_raw_mixed_frame(problem, wards):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbosity=-1)
    search = searched(problem, model, {"num_leaves": (2, 8)})
    shuffled = wards[["ill", "smoker", "site", "ward", "age"]]
    assert search.predict(shuffled).tolist() == search.predict(wards).tolist()
    assert set(search.predict(wards)) <= {"yes", "no"}


def test_catboost(problem, wards):
    """Its parameters are in get_params only where they were given."""
    catboost = pytest.importorskip("catboost")
    quiet = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(iterations=8, cat_features=("ward",), **quiet)
    space = {"depth": (1, 3), "l2_leaf_reg": (1.0, 9.0)}
    search = searched(problem, model, space)
    assert set(search.predict(wards)) <= {"yes", "no"}
    assert search.trials_["param_depth"].notna().tolist() == [False, True]
    listed = catboost.CatBoostClassifier(iterations=8, cat_features=["ward"], **quiet)
    with pytest.raises(SettingsError, match="need to be tuples"):
        searched(problem, listed, space)


def test_xgboost_with_text_as_classes(problem, wards):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=8, n_jobs=1, enable_categorical=True)
    search = searched(problem, model, {"max_depth": (1, 3)})
    assert search.classes_.tolist() == ["no", "yes"]
    assert set(search.predict(wards)) <= {"yes", "no"}
