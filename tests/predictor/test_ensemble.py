"""The ensemble as a scikit-learn estimator."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from shiftune.models import load_model, save_model
from shiftune.predictor import EnsembleClassifier, EnsembleRegressor


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, X @ [1.0, -1.0, 0.5] + rng.normal(0, 0.3, 80)


def regressor():
    members = [("3", Ridge(1.0)), ("7", make_pipeline(StandardScaler(), Ridge(50.0)))]
    return EnsembleRegressor(members, [0.25, 0.75])


def classifier(**options):
    members = [("3", LogisticRegression()), ("7", KNeighborsClassifier(9))]
    return EnsembleClassifier(members, [0.4, 0.6], **options)


def test_values_are_weighted_means_of_the_members(rows):
    X, y = rows
    ensemble = regressor().fit(X, y)
    by_hand = sum(
        w * clone(model).fit(X, y).predict(X)
        for (_, model), w in zip(ensemble.members, ensemble.weights, strict=True)
    )
    np.testing.assert_allclose(ensemble.predict(X), by_hand, rtol=1e-12)


def test_probabilities_are_weighted_means_and_classes_keep_their_names(rows):
    X, y = rows
    labels = np.where(y > 0, "ill", "healthy")
    ensemble = classifier().fit(X, labels)
    by_hand = 0.4 * LogisticRegression().fit(X, labels).predict_proba(X)
    by_hand = by_hand + 0.6 * KNeighborsClassifier(9).fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(ensemble.predict_proba(X), by_hand, rtol=1e-12)
    assert list(ensemble.classes_) == ["healthy", "ill"]
    assert set(ensemble.predict(X)) == {"healthy", "ill"}


def test_a_vote_counts_classes_not_probabilities():
    members = [
        ("a", DummyClassifier(strategy="prior")),  # .67 for "x"
        ("b", DummyClassifier(strategy="constant", constant="y")),
    ]
    X, y = np.zeros((3, 1)), ["x", "x", "y"]
    mean = EnsembleClassifier(members, [0.45, 0.55]).fit(X, y)
    assert mean.predict_proba(X)[0] == pytest.approx([0.3, 0.7])
    heavier = EnsembleClassifier(members, [0.55, 0.45], vote=True).fit(X, y)
    assert heavier.predict(X)[0] == "x"
    assert EnsembleClassifier(members, [0.55, 0.45]).fit(X, y).predict(X)[0] == "y"


def test_members_without_probabilities_vote(rows):
    X, y = rows
    members = [("svc", LinearSVC()), ("knn", KNeighborsClassifier())]
    ensemble = EnsembleClassifier(members, [0.7, 0.3], vote=True).fit(X, y > 0)
    assert not hasattr(ensemble, "predict_proba")
    np.testing.assert_array_equal(ensemble.predict(X), LinearSVC().fit(X, y > 0).predict(X))


def test_sample_weights_reach_members_inside_pipelines(rows):
    X, y = rows
    weights = np.where(np.arange(len(y)) < 40, 1.0, 0.0)
    weighted = regressor().fit(X, y, sample_weight=weights).members_[0]
    np.testing.assert_allclose(weighted.coef_, Ridge(1.0).fit(X[:40], y[:40]).coef_, rtol=1e-8)


@pytest.mark.parametrize("ensemble", [regressor(), classifier()], ids=["values", "classes"])
def test_it_is_cloned_pickled_and_stored_without_executing_code(ensemble, rows, tmp_path):
    X, y = rows
    labels = y if isinstance(ensemble, EnsembleRegressor) else np.where(y > 0, "b", "a")
    fitted = clone(ensemble).fit(X, labels)
    check_is_fitted(fitted)
    with pytest.raises(Exception, match="not fitted"):
        clone(fitted).predict(X)
    for copy in (
        pickle.loads(pickle.dumps(fitted)),
        load_model(save_model(fitted, str(tmp_path / "model"))),
    ):
        np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))


def test_the_input_is_not_changed():
    members = [("a", DummyRegressor(strategy="constant", constant=1.0))]
    ensemble = EnsembleRegressor(members, [1.0]).fit([[0.0]], [0.0])
    assert not hasattr(members[0][1], "n_outputs_")
    assert ensemble.predict([[5.0], [6.0]]).tolist() == [1.0, 1.0]
