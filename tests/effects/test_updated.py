"""Estimators with the effect of a site: clones and files."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from shiftune.columns import Columns
from shiftune.effects import Terms, UpdatedClassifier, UpdatedRegressor, without_effect
from shiftune.effects._site_effects import to_scale
from shiftune.models import load_model, save_model
from shiftune.models._by_name import preparation

SCHEMA = Columns.of_kinds({"age": "number", "sex": "category"})


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.normal(50, 9, 60), "sex": rng.choice(["f", "m"], 60)})


def effect(table, answers, classes):
    terms = Terms(SCHEMA).fit(table, to_scale(answers))
    p = 2 + terms.transform(table, to_scale(answers))[1].shape[1]
    return terms, np.random.default_rng(1).normal(size=(classes, p))


def regressor(table):
    y = table["age"].to_numpy() / 10
    terms, b = effect(table, y, 1)
    predictor = preparation(SCHEMA)
    predictor.steps.append(("model", LinearRegression()))
    return UpdatedRegressor(predictor, terms, b).fit(table, y)


def classifier(table):
    y = np.where(table["age"] > 50, "old", "young")
    terms, b = effect(table, np.full((60, 2), 0.5), 1)
    predictor = preparation(SCHEMA)
    predictor.steps.append(("model", LogisticRegression()))
    return UpdatedClassifier(predictor, terms, b).fit(table, y)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_stored_and_loaded_without_executing_code(make, table, tmp_path):
    model = make(table)
    path = save_model(model, tmp_path / "model")
    assert path.suffix == ".skops"
    for other in (load_model(path), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(table), model.predict(table))


@pytest.mark.parametrize("make", [regressor, classifier])
def test_clones_keep_the_effect(make, table):
    model = make(table)
    y = model.predictor_.predict(table)
    again = clone(model).fit(table, y)
    np.testing.assert_array_equal(again.effect, model.effect)


def test_columns_in_any_order_and_text_as_read(table):
    """The schema that the models read columns by is that of the effect."""
    model = regressor(table)
    written = table[["sex", "age"]].astype({"age": str})
    np.testing.assert_allclose(model.predict(written), model.predict(table))


@pytest.mark.parametrize("make", [regressor, classifier])
def test_without_an_effect_nothing_changes(make, table):
    model = make(table)
    model.set_params(effect=0 * model.effect)
    method = "predict" if make is regressor else "predict_proba"
    np.testing.assert_array_equal(
        getattr(model, method)(table), getattr(without_effect(model), method)(table)
    )


def test_names_of_the_terms(table):
    terms, _ = effect(table, table["age"].to_numpy(), 1)
    assert terms.names == ["intercept", "slope", "age", "sex_f", "sex_m"]
