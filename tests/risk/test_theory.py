"""The paper's theorems, by Monte Carlo and by property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reproduction.theory import (
    divergence,
    optimal_variance,
    regret_bound,
    variance_of_lambda,
    variance_of_unbiased,
)
from reproduction.toy import toy_problem

from shiftune.datasets import GaussianSites
from shiftune.errors import ProblemError
from shiftune.risk import estimate, optimal_lambda, unbiased_lambda


@pytest.fixture(scope="module")
def replicates():
    """m_j over 4000 replicates of three Gaussian sources with known ratios, and the truth.

    Loss (theta - y)^2 / 2 with theta = 1 and y = 0.7 x + 0.3 + noise; x ~ N(mu_j, 1).
    """
    sites = GaussianSites([[0.0], [0.3], [-0.8], [1.0]])
    n, theta = np.array([40, 60, 80]), 1.0
    rng = np.random.default_rng(3)
    means, z_all = np.empty((4000, 3)), [[], [], []]
    for r in range(4000):
        for j in range(3):
            x = sites.draw(j + 1, n[j], rng)
            y = 0.7 * x[:, 0] + 0.3 + rng.standard_normal(n[j])
            z = sites.ratio(j + 1)(x) * (theta - y) ** 2 / 2
            means[r, j] = z.mean()
            z_all[j].append(z)
    div = np.array([divergence(np.concatenate(z)) for z in z_all])
    truth = ((theta - 0.3) ** 2 + 1.49) / 2
    return n, means, div, truth


@pytest.mark.xdist_group("theorems")  # the replicates are drawn once
class TestTheorems:
    LAMBDAS = pytest.mark.parametrize("shares", [(1, 0, 0), (0, 0, 1), (0.2, 0.3, 0.5), None])

    @LAMBDAS
    def test_every_lambda_is_unbiased_and_has_the_variance_of_the_formula(self, replicates, shares):
        n, means, div, truth = replicates
        lam = optimal_lambda(n, div) if shares is None else np.array(shares) / n
        f = means @ (lam * n)
        assert abs(f.mean() - truth) < 4 * f.std() / np.sqrt(len(f))
        error = np.sqrt(np.var((f - f.mean()) ** 2) / len(f))
        assert abs(f.var() - variance_of_lambda(lam, n, div)) < 5 * error

    def test_the_optimum_is_the_smallest(self, replicates):
        n, means, div, _ = replicates
        best = (means @ (optimal_lambda(n, div) * n)).var()
        assert optimal_variance(n, div) == pytest.approx(best, rel=0.1)
        for lam in (unbiased_lambda(n), np.array([1, 0, 0]) / n, np.array([0, 1, 0]) / n):
            assert (means @ (lam * n)).var() > 1.05 * best

    def test_unbiased_variance(self, replicates):
        n, means, div, _ = replicates
        f = means @ (unbiased_lambda(n) * n)
        error = np.sqrt(np.var((f - f.mean()) ** 2) / len(f))
        assert abs(f.var() - variance_of_unbiased(n, div)) < 5 * error


positive = st.floats(1e-6, 1e6)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 1000), positive, positive), min_size=1, max_size=8))
def test_no_lambda_has_a_smaller_variance(sources):
    n, div, raw = (np.array(column, dtype=float) for column in zip(*sources, strict=True))
    other = raw / (raw * n).sum()
    optimal = optimal_lambda(n, div)
    assert optimal @ n == pytest.approx(1)
    assert (optimal >= 0).all()
    assert variance_of_lambda(optimal, n, div) == pytest.approx(1 / np.sum(n / div))
    assert optimal_variance(n, div) <= variance_of_lambda(other, n, div) * (1 + 1e-9)
    assert optimal_variance(n, div) <= variance_of_unbiased(n, div) * (1 + 1e-9)


def test_divergences_of_zero_take_all_the_mass():
    np.testing.assert_allclose(optimal_lambda([10, 20, 5], [1.0, 0.0, 0.0]), [0, 0.04, 0.04])
    assert optimal_variance([10, 20], [1.0, 0.0]) == 0
    with pytest.raises(ProblemError, match="negative"):
        optimal_lambda([1], [-1.0])


class TestRegretBound:
    def test_closed_form(self):
        got = regret_bound(
            0.25, variance_chosen=0.08, variance_best=0.02, variance_best_estimated=0.06, delta=0.5
        )
        assert got == pytest.approx(0.25 + np.sqrt(0.32) + np.sqrt(0.32))

    def test_it_holds_on_the_toy_problem(self):
        """Regret of the best of 50 points by unbiased estimates, known ratios, 60 seeds."""
        delta, held = 0.2, 0
        for seed in range(60):
            toy = toy_problem(1.5, n=200, random_state=seed)
            X, y = [s.X for s in toy.problem.sources], [s.y for s in toy.problem.sources]
            weights = toy.ratio.fit(toy.problem.target.X, X).weights(X)

            def best_of(thetas, weights=weights, y=y):
                """Lowest mean of w (theta - y)^2 / 2, which is the unbiased estimate."""
                losses = (np.asarray(thetas)[:, None] - np.concatenate(y)) ** 2 / 2
                return thetas[np.argmin(losses @ np.concatenate(weights))]

            chosen = best_of(np.random.default_rng(seed).uniform(-8, 8, 50))
            lowest = best_of(np.linspace(-3, 3, 121))
            at_chosen, at_lowest, at_best = (
                estimate([toy.losses(theta, own) for own in y], weights, "unbiased", guard=False)
                for theta in (chosen, lowest, toy.best_theta)
            )
            bound = regret_bound(
                max(at_chosen.value - at_lowest.value, 0),
                variance_chosen=at_chosen.variance,
                variance_best=at_best.variance,
                variance_best_estimated=at_lowest.variance,
                delta=delta,
            )
            regret = toy.true_risk(chosen) - toy.true_risk(toy.best_theta)
            held += regret <= bound
        assert held / 60 >= 1 - delta

    @pytest.mark.parametrize("delta", [0.0, 1.0, -1.0])
    def test_delta(self, delta):
        with pytest.raises(ProblemError, match="delta"):
            regret_bound(
                0, variance_chosen=1, variance_best=1, variance_best_estimated=1, delta=delta
            )

    def test_negative_variance(self):
        with pytest.raises(ProblemError, match="negative"):
            regret_bound(0, variance_chosen=-1, variance_best=1, variance_best_estimated=1)
