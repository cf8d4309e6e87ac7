"""Training on the variance reduced objective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reproduction import choosing
from reproduction.settings import SETTINGS
from reproduction.training import VarianceReducedFit, objective_weights
from sklearn.linear_model import LinearRegression

from shiftune.evaluate import PooledFit, StudyData, loss_named
from shiftune.risk import divergence, optimal_lambda


@pytest.fixture
def data(rng):
    """Three sources, the third without any weight."""
    n = (30, 50, 20)
    X = rng.normal(size=(100, 2))
    y = X @ [1.0, -1.0] + np.repeat([0.1, 2.0, 0.5], n) * rng.standard_normal(100)
    weights = rng.exponential(size=100) * np.repeat([1.0, 1.0, 0.0], n)
    return StudyData(
        X_train=X,
        y_train=y,
        train_sites=np.repeat(["C", "B", "D"], n),
        training_weights=weights,
        X_validation=X,
        y_validation=(y,),
        weights=None,
        names=("all",),
    )


def squared(model, data):
    return (data.y_train - model.predict(data.X_train)) ** 2


def test_the_second_fit_has_lambda_times_w(data):
    """Least squares have a closed form: the losses are those of the weighted normal equations."""
    w, y = data.training_weights, data.y_train
    first = LinearRegression().fit(data.X_train, y, w)
    wL = w * squared(first, data)
    lam = np.zeros(100)
    lam[:80] = np.repeat(
        optimal_lambda([30, 50], [divergence(wL[:30]), divergence(wL[30:80])]), [30, 50]
    )
    A = np.column_stack([data.X_train, np.ones(100)])
    W = (lam * w)[:, None]
    coefficients = np.linalg.solve(A.T @ (W * A), A.T @ (W[:, 0] * y))
    found = VarianceReducedFit().losses(LinearRegression(), data, loss_named("squared"))
    np.testing.assert_allclose(found.by_source[0], (y - A @ coefficients) ** 2, rtol=1e-8)
    assert lam[0] > 10 * lam[30]  # the source with less noise has more weight


def test_a_source_without_weight_has_none(data):
    found = objective_weights(np.ones(100), data.training_weights, data.train_sites)
    assert (found[80:] == 0).all()
    assert (found[:80] > 0).all()


def test_the_scale_of_the_weights_does_not_matter(data, rng):
    losses = rng.exponential(size=100)
    one, two = (
        objective_weights(losses, s * data.training_weights, data.train_sites) for s in (1, 7)
    )
    np.testing.assert_allclose(two / two.sum(), one / one.sum())


def test_without_weights_it_is_the_pooled_fit(data):
    plain = replace(data, training_weights=None)
    loss = loss_named("squared")
    ours, pooled = (
        plan.losses(LinearRegression(), plain, loss) for plan in (VarianceReducedFit(), PooledFit())
    )
    np.testing.assert_array_equal(ours.by_source[0], pooled.by_source[0])


@pytest.mark.parametrize(
    ("setting", "method", "weights", "plan"),
    [
        ("as-described", "variance_reduced", "importance", "VarianceReducedFit()"),
        ("as-described", "unbiased", "importance", "None"),
        ("as-described", "naive", None, "None"),
        ("as-published", "variance_reduced", None, "None"),
        ("guarded", "variance_reduced", None, "None"),
    ],
)
def test_who_is_trained_on_what(monkeypatch, setting, method, weights, plan):
    seen = {}

    class Noted:
        best_params_, risk_ = {}, None

        def __init__(self, *args, **options):
            seen.update(options)

        def fit(self, problem):
            return self

    monkeypatch.setattr(choosing, "ShiftSearch", Noted)
    learner = choosing.Learner(LinearRegression(), {}, "squared")
    choosing.choose(method, SETTINGS[setting], None, learner, budget=1, seed=0)
    assert seen["training_weights"] == weights
    assert repr(seen["plan"]) == plan
