"""Linear models on products and kernel features: closed forms, limits of their cost."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from optuna.distributions import IntDistribution
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from shiftune.models import TableSize, _penalised, ready_model
from shiftune.models._penalised import (
    KernelClassifier,
    KernelRegressor,
    ProductsClassifier,
    ProductsRegressor,
)

# Scales do not know the weights; features of the kernel are made of rows drawn at random.
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": "scaled without weights"}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(300, 3))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=300)


@pytest.mark.parametrize(
    "model", [ProductsRegressor(), ProductsClassifier(degree=2), KernelRegressor(n_components=20)]
)
def test_conventions_of_scikit_learn(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, expected_failed_checks=EXPECTED, on_fail=None)
    assert not [check for check in found if check["status"] == "failed"]


def test_degree_1_is_ridge_and_logistic_regression(data):
    X, y = data
    ridge = make_pipeline(StandardScaler(), Ridge(3.0)).fit(X, y)
    own = ProductsRegressor(3.0).fit(X, y).predict(X)
    np.testing.assert_allclose(own, np.clip(ridge.predict(X), y.min(), y.max()))
    logistic = make_pipeline(StandardScaler(), LogisticRegression(C=1 / 3, tol=1e-9))
    own = ProductsClassifier(3.0).fit(X, y > 0).predict_proba(X)
    np.testing.assert_allclose(own, logistic.fit(X, y > 0).predict_proba(X), atol=2e-3)


class PlainClassifier(ProductsClassifier):
    """Of the columns as they are."""

    def _features(self, rows, columns):
        return FunctionTransformer(), columns


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("columns", [3, 60])
def test_logistic_fits_end_at_the_minimum(rng, monkeypatch, alpha, classes, columns):
    """Also with weights, correlated columns, and more columns than rows."""
    X = rng.normal(3.0, 1.0, size=(50, columns))
    X[:, 1] = X[:, 0] + 0.01 * X[:, 1]
    y = np.digitize(X[:, 0] + rng.normal(size=50), np.linspace(2, 4, classes - 1))
    weights = rng.uniform(0.5, 2.0, size=50)
    X[:, 2] *= 100
    exact = LogisticRegression(C=1 / alpha, tol=1e-12, solver="newton-cholesky").fit(X, y, weights)
    monkeypatch.setitem(_penalised._OPTIONS, "gtol", 1e-9)
    own = PlainClassifier(alpha).fit(X, y, weights)
    np.testing.assert_allclose(own.predict_proba(X), exact.predict_proba(X), atol=1e-4)


def test_equal_rows_are_no_obstacle_to_kernels(rng):
    """Of few different rows, whose Gram matrix is singular; predictions follow the means."""
    X = np.repeat(np.arange(5.0)[:, None], 80, axis=0)
    y = (rng.random(400) < X[:, 0] / 5).astype(int)
    means = y.reshape(5, 80).mean(axis=1)
    values = KernelRegressor(10.0, 1e-4, random_state=0).fit(X, y).predict(X[::80])
    np.testing.assert_allclose(values, means, atol=1e-3)
    chances = KernelClassifier(10.0, 1e-4, random_state=0).fit(X, y).predict_proba(X[::80])[:, 1]
    np.testing.assert_allclose(chances[1:], means[1:], atol=0.01)


def test_degree_2_knows_products(data):
    X, y = data
    assert ProductsRegressor(1.0, degree=2).fit(X, y).score(X, y) > 0.98
    assert ProductsRegressor(1.0, degree=1).fit(X, y).score(X, y) < 0.7


def test_a_component_per_row_is_kernel_ridge(data):
    X, y = data[0], data[1] - data[1].mean()
    Z = X / np.sqrt(1 + X**2 / 9)
    exact = KernelRidge(alpha=1e-3, kernel="rbf", gamma=0.5 / 3).fit(Z, y).predict(Z)
    own = KernelRegressor(0.5, 1e-3, n_components=10**6, random_state=0).fit(X, y).predict(X)
    np.testing.assert_allclose(own, np.clip(exact, y.min(), y.max()), atol=0.02)


def test_values_stay_within_the_labels(data):
    X, y = data
    model = ProductsRegressor(1e-6, degree=2).fit(X, y)
    corners = np.array(list(itertools.product([-99.0, 99.0], repeat=3)))
    assert model.model_.predict(corners).max() > y.max()
    assert model.predict(corners).max() == y.max()


def test_values_beyond_the_training_rows_count_as_the_nearest(data):
    X, y = data
    model = ProductsRegressor(1.0).fit(X, y)
    beyond = X.max(axis=0) + 99.0
    np.testing.assert_allclose(model.predict([beyond]), model.predict([X.max(axis=0)]))


@pytest.mark.parametrize(
    "model", [KernelClassifier(n_components=9, random_state=0), ProductsClassifier()]
)
def test_rows_are_drawn_where_there_are_too_many(data, model, monkeypatch):
    """Every class is among them; predictions do not depend on the batches."""
    X, y = data
    classes = np.where(np.arange(300) == 7, "rare", np.where(y > 0, "b", "a"))
    monkeypatch.setattr(_penalised, "MOST_CELLS", 600)
    model.fit(X, classes)
    assert model.batch_ < len(X)
    assert model.classes_.tolist() == ["a", "b", "rare"]
    shares = model.predict_proba(X)
    assert shares.shape == (300, 3)
    model.batch_ = len(X)
    np.testing.assert_allclose(shares, model.predict_proba(X))
    known = classes != "rare"
    assert (model.predict(X) == classes)[known].mean() > 0.7


def test_the_size_of_the_table_limits_what_models_cost():
    for columns, degree, tuned in ((20, 2, {"alpha", "degree"}), (21, 1, {"alpha"})):
        linear = ready_model("linear", "regression", None, size=TableSize(500, columns))
        assert (set(linear.space), linear.bare.degree) == (tuned, degree)
    beyond = ready_model("linear", "regression", None, size=TableSize(500, 5, 0.3))
    assert "degree" not in beyond.space
    assert beyond.bare.degree == 1
    for rows, classes, most in ((200, 0, 500), (500, 2, 300), (500, 3, 100), (10**6, 0, 100)):
        boosted = ready_model(
            "hist_gradient_boosting", "regression", None, size=TableSize(rows, 20, classes=classes)
        )
        rounds = boosted.space["max_iter"]
        assert isinstance(rounds, IntDistribution)
        assert rounds.high == most
    knn = ready_model("knn", "regression", None, size=TableSize(30, 2))
    assert knn.space["n_neighbors"] == IntDistribution(1, 15, log=True)


def test_arrays_with_gaps_need_no_schema(data):
    X, y = data[0].copy(), data[1]
    X[::7, 1] = np.nan
    model = ready_model("kernel", "regression", None).pipeline.fit(X, y)
    assert model.predict(X).shape == (300,)
    assert model[:-1].transform(X).shape == (300, 4)
