"""Posterior of a site's effect, against dense linear algebra."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, multivariate_t

from shiftune.effects import _site_effects as hierarchy
from shiftune.effects._site_effects import (
    LOG_PRIOR,
    SiteRows,
    evidence,
    from_scale,
    posterior,
    to_scale,
)

GRID = [
    (at, np.array(s))
    for at, s in zip(
        np.ndindex(LOG_PRIOR.shape),
        product(hierarchy._INTERCEPTS, hierarchy._SLOPES, hierarchy._COLUMNS),
        strict=True,
    )
]
ROWS_OF_PRIOR = hierarchy._PRIOR_ROWS


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def site(rng, m, q, residuals=None, classes=False):
    """Rows of a site whose predictions are 0, or log odds."""
    scaled = rng.normal(0, 2, (m, 1)) if classes else np.zeros((m, 1))
    if residuals is None:
        residuals = (rng.random(m) < 0.5) if classes else rng.uniform(-1, 1, m)
    y = np.asarray(residuals, dtype=float)
    return SiteRows(scaled, rng.normal(size=(m, 1)), rng.normal(size=(m, q)), y, y[:, None])


def by_term(s, q):
    return np.array([s[0], s[1], *np.full(q, s[2])])


def test_the_prior_is_one():
    assert logsumexp(LOG_PRIOR) == pytest.approx(0.0)


@pytest.mark.parametrize(("m", "q"), [(30, 4), (5, 12), (1, 3), (6, 0)])
@pytest.mark.parametrize("noise_known", [True, False])
def test_evidence_and_means_under_every_spread(rng, m, q, noise_known):
    rows, w = site(rng, m, q), rng.uniform(0.2, 1.0, m)
    r, Z = rows.observed[:, 0], rows.terms(0)
    found = evidence(r, w, rows.slopes[:, 0], rows.columns, noise_known)
    logs, means = np.empty(LOG_PRIOR.shape), {}
    for at, s in GRID:
        prior = np.diag(by_term(s, q) ** 2)
        V = Z @ prior @ Z.T + np.diag(1 / w)
        means[at] = prior @ Z.T @ np.linalg.solve(V, r)
        if noise_known:
            logs[at] = multivariate_normal(np.zeros(m), V).logpdf(r)
        else:  # the degrees of freedom count the weights of the rows
            quadratic = r @ np.linalg.solve(V, r)
            power = (w.sum() + ROWS_OF_PRIOR) / 2
            logs[at] = -np.linalg.slogdet(V)[1] / 2 - power * np.log(ROWS_OF_PRIOR + quadratic)
    np.testing.assert_allclose(
        found.log_likelihood - found.log_likelihood[0, 0, 0], logs - logs[0, 0, 0], atol=1e-8
    )
    weights = rng.dirichlet(np.ones(LOG_PRIOR.size)).reshape(LOG_PRIOR.shape)
    expected = sum(weights[at] * mean for at, mean in means.items())
    np.testing.assert_allclose(found.effect(weights), expected, atol=1e-10)


def test_the_noise_is_integrated_out(rng):
    """With weights of 1 the marginal likelihood is that of Student's t."""
    rows = site(rng, 7, 2)
    r, Z = rows.observed[:, 0], rows.terms(0)
    found = evidence(r, np.ones(7), rows.slopes[:, 0], rows.columns, noise_known=False)
    logs = [
        multivariate_t(
            np.zeros(7), Z @ np.diag(by_term(s, 2) ** 2) @ Z.T + np.eye(7), ROWS_OF_PRIOR
        ).logpdf(r)
        for _, s in GRID
    ]
    own = found.log_likelihood.ravel()
    np.testing.assert_allclose(own - own[0], np.array(logs) - logs[0], atol=1e-8)


