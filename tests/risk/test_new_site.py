"""Variance between sites and the interval of a new site: against closed forms and simulations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, stdtr

from shiftune.risk import RegressionAdjusted
from shiftune.risk._new_site import (
    NewSiteVariance,
    between_sites,
    never_zero,
    observed_to_expected,
)


def by_integration(seen, dof, bound, power):
    """Posterior moment of tau by numerical integration."""

    def density(tau):
        return tau**-dof * np.exp(-dof * seen / tau**2 / 2)

    total = quad(density, 0, bound)[0]
    return quad(lambda tau: tau**power * density(tau), 0, bound)[0] / total


@pytest.mark.parametrize(("seen", "dof", "bound"), [(0.04, 2, 1.0), (0.5, 5, 3.0), (0.01, 30, 0.7)])
def test_the_posterior_of_the_variance_between_sites(seen, dof, bound):
    mean, variance = between_sites(seen, dof, bound)
    second, fourth = (by_integration(seen, dof, bound, power) for power in (2, 4))
    assert mean == pytest.approx(second, rel=0.02)  # a grid of 50 points
    assert variance == pytest.approx(fourth - second**2, rel=0.05)


def test_one_site_leaves_the_prior():
    mean, variance = between_sites(0.0, 0, 2.0)
    assert mean == pytest.approx(4 / 3, rel=1e-3)
    assert variance == pytest.approx(16 / 5 - 16 / 9, rel=1e-2)


def site(leverage, between=0.0, uncertainty=0.0, extrapolation=()):
    return NewSiteVariance(
        leverage=np.asarray(leverage, dtype=float),
        deflation=1.0,
        row_effects=np.zeros(len(leverage)),
        extrapolation=np.asarray(extrapolation, dtype=float),
        between=between,
        uncertainty=uncertainty,
    )


def test_the_variance_adds_up():
    """Three sites of equal shares: tau^2 (1/3 + 1); two more sites would show the adjustment."""
    found, dof = site([1 / 3] * 3, between=0.5, extrapolation=[0.3, 0.4]).variance(np.array([0.2]))
    assert found == pytest.approx(0.04 + 0.5 * 4 / 3 + 0.25 * 4 / 2)
    assert dof > 1e5
    one, _ = site([1.0], extrapolation=[1.0]).variance(np.zeros(1))
    assert one == pytest.approx(2.0)


def test_student_s_t_stands_for_the_mixture():
    """Probabilities of the mixture of normal distributions over tau, at the 90 % limits."""
    tau = 0.7 * (np.arange(50) + 0.5) / 50
    for seen, dof in ((0.05, 3), (0.1, 9)):
        weights = tau**-dof * np.exp(-dof * seen / tau**2 / 2)
        weights /= weights.sum()
        mean, variance = between_sites(seen, dof, 0.7)
        rows = np.array([0.1])
        scale, degrees = site([0.25] * 4, mean, variance).variance(rows)
        sd = np.sqrt(0.01 + 1.25 * tau**2)
        limit = 1.7 * np.sqrt(scale)
        exact = 2 * float(weights @ ndtr(limit / sd)) - 1
        assert 2 * stdtr(degrees, 1.7) - 1 == pytest.approx(exact, abs=0.01)


def test_extrapolated_losses_stay_above_0():
    values = never_zero(np.array([-3.0, 0.0, 0.49, 0.5, 4.0]), 1.0)
    assert (values > 0).all()
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(values[3:], [0.5, 4.0])
    assert values[2] == pytest.approx(0.49, abs=2e-4)  # the identity to first order


def test_what_the_columns_explain_is_no_deviation():
    """Means of 1 and 3, where the columns let expect 1 and 3: both estimates are 2."""
    ratio, expected = observed_to_expected(
        np.array([1.0, 3.0]), np.array([2.0, 2.0]), np.array([0.5, 0.5])
    )
    np.testing.assert_allclose(expected, [1.0, 3.0])
    np.testing.assert_allclose(ratio, 1.0)


def risk_of(losses):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(len(own), 1)) for own in losses]
    return RegressionAdjusted().fit(rng.normal(size=(50, 1)), X).estimate(losses)


def test_an_interval_is_symmetric_on_the_scale_of_the_root():
    rng = np.random.default_rng(1)
    risk = risk_of([s * rng.exponential(size=200) for s in (1.0, 1.5, 0.7, 1.2)])
    low, high = np.sqrt(risk.interval(0.8))
    wider = np.sqrt(risk.interval(0.9))
    assert low + high == pytest.approx(wider.sum())
    assert wider[0] < low < high < wider[1]


@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_the_unit_of_the_loss_does_not_matter(factor):
    rng = np.random.default_rng(2)
    losses = [s * rng.exponential(size=100) for s in (1.0, 1.5, 0.7)]
    one, other = risk_of(losses), risk_of([factor * own for own in losses])
    np.testing.assert_allclose(other.interval(), factor * np.array(one.interval()), rtol=1e-6)
    signed = risk_of([own - 1 for own in losses])
    scaled = risk_of([factor * (own - 1) for own in losses])
    np.testing.assert_allclose(scaled.interval(), factor * np.array(signed.interval()), rtol=1e-6)


def test_losses_of_0_everywhere():
    risk = risk_of([np.zeros(20)] * 3)
    assert risk.interval() == (0.0, 0.0)


def test_the_sign_can_be_told():
    """Losses that happen to be positive, of which it is known that they need not be."""
    rng = np.random.default_rng(3)
    losses = [5 + rng.normal(size=100) for _ in range(4)]
    assert min(own.min() for own in losses) > 0
    risk = risk_of(losses).signed(nonnegative=False)
    low, high = risk.interval()
    assert (low + high) / 2 == pytest.approx(risk.value)
    assert replace(risk, nonnegative=True).signed(nonnegative=False).variance == risk.variance


@pytest.mark.parametrize(("k", "least"), [(3, 0.82), (6, 0.82), (20, 0.85)])
def test_coverage_where_sites_have_levels_of_their_own(k, least):
    """Squared errors around a mean of other sites; 200 draws, nominal 90 %, s.e. 0.021."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, k])
        levels = rng.normal(0, 0.7, k + 1)
        others = (levels[1:].sum() - levels[1:]) / (k - 1)  # what a model of the others predicts
        noise = rng.normal(size=(k, 150))
        losses = [(e + a - b) ** 2 for e, a, b in zip(noise, levels[1:], others, strict=True)]
        X = [rng.normal(size=(150, 2)) for _ in range(k)]
        risk = RegressionAdjusted().fit(rng.normal(size=(150, 2)), X).estimate(losses)
        truth = 1 + (levels[0] - levels[1:].mean()) ** 2
        low, high = risk.interval(0.9)
        covered += low <= truth <= high
    assert covered / 200 >= least
