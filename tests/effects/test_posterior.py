"""Posterior of a site's effect, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from shiftune.effects.posterior import posterior


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize(("m", "p"), [(30, 4), (5, 12), (1, 3)])
def test_values_give_the_gaussian_posterior(rng, m, p):
    Z, spread = rng.normal(size=(m, p)), rng.uniform(0.5, 2, p)
    residuals = rng.uniform(-0.1, 0.1, m)  # none is far
    found = posterior(np.zeros((m, 1)), Z, residuals, spread, 4.0)
    covariance = np.linalg.inv(Z.T @ Z / 4 + np.diag(spread**-2.0))
    np.testing.assert_allclose(found.mean[0], covariance @ Z.T @ residuals / 4, rtol=1e-9)
    np.testing.assert_allclose(found.deviation[0], np.sqrt(np.diag(covariance)), rtol=1e-9)


def test_a_term_without_spread_has_no_effect(rng):
    Z = rng.normal(size=(9, 3))
    found = posterior(np.zeros((9, 1)), Z, Z[:, 1], np.array([1.0, 0.0, 1.0]), 0.1)
    assert found.mean[0, 1] == found.deviation[0, 1] == 0
    nothing = posterior(np.zeros((9, 1)), Z, Z[:, 1], np.zeros(3), 0.1)
    assert not nothing.mean.any()


def test_one_outlier_does_not_decide():
    y = np.append(np.zeros(9), 1000.0)
    found = posterior(np.zeros((10, 1)), np.ones((10, 1)), y, np.full(1, 10.0), 1.0)
    mean = 100.0 * 10 / (10 + 0.01)  # Gaussian
    assert 0 < found.mean[0, 0] < mean / 100


@pytest.mark.parametrize("classes", [2, 3, 11])
@pytest.mark.parametrize("p", [2, 40])
def test_classes_give_the_mode(rng, classes, p):
    """The gradient of the log posterior is 0 there."""
    m = 20
    scaled, Z = rng.normal(size=(m, classes)), rng.normal(size=(m, p))
    y, spread = rng.integers(0, classes, m), rng.uniform(0.3, 1.5, p)
    found = posterior(scaled, Z, y, spread, 1.0)
    P = softmax(scaled + found.at(Z), axis=1)
    gradient = (np.eye(classes)[y] - P).T @ Z - found.mean / spread**2
    np.testing.assert_allclose(gradient, 0, atol=0.02)


def test_two_classes_are_symmetric(rng):
    Z = rng.normal(size=(12, 3))
    found = posterior(np.zeros((12, 2)), Z, np.arange(12) % 2, np.ones(3), 1.0)
    np.testing.assert_allclose(found.mean[0], -found.mean[1])