def test_deviations_are_near_those_of_the_mixture(rng):
    rows = site(rng, 12, 3)
    r, Z = rows.observed[:, 0], rows.terms(0)
    found = posterior(rows, LOG_PRIOR, 1.0)
    total, squares = 0.0, 0.0
    for at, s in GRID:
        scale = np.diag(by_term(s, 3))
        covariance = scale @ np.linalg.inv(np.eye(5) + scale @ Z.T @ Z @ scale) @ scale
        mean = covariance @ Z.T @ r
        total = total + found.weights[at] * mean
        squares = squares + found.weights[at] * (found.noise * np.diag(covariance) + mean**2)
    np.testing.assert_allclose(found.effect[0], total, atol=1e-3)
    # Under the mean square of the spreads, which is wider than their mixture, but not by much.
    deviation, exact = found.deviations(rows)[0][0], np.sqrt(squares - total**2)
    assert (deviation > 0.9 * exact).all()
    assert (deviation < 3 * exact).all()


def test_one_outlier_does_not_decide(rng):
    residuals = np.append(rng.normal(0, 1, 9), 1000.0)
    rows = SiteRows(
        np.zeros((10, 1)), np.zeros((10, 1)), np.empty((10, 0)), residuals, residuals[:, None]
    )
    found = posterior(rows, LOG_PRIOR, 1.0)
    assert abs(found.effect[0, 0]) < 2.0  # the mean is 100


@pytest.mark.parametrize("q", [1, 30])
def test_classes_give_the_mode_under_a_single_spread(rng, q):
    """The gradient of the log posterior is 0 there."""
    rows = site(rng, 25, q, classes=True)
    at, s = GRID[len(GRID) // 2 + 17]
    assert s.all()
    prior = np.full(LOG_PRIOR.shape, -np.inf)
    prior[at] = 0.0
    found = posterior(rows, prior, None)
    Z, scale = rows.terms(0), by_term(s, q)
    P = expit(rows.scaled[:, 0] + Z @ found.effect[0])
    gradient = scale * (Z.T @ (rows.observed[:, 0] - P)) - found.effect[0] / scale
    assert np.max(np.abs(gradient)) < 0.1


def test_labels_that_contradict_confident_predictions(rng):
    """A single label of a class that has the probability 0 does not turn all predictions round."""
    P = np.column_stack([np.ones(20), np.zeros(20)])
    scaled = to_scale(P)
    y = np.zeros((20, 1))
    y[0] = 1.0
    rows = SiteRows(scaled, np.zeros((20, 1)), np.empty((20, 0)), y[:, 0], y)
    found = posterior(rows, LOG_PRIOR, None)
    moved = from_scale(scaled + found.effect[0, 0], np.arange(2))[:, 1]
    assert 1e-4 < moved.max() < 0.15
    assert np.isfinite(found.effect).all()


@pytest.mark.parametrize("base", [-9.0, -5.0, -3.0])
@pytest.mark.parametrize("m", [10, 100, 1000])
def test_labels_of_classes_that_contradict_the_predictions(rng, base, m):
    """Half of the rows are positive where hardly any was expected: the steps must not overshoot."""
    scaled = np.clip(rng.normal(base, 1, (m, 1)), -9.2, 9.2)
    y = (rng.random((m, 1)) < 0.5).astype(float)
    rows = SiteRows(scaled, scaled - base, np.empty((m, 0)), y[:, 0], y)
    found = expit(rows.with_effect(posterior(rows, LOG_PRIOR, None).effect))
    loss = -np.mean(np.log(np.where(y == 1, found, 1 - found)))
    assert loss < np.log(2) + 0.15


@given(st.integers(2, 5), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_scale_and_back(classes, rows, seed):
    P = np.random.default_rng(seed).dirichlet(np.ones(classes), rows)
    P = np.clip(P, 0.01, 1)
    P /= P.sum(axis=1, keepdims=True)
    back = from_scale(to_scale(P), np.arange(classes))
    np.testing.assert_allclose(back, P, atol=1e-9)
    values = np.random.default_rng(seed).normal(size=rows)
    np.testing.assert_array_equal(from_scale(to_scale(values), None), values)
