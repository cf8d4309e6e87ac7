"""Posterior of a site's effect, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from shiftune.effects._site_effects import (
    from_scale,
    moderate,
    posterior_deviation,
    posterior_mean,
    to_scale,
)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize(("m", "p"), [(30, 4), (5, 12), (1, 3)])
def test_values_give_the_gaussian_posterior(rng, m, p):
    Z, spread = rng.normal(size=(m, p)), rng.uniform(0.5, 2, p)
    residuals = rng.uniform(-0.1, 0.1, m)  # none is far
    known = np.zeros((m, 1)), Z, residuals, spread, 4.0
    covariance = np.linalg.inv(Z.T @ Z / 4 + np.diag(spread**-2.0))
    mean = posterior_mean(*known)
    np.testing.assert_allclose(mean[0], covariance @ Z.T @ residuals / 4, rtol=1e-9)
    found = posterior_deviation(*known, mean)
    np.testing.assert_allclose(found[0], np.sqrt(np.diag(covariance)), rtol=1e-9)


def test_a_term_without_spread_has_no_effect(rng):
    Z = rng.normal(size=(9, 3))
    known = np.zeros((9, 1)), Z, Z[:, 1], np.array([1.0, 0.0, 1.0]), 0.1
    assert posterior_mean(*known)[0, 1] == 0
    assert posterior_deviation(*known, posterior_mean(*known))[0, 1] == 0
    assert not posterior_mean(np.zeros((9, 1)), Z, Z[:, 1], np.zeros(3), 0.1).any()


def test_one_outlier_does_not_decide():
    y = np.append(np.zeros(9), 1000.0)
    found = posterior_mean(np.zeros((10, 1)), np.ones((10, 1)), y, np.full(1, 10.0), 1.0)
    mean = 100.0 * 10 / (10 + 0.01)  # Gaussian
    assert 0 < found[0, 0] < mean / 100


def gradient(scaled, Z, y, spread, b):
    P = softmax(scaled + Z @ b.T, axis=1)
    return (np.eye(scaled.shape[1])[y] - P).T @ (Z * spread) - b / spread


@pytest.mark.parametrize("classes", [2, 3, 11])
@pytest.mark.parametrize("p", [2, 40])
@pytest.mark.parametrize("confident", [1.0, 8.0])
def test_classes_give_the_mode(rng, classes, p, confident):
    """The gradient of the log posterior is 0 there, also where labels contradict the answers."""
    m = 20
    scaled, Z = confident * rng.normal(size=(m, classes)), rng.normal(size=(m, p))
    y, spread = rng.integers(0, classes, m), rng.uniform(0.3, 3.2, p)
    found = posterior_mean(scaled, Z, y, spread, 1.0)
    np.testing.assert_allclose(gradient(scaled, Z, y, spread, found), 0, atol=0.05)


@pytest.mark.parametrize("answer", [0.02, 0.001, 0.5, 0.98])
@pytest.mark.parametrize("spread", [0.4, 1.6, 12.8])
@pytest.mark.parametrize("ones", [0, 2, 5, 10])
def test_the_update_lies_between_the_answer_and_the_labels(answer, spread, ones):
    scaled = to_scale(np.tile([1 - answer, answer], (10, 1)))
    y = (np.arange(10) < ones).astype(int)
    b = posterior_mean(scaled, np.ones((10, 1)), y, np.array([spread]), 1.0)
    updated = from_scale(scaled + b.T)[0, 1]
    low, high = sorted([answer, ones / 10])
    assert low - 1e-6 <= updated <= high + 1e-6


def test_deviations_of_classes_are_of_contrasts():
    """200 labels, half of them of each class: log odds have a variance near 4 / 200."""
    known = np.zeros((200, 2)), np.ones((200, 1)), np.arange(200) % 2, np.full(1, 100.0), 1.0
    found = posterior_deviation(*known, posterior_mean(*known))
    np.testing.assert_allclose(2 * found[:, 0], np.sqrt(4 / 200), rtol=1e-3)
    nothing = posterior_deviation(
        np.zeros((0, 2)), np.ones((0, 1)), np.arange(0), np.ones(1), 1.0, np.zeros((2, 1))
    )
    np.testing.assert_allclose(nothing, np.sqrt(0.5))


def test_two_classes_are_symmetric(rng):
    Z = rng.normal(size=(12, 3))
    found = posterior_mean(np.zeros((12, 2)), Z, np.arange(12) % 2, np.ones(3), 1.0)
    np.testing.assert_allclose(found[0], -found[1], atol=1e-6)


def test_answers_come_back_as_they_were():
    P = np.array([[1e-9, 1 - 1e-9], [0.3, 0.7]])
    np.testing.assert_allclose(from_scale(to_scale(P)), P, rtol=1e-6)
    assert from_scale(moderate(to_scale(P)))[0, 0] == pytest.approx(1e-4, rel=1e-3)
