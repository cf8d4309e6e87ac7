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


FITTED = [
    *("best_iteration_", "best_score_", "evals_result_", "feature_importances_", "feature_name_"),
    *("n_estimators_", "n_features_", "n_features_in_", "n_iter_", "objective_"),
]


@pytest.mark.parametrize("classes", [None, 2, 3])
def test_a_fitted_model_has_the_attributes_of_lightgbm(data, classes):
    X, y, _ = data
    if classes is not None:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    kind = "Regressor" if classes is None else "Classifier"
    theirs = getattr(lightgbm, f"LGBM{kind}")(**QUIET).fit(X, y)
    ours = {None: BoostedRegressor, 2: BoostedClassifier, 3: BoostedClassifier}[classes](**QUIET)
    assert not hasattr(ours, "booster_")
    ours.fit(X, y)
    for copied in (ours, pickle.loads(pickle.dumps(ours))):
        for name in [*FITTED, *(["classes_", "n_classes_"] if classes else [])]:
            np.testing.assert_array_equal(getattr(copied, name), getattr(theirs, name), name)
        shares = [each.booster_.predict(X, pred_contrib=True) for each in (copied, theirs)]
        np.testing.assert_array_equal(*shares)
        assert not hasattr(copied, "feature_names_in_")


def test_a_fitted_model_keeps_no_training_rows(data):
    X, y, _ = data
    booster = BoostedRegressor(**QUIET).fit(X, y).booster_
    assert booster.num_trees() == QUIET["n_estimators"]
    assert not hasattr(booster, "train_set")


@pytest.mark.parametrize("generator", [np.random.RandomState, np.random.default_rng])
def test_generators_seed_as_in_lightgbm(data, generator):
    X, y, _ = data
    params = QUIET | VARIED
    theirs = lightgbm.LGBMRegressor(**params | {"random_state": generator(0)}).fit(X, y)
    ours = BoostedRegressor(**params | {"random_state": generator(0)}).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
