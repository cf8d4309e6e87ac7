"""Hand-written gradients against finite differences, and the process against its formula."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.baselines.distbo import (
    Network,
    Rows,
    TransferPosterior,
    backward,
    embed,
    fit_jointly,
    log_marginal_likelihood,
)
from reproduction.baselines.learned_initialisation import MetaLoss, Surrogate
from reproduction.baselines.source_transfer import SourceTrials
from scipy.optimize import approx_fprime

from shiftune.search.gp._acquisition import UnitCube
from shiftune.search.gp._gaussian_process import Hyperparameters, matern52, squared_distances

D, H, P = 3, 4, 2


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def rows(rng):
    return Rows([rng.normal(m, 1, (n, D)) for m, n in [(0, 5), (1, 8), (-1, 3)]])


@pytest.fixture
def trials(rng):
    """Nine trials in a space with a choice, on three data sets."""
    configurations = np.hstack([rng.random((9, 1)), np.eye(2)[rng.integers(0, 2, 9)] * 0.7])
    return configurations, np.array([0, 1, 1]), rng.standard_normal(9), np.arange(9) % 3


class TestEmbedding:
    def test_is_the_mean_over_the_rows_of_each_table(self, rng, rows):
        net = Network.drawn(D, H, P, rng)
        psi, _, _ = embed(net, rows)
        for t, table in enumerate(np.split(rows.Z, [5, 13])):
            by_row = [np.tanh(z @ net.W1 + net.b) @ net.W2 for z in table]
            np.testing.assert_allclose(psi[t], np.mean(by_row, axis=0))

    def test_backward_agrees_with_finite_differences(self, rng, rows):
        net = Network.drawn(D, H, P, rng)
        slope = rng.standard_normal((3, P))

        def value(flat):
            return float((embed(Network.of(flat, D, H, P), rows)[0] * slope).sum())

        _, hidden, pooled = embed(net, rows)
        exact = backward(net, rows, hidden, pooled, slope)
        np.testing.assert_allclose(exact, approx_fprime(net.flat(), value, 1e-6), atol=1e-5)

    def test_prior_agrees_with_finite_differences_and_with_how_weights_are_drawn(self, rng):
        net = Network.drawn(D, H, P, rng)
        exact = net.log_prior()[1]

        def value(flat):
            return Network.of(flat, D, H, P).log_prior()[0]

        np.testing.assert_allclose(exact, approx_fprime(net.flat(), value, 1e-6), atol=1e-4)
        # With the right precisions each of the N weights has a mean square of 1: chi-square, so
        # the mean of 400 nets has a standard error of sqrt(2 / (400 N)).
        N = len(net.flat())
        squares = [-2 * Network.drawn(D, H, P, rng).log_prior()[0] / N for _ in range(400)]
        assert abs(np.mean(squares) - 1) < 4 * np.sqrt(2 / (400 * N))


class TestMarginalLikelihood:
    def test_value(self, rng, trials):
        configurations, groups, y, table = trials
        theta, psi = rng.normal(-0.5, 0.3, 4), rng.normal(0, 0.5, (3, P))
        h = Hyperparameters.from_log(theta)
        scaled = configurations / h.length_scales[groups]
        r2 = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
        q2 = ((psi[table][:, None] - psi[table][None]) ** 2).sum(axis=2)
        K = h.signal * matern52(r2)[0] * matern52(q2)[0] + h.noise * np.eye(9)
        expected = -0.5 * (
            y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 9 * np.log(2 * np.pi)
        )
        distances = squared_distances(configurations, groups)
        value, _, _ = log_marginal_likelihood(theta, psi, distances, y, table)
        assert value == pytest.approx(expected)

    def test_gradients_agree_with_finite_differences(self, rng, trials):
        configurations, groups, y, table = trials
        distances = squared_distances(configurations, groups)
        theta, psi = rng.normal(-0.5, 0.3, 4), rng.normal(0, 0.5, (3, P))
        _, by_theta, by_psi = log_marginal_likelihood(theta, psi, distances, y, table)

        def of_theta(t):
            return log_marginal_likelihood(t, psi, distances, y, table)[0]

        def of_psi(flat):
            return log_marginal_likelihood(theta, flat.reshape(3, P), distances, y, table)[0]

        np.testing.assert_allclose(by_theta, approx_fprime(theta, of_theta, 1e-6), atol=1e-4)
        near = approx_fprime(psi.ravel(), of_psi, 1e-6)
        np.testing.assert_allclose(by_psi.ravel(), near, atol=1e-4)

    def test_the_fit_ends_at_a_stationary_point(self, rng, rows, trials):
        """Perturbing the network that was found must not give a better posterior density."""
        configurations, groups, y, table = trials
        sizes = {"hidden_units": H, "dimensions": P, "max_iter": 500, "n_starts": 2}
        found = fit_jointly(
            rows, configurations, groups, y, table, rng=np.random.default_rng(1), **sizes
        )
        distances = squared_distances(configurations, groups)
        h = found.hyperparameters
        theta = np.log([*h.length_scales, h.signal, h.noise])

        def density(net):
            psi = embed(net, rows)[0]
            value = log_marginal_likelihood(theta, psi, distances, y, table)[0]
            return value + net.log_prior()[0]

        best = density(found.network)
        for _ in range(20):
            step = 0.02 * rng.standard_normal(len(found.network.flat()))
            assert density(Network.of(found.network.flat() + step, D, H, P)) < best + 1e-4


class TestPosteriorForATask:
    def test_agrees_with_the_formula(self, rng, trials):
        configurations, groups, y, table = trials
        likeness = matern52(((L := rng.normal(0, 0.6, (4, 2)))[:, None] - L[None]) ** 2)[0].prod(2)
        h = Hyperparameters(np.array([0.4, 0.8]), 1.3, 0.01)
        between, toward = likeness[1:, 1:][np.ix_(table, table)], likeness[0, 1:][table]
        posterior = TransferPosterior(
            configurations, y, np.zeros(9), groups, h, between=between, toward=toward
        )
        scales = h.length_scales[groups]
        x = rng.random((5, 3))

        def kernel(a, b):
            return matern52((((a[:, None] - b[None]) / scales) ** 2).sum(axis=2))[0]

        K = h.signal * kernel(configurations, configurations) * between + h.noise * np.eye(9)
        k = h.signal * kernel(x, configurations) * toward
        mean, sd = posterior.predict(x)
        np.testing.assert_allclose(mean, k @ np.linalg.solve(K, y), rtol=1e-8)
        variance = h.signal - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))
        np.testing.assert_allclose(sd**2, variance, rtol=1e-6)
        slope = posterior.lower_bound_gradient(x[0], -2.0)[1]
        near = approx_fprime(x[0], lambda r: posterior.lower_bound(r[None], -2.0)[0], 1e-6)
        np.testing.assert_allclose(slope, near, atol=1e-4)


def test_the_gradient_of_a_surrogates_mean(rng, trials):
    configurations, groups, y, _ = trials
    h = Hyperparameters(np.array([0.4, 0.8]), 1.3, 0.01)
    surrogate = Surrogate(configurations, y, np.zeros(9), groups, h)
    x = rng.random((5, 3))
    means, slopes = surrogate.mean_gradient(x)
    np.testing.assert_allclose(means, surrogate.predict(x)[0])
    near = approx_fprime(x[1], lambda r: surrogate.predict(r[None])[0][0], 1e-6)
    np.testing.assert_allclose(slopes[1], near, atol=1e-4)


def test_meta_loss_is_the_sum_of_the_surrogates_and_its_gradient(rng):
    from optuna.distributions import FloatDistribution

    cube = UnitCube({"a": FloatDistribution(0, 1), "b": FloatDistribution(0, 1)})
    rows, site = rng.random((12, 2)), np.arange(12) % 2
    values = 5 + 3 * ((rows - 0.4) ** 2).sum(axis=1) * (1 + site)
    meta = MetaLoss(SourceTrials(cube, rows, values, site, None))
    at = rows[[0, 1]] + 1e-3
    expected = sum(5 + 3 * ((at - 0.4) ** 2).sum(axis=1) * (1 + j) for j in (0, 1))
    value, slope = meta(at)
    np.testing.assert_allclose(value * values.std(), expected, rtol=0.05)
    near = approx_fprime(at[0], lambda r: meta(r[None])[0][0], 1e-6)
    np.testing.assert_allclose(slope[0], near, atol=1e-4)
