"""Boosted trees through LightGBM's own interface: the same as those of its scikit-learn models."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

lightgbm = pytest.importorskip("lightgbm")

from shiftune.models._boosted import BoostedClassifier, BoostedRegressor  # noqa: E402

QUIET = {"n_estimators": 30, "n_jobs": 1, "verbosity": -1, "random_state": 3}
VARIED = {"colsample_bytree": 0.5, "reg_lambda": 3.0, "num_leaves": 8, "min_child_samples": 5}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(300, 6))
    return X, X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=300), rng.uniform(0.5, 2.0, 300)


@pytest.mark.parametrize("params", [{}, VARIED, {"objective": "l1"}, {"max_depth": 2}])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_values_as_lightgbm(data, params, weighted):
    X, y, w = data
    weights = w if weighted else None
    models = [model(**QUIET, **params) for model in (lightgbm.LGBMRegressor, BoostedRegressor)]
    theirs, ours = (model.fit(X, y, sample_weight=weights).predict(X) for model in models)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("params", [{}, VARIED, {"class_weight": "balanced"}])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_classes_as_lightgbm(data, params, classes, weighted):
    X, y, w = data
    labels = np.array(list("cabd"))[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
    weights = w if weighted else None
    models = [model(**QUIET, **params) for model in (lightgbm.LGBMClassifier, BoostedClassifier)]
    theirs, ours = (model.fit(X, labels, sample_weight=weights) for model in models)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_a_fitted_model_can_be_copied(data):
    X, y, _ = data
    model = BoostedClassifier(**QUIET).fit(X, y > 0)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copied.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()
