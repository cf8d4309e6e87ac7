"""Variance between sites and the interval of a new site: against closed forms and simulations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.special import ndtr, stdtr

from shiftune.risk import RegressionAdjusted
from shiftune.risk._adjusted import combined
from shiftune.risk._heterogeneity import without_source
from shiftune.risk._new_site import NewSiteVariance, between_sites


def by_integration(y, v, bound, power):
    """Posterior moment of tau by numerical integration."""
    tau = np.geomspace(1e-5, bound, 200_000)
    precision = 1 / (tau[:, None] ** 2 + v)
    total = precision.sum(axis=1)
    away = y - ((precision @ y) / total)[:, None]
    log = (np.log(precision).sum(axis=1) - np.log(total) - (precision * away**2).sum(axis=1)) / 2
    density = np.exp(log - log.max())
    return trapezoid(density * tau**power, tau) / trapezoid(density, tau)


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.4])
@pytest.mark.parametrize(("k", "v"), [(3, 0.0), (5, 0.1), (40, 0.0), (40, 0.02)])
def test_the_posterior_of_the_variance_between_sites(k, v, spread):
    rng = np.random.default_rng(k)
    y, v = spread * rng.normal(size=k), v * rng.random(k) ** 2
    mean, variance = between_sites(y, v, 1.0, 1.0)
    second, fourth = (by_integration(y, v, 1.0, power) for power in (2, 4))
    assert mean == pytest.approx(second, rel=0.03, abs=1e-5)  # the grid begins at 0.001
    assert variance == pytest.approx(fourth - second**2, rel=0.1, abs=1e-9)


def test_one_site_leaves_the_prior():
    mean, variance = between_sites(np.zeros(1), np.zeros(1), 1.0, 2.0)
    assert mean == pytest.approx(4 / 3, rel=0.01)  # a grid of 100 points
    assert variance == pytest.approx(16 / 5 - 16 / 9, rel=0.01)


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
    """Three sites of equal shares: tau^2 (1/3 + 1), and twice the error of the adjustment."""
    found, dof = site([1 / 3] * 3, between=0.5, extrapolation=[0.3, 0.4]).variance(np.array([0.2]))
    assert found == pytest.approx(0.04 + 0.5 * 4 / 3 + 0.25 * 4 / 2)
    assert dof > 1e5
    of_one, of_two = (site([1 / k] * k, extrapolation=[1.0]).variance(np.zeros(1)) for k in (1, 2))
    assert of_one == of_two == (3.0, pytest.approx(1e6))


def test_student_s_t_stands_for_the_mixture():
    """Probabilities of the mixture of normal distributions over tau, at the 90 % limits."""
    tau = np.linspace(1e-3, 1.0, 4000)
    rng = np.random.default_rng(0)
    for k in (4, 10):
        y = 0.3 * rng.normal(size=k)
        weights = tau ** (1 - k) * np.exp(-(k - 1) * y.var(ddof=1) / tau**2 / 2)
        weights /= weights.sum()
        mean, variance = between_sites(y, np.zeros(k), 1.0, 1.0)
        scale, degrees = site([1 / k] * k, mean, variance).variance(np.array([0.1]))
        sd = np.sqrt(0.01 + (1 + 1 / k) * tau**2)
        exact = 2 * float(weights @ ndtr(1.7 * np.sqrt(scale) / sd)) - 1
        assert 2 * stdtr(degrees, 1.7) - 1 == pytest.approx(exact, abs=0.03)


def risk_of(losses):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(len(own), 1)) for own in losses]
    return RegressionAdjusted().fit(rng.normal(size=(50, 1)), X).estimate(losses)


def test_an_interval_is_symmetric_on_the_scale_of_the_root():
    rng = np.random.default_rng(1)
    risk = risk_of([s * rng.exponential(size=200) for s in (1.0, 1.5, 0.7, 1.2)])
    low, high = np.sqrt(risk.interval(0.8))
    wider = np.sqrt(risk.interval(0.9))
    assert low + high == pytest.approx(wider.sum(), rel=0.01)
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


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 80), min_size=1, max_size=6),
    st.floats(-6, 6),
    st.floats(0, 2),
    st.integers(0, 200),
    st.integers(0, 2**16),
)
@pytest.mark.filterwarnings("ignore::shiftune.errors.OverlapWarning")
def test_an_estimate_lies_in_its_own_interval(rows, shift, apart, labels, seed):
    """Wherever the target lies, however few the rows, with labels of the target or without."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in rows]
    losses = [np.exp(apart * rng.normal()) * (x[:, 0] + rng.normal(size=len(x))) ** 2 for x in X]
    adjusted = RegressionAdjusted().fit(rng.normal(shift, 1, (40, 2)), X)
    risk = adjusted.estimate(losses)
    if labels:
        risk = combined(adjusted.estimate([*losses, rng.exponential(size=labels)]), risk)
    low, high = risk.interval(0.9)
    assert 0 <= low <= max(risk.value, 0.0) <= high < np.inf


def test_an_easy_target_is_not_taken_for_a_harder_one():
    """One row in five is easy at the sources, and nineteen in twenty at the target."""
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        hard = [rng.random((200, 1)) < 0.8 for _ in range(8)]
        losses = [np.where(own[:, 0], 4.0, 0.5) * rng.exponential(size=200) for own in hard]
        target = (rng.random((300, 1)) < 0.05).astype(float)
        X = [own.astype(float) for own in hard]
        low, high = RegressionAdjusted().fit(target, X).estimate(losses).interval(0.9)
        covered += low <= 0.05 * 4 + 0.95 * 0.5 <= high
    assert covered >= 34


def test_tiny_sites_do_not_widen_the_interval():
    rng = np.random.default_rng(4)
    large = [rng.exponential(size=1000) for _ in range(4)]
    widths = []
    for tiny in ([], [rng.exponential(size=1) for _ in range(10)]):
        low, high = risk_of([*large, *tiny]).interval(0.9)
        widths.append(high - low)
    assert widths[1] < 2 * widths[0]


def test_without_a_source_the_variance_is_that_of_the_others():
    """A site that is unlike the others widens the interval, until it is left out."""
    rng = np.random.default_rng(5)
    losses = [rng.exponential(size=300) for _ in range(5)] + [9 * rng.exponential(size=300)]
    every = risk_of(losses)
    rest = without_source(every, every.names[-1])
    assert rest.new_site.leverage.sum() == pytest.approx(every.new_site.leverage.sum())
    assert rest.between < every.between / 20


@pytest.mark.filterwarnings("ignore::shiftune.errors.OverlapWarning")
def test_the_sampler_hears_of_the_error_of_the_criterion():
    """Mean over the sites of equal shares: the mean of the variances of their means, over k."""
    rng = np.random.default_rng(6)
    losses = [rng.exponential(size=100) for _ in range(4)]
    X = [rng.normal(size=(100, 1)) for _ in losses]
    far = RegressionAdjusted().fit(rng.normal(3, 1, (50, 1)), X).estimate(losses)
    by_hand = np.mean([own.var() / 100 for own in losses]) / 4
    assert far.criterion_variance == pytest.approx(by_hand, rel=0.1)
    assert far.row_variance > 3 * far.criterion_variance


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
    assert least <= covered / 200 <= 0.97
