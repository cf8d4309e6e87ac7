"""Maps of probabilities against distortions that are known."""

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.naive_bayes import GaussianNB

from shiftune.models import load_model, save_model
from shiftune.predictor.calibration import (
    MAPS,
    LogLine,
    RecalibratedClassifier,
    Steps,
    without_calibration,
)


def two_columns(p):
    return np.column_stack([1 - p, p])


@pytest.mark.parametrize(("intercept", "slope"), [(0.0, 1.0), (0.7, 1.0), (-0.5, 0.4), (0.3, 2.5)])
def test_a_logistic_distortion_is_undone(intercept, slope):
    rng = np.random.default_rng(0)
    odds = rng.normal(0, 1.2, 40_000)
    y = (rng.random(len(odds)) < expit(odds)).astype(int)
    given = two_columns(expit((odds - intercept) / slope))
    found = LogLine.learn(given, y, np.ones(len(y)), with_slope=True)
    # Standard errors of intercept and slope are about 0.012 and 0.013 times the slope.
    assert found.slope == pytest.approx(slope, abs=0.05 * max(slope, 1))
    assert np.diff(found.intercepts)[0] == pytest.approx(intercept, abs=0.05)
    fixed = LogLine.learn(given, y, np.ones(len(y)), with_slope=False)
    assert fixed.slope == 1
    assert fixed(given)[:, 1].mean() == pytest.approx(y.mean(), abs=1e-4)


def test_temperature_and_bias_of_four_classes_are_undone():
    rng = np.random.default_rng(1)
    eta = rng.normal(0, 1.5, (30_000, 4))
    P = softmax(eta, axis=1)
    y = (rng.random((len(P), 1)) > P.cumsum(axis=1)).sum(axis=1)
    bias, slope = np.array([0.5, -0.5, 0.3, -0.3]), 0.5
    given = softmax((np.log(P) - bias) / slope, axis=1)
    found = LogLine.learn(given, y, np.ones(len(y)), with_slope=True)
    assert found.slope == pytest.approx(slope, abs=0.03)
    np.testing.assert_allclose(found.intercepts, bias, atol=0.06)
    np.testing.assert_allclose(found(given), P, atol=0.03)


@pytest.mark.parametrize("kind", MAPS)
def test_maps_keep_the_order_of_two_classes_and_stay_within_bounds(kind):
    rng = np.random.default_rng(2)
    p = np.sort(rng.random(500))
    y = (rng.random(500) < p**2).astype(int)
    learned = MAPS[kind](two_columns(p), y, np.ones(500))
    grid = two_columns(np.linspace(0, 1, 1001))
    found = learned(grid)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert np.all(np.diff(found[:, 1]) >= -1e-12)
    assert found.min() > 0


def test_an_isotonic_map_follows_any_increasing_curve():
    rng = np.random.default_rng(3)
    p = rng.random(40_000)
    truth = np.where(p < 0.5, 0.2, 0.7)
    y = (rng.random(len(p)) < truth).astype(int)
    found = Steps.learn(two_columns(p), y, np.ones(len(y)))(two_columns(np.array([0.2, 0.8])))
    np.testing.assert_allclose(found[:, 1], [0.2, 0.7], atol=0.03)


@pytest.mark.parametrize("kind", MAPS)
def test_rows_count_by_their_weights(kind):
    rng = np.random.default_rng(4)
    p = rng.random(200)
    y = (rng.random(200) < p).astype(int)
    times = rng.integers(1, 4, 200)
    weighted = MAPS[kind](two_columns(p), y, times.astype(float))
    repeated = MAPS[kind](
        two_columns(np.repeat(p, times)), np.repeat(y, times), np.ones(sum(times))
    )
    # Bounds and prior count rows, which repeated ones are more of.
    np.testing.assert_allclose(weighted(two_columns(p)), repeated(two_columns(p)), atol=0.005)


@pytest.mark.parametrize("kind", MAPS)
def test_separated_and_missing_classes_have_a_map(kind):
    p = np.array([0.1, 0.2, 0.8, 0.9])
    for y in ([0, 0, 1, 1], [1, 1, 1, 1]):
        found = MAPS[kind](two_columns(p), np.array(y), np.ones(4))(two_columns(p))
        assert np.isfinite(logit(found[:, 1])).all()
    three = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.2, 0.3, 0.5]])
    found = MAPS[kind](three, np.array([0, 1, 1]), np.ones(3))(three)
    np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize("kind", MAPS)
def test_a_recalibrated_model_is_stored_without_code(kind, tmp_path):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 2)), rng.choice(["no", "yes"], 60)
    inner = GaussianNB().fit(X, y)
    change = MAPS[kind](inner.predict_proba(X), (y == "yes").astype(int), np.ones(60))
    model = RecalibratedClassifier(GaussianNB(), change).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), change(inner.predict_proba(X)))
    assert type(without_calibration(model)) is GaussianNB
    path = save_model(model, tmp_path / "model")
    assert path.suffix == ".skops"
    np.testing.assert_array_equal(load_model(path).predict_proba(X), model.predict_proba(X))
