"""The tail of a weighted sum of chi-squares, against chi-square and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.label_stability import weighted_chi_square_tail
from scipy.stats import chi2


@pytest.mark.parametrize("k", [1, 2, 5, 50, 600])
@pytest.mark.parametrize("p", [0.95, 0.5, 0.05, 1e-3, 1e-8, 1e-30])
def test_equal_weights(k, p):
    found = weighted_chi_square_tail(3 * chi2.isf(p, k), [3.0] * k)
    assert found == pytest.approx(p, rel=0.08, abs=0.003 if p > 0.01 else 0)


@pytest.mark.slow
def test_unequal_weights():
    """A million draws: Monte Carlo error 0.0001 at 0.01."""
    weights = np.array([1.0, *[0.1] * 10, 1e-15])
    rng = np.random.default_rng(0)
    draws = rng.chisquare(1, 1_000_000) + 0.1 * rng.chisquare(10, 1_000_000)
    for q in (0.5, 2.0, 4.0, 8.0):
        true = np.mean(draws > q)
        assert weighted_chi_square_tail(q, weights) == pytest.approx(true, rel=0.08)


def test_nothing_varies():
    assert weighted_chi_square_tail(0.0, [0.0, 0.0]) == 1
    assert weighted_chi_square_tail(0.0, [1.0, 2.0]) == 1


def test_near_the_mean_it_is_continuous():
    tails = [weighted_chi_square_tail(q, [0.5, 0.3, 0.2]) for q in np.linspace(0.8, 1.2, 81)]
    assert np.all(np.diff(tails) < 0)
    assert np.abs(np.diff(tails)).max() < 0.01
