"""Training on the variance reduced objective."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from reproduction import choosing
from reproduction.settings import SETTINGS
from reproduction.theory import divergence
from reproduction.training import VarianceReducedFit, objective_weights
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from shiftune import ShiftProblem, spaces
from shiftune.evaluate import loss_named
from shiftune.risk import optimal_lambda

N = (30, 50, 20)
SITES = np.repeat(["C", "B", "D"], N)
SQUARED = loss_named("squared")


@pytest.fixture
def data(rng):
    """Rows, labels and weights of three sources, the third without any weight."""
    X = rng.normal(size=(100, 2))
    y = X @ [1.0, -1.0] + np.repeat([0.1, 2.0, 0.5], N) * rng.standard_normal(100)
    return X, y, rng.exponential(size=100) * np.repeat([1.0, 1.0, 0.0], N)


def test_the_second_fit_has_lambda_times_w(data):
    """Least squares have a closed form: the model is that of the weighted normal equations."""
    X, y, w = data
    wL = w * (y - LinearRegression().fit(X, y, w).predict(X)) ** 2
    lam = np.zeros(100)
    lam[:80] = np.repeat(
        optimal_lambda([30, 50], [divergence(wL[:30]), divergence(wL[30:80])]), [30, 50]
    )
    A = np.column_stack([X, np.ones(100)])
    W = (lam * w)[:, None]
    coefficients = np.linalg.solve(A.T @ (W * A), A.T @ (W[:, 0] * y))
    found = VarianceReducedFit(LinearRegression(), SITES, SQUARED).fit(X, y, w)
    np.testing.assert_allclose(found.predict(X), A @ coefficients, rtol=1e-8)
    assert lam[0] > 10 * lam[30]  # the source with less noise has more weight


def test_a_source_without_weight_has_none(data):
    found = objective_weights(np.ones(100), data[2], SITES)
    assert (found[80:] == 0).all()
    assert (found[:80] > 0).all()


def test_the_scale_of_the_weights_does_not_matter(data, rng):
    losses = rng.exponential(size=100)
    one, two = (objective_weights(losses, s * data[2], SITES) for s in (1, 7))
    np.testing.assert_allclose(two / two.sum(), one / one.sum())


def test_rows_without_weights_and_other_rows_are_fitted_once(data):
    X, y, w = data
    model = VarianceReducedFit(LinearRegression(), SITES, SQUARED)
    plain = clone(model).fit(X, y)
    np.testing.assert_array_equal(plain.predict(X), LinearRegression().fit(X, y).predict(X))
    fewer, once = clone(model).fit(X[:60], y[:60], w[:60]), LinearRegression()
    np.testing.assert_array_equal(fewer.predict(X), once.fit(X[:60], y[:60], w[:60]).predict(X))


def test_parameters_are_those_of_the_model():
    model = VarianceReducedFit(Ridge(alpha=3.0), SITES, SQUARED)
    twin = clone(model).set_params(alpha=5.0)
    assert (model.get_params()["alpha"], twin.get_params()["alpha"]) == (3.0, 5.0)
    assert twin.model.alpha == 5.0


def test_it_is_what_its_model_is(data):
    X, y, w = data
    log_loss = loss_named("log_loss")
    classifier = VarianceReducedFit(LogisticRegression(), SITES, log_loss).fit(X, y > 0, w)
    assert is_classifier(classifier)
    assert classifier.classes_.tolist() == [False, True]
    assert classifier.predict_proba(X).shape == (100, 2)
    regressor = VarianceReducedFit(LinearRegression(), SITES, SQUARED)
    assert is_regressor(regressor)
    assert not hasattr(regressor, "predict_proba")


@pytest.mark.parametrize(
    ("setting", "method", "weights", "twice"),
    [
        ("as-described", "variance_reduced", "importance", True),
        ("as-described", "unbiased", "importance", False),
        ("as-described", "naive", None, False),
        ("as-published", "variance_reduced", None, False),
        ("guarded", "variance_reduced", None, False),
    ],
)
def test_who_is_trained_on_what(monkeypatch, rng, setting, method, weights, twice):
    seen = {}

    class Noted:
        best_params_, risk_ = {"alpha": 2.0}, None

        def __init__(self, model, space, **options):
            seen.update(options, model=model, space=space)

        def fit(self, problem):
            return self

    monkeypatch.setattr(choosing, "ShiftSearch", Noted)
    learner = choosing.Learner(LinearRegression(), spaces.ridge(), "squared")
    X = rng.normal(size=(60, 2))
    problem = ShiftProblem.from_arrays(X, X[:, 0], np.repeat(["B", "C"], [20, 40]), X)
    choice = choosing.choose(method, SETTINGS[setting], problem, learner, budget=1, seed=0)
    assert choice.params == {"alpha": 2.0}
    assert seen["training_weights"] == weights
    assert isinstance(seen["model"], VarianceReducedFit) == twice
    if twice:
        train = seen["shares"](problem).train
        assert seen["model"].sites.tolist() == ["B"] * len(train[0]) + ["C"] * len(train[1])
        assert 0 < len(train[0]) < 20  # the paper's split


def test_a_search_with_it(rng):
    """Every trial is fitted twice; the chosen parameters have the learner's names."""
    X = rng.normal(size=(300, 2)) + np.repeat([0.0, 0.5, 1.0], 100)[:, None]
    y = X[:, 0] + rng.normal(size=300)
    problem = ShiftProblem.from_arrays(X, y, np.repeat(list("BCD"), 100), X[:100] + 0.3)
    learner = choosing.Learner(Counted(), spaces.ridge(), "squared")
    Counted.fits = []
    choice = choosing.choose(
        "variance_reduced", SETTINGS["as-described"], problem, learner, budget=3, seed=0
    )
    assert list(choice.params) == ["alpha"]
    assert np.isfinite(choice.risk.value)
    in_trials = [rows for rows in Counted.fits if rows < 300]
    assert len(in_trials) == 2 * 3
    assert len(set(in_trials)) == 1


class Counted(Ridge):
    """Counts the training rows of every fit."""

    fits: ClassVar[list[int]] = []

    def fit(self, X, y, sample_weight=None):
        Counted.fits.append(len(y))
        return super().fit(X, y, sample_weight)
