"""Cochran's Q and what follows from it, against published and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, ttest_ind

from shiftune.errors import OverlapWarning, ProblemError
from shiftune.risk import estimate, heterogeneity, heterogeneity_of

# 13 trials of the BCG vaccine (Colditz and others 1994, JAMA 271): cases and others among the
# vaccinated, cases and others among the controls.
BCG = np.array(
    [
        (4, 119, 11, 128),
        (6, 300, 29, 274),
        (3, 228, 11, 209),
        (62, 13536, 248, 12619),
        (33, 5036, 47, 5761),
        (180, 1361, 372, 1079),
        (8, 2537, 10, 619),
        (505, 87886, 499, 87892),
        (29, 7470, 45, 7232),
        (17, 1699, 65, 1600),
        (186, 50448, 141, 27197),
        (5, 2493, 3, 2338),
        (27, 16886, 29, 17825),
    ]
)


def log_relative_risks():
    a, b, c, d = BCG.T
    return np.log(a / (a + b)) - np.log(c / (c + d)), 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)


def test_a_published_meta_analysis():
    """Q of the best-known example, as textbooks print it."""
    found = heterogeneity(*log_relative_risks())
    assert found.q == pytest.approx(152.233, abs=0.001)
    assert found.i_squared == pytest.approx(1 - 12 / 152.233, abs=1e-4)
    assert found.p_value == pytest.approx(chi2.sf(found.q, 12))


def test_alike_sources():
    found = heterogeneity([2.0, 2.1, 1.9], [0.1, 0.1, 0.1])
    assert found.i_squared == 0
    assert heterogeneity([1.0, 1.0], [0.1, 0.2]).q == 0


def test_two_sources_are_welchs_t_test(rng):
    a, b = rng.normal(0, 1, 12), rng.normal(0.8, 3, 7)
    variances = [a.var(ddof=1) / 12, b.var(ddof=1) / 7]
    found = heterogeneity([a.mean(), b.mean()], variances, dof=[11, 6])
    assert found.p_value == pytest.approx(ttest_ind(a, b, equal_var=False).pvalue)


@pytest.mark.parametrize(
    ("estimates", "variances"),
    [([1.0], [1.0]), ([1.0, 2.0], [1.0, 0.0]), ([1.0, 2.0], [1.0, 2.0, 3.0])],
)
def test_what_cannot_be_compared(estimates, variances):
    with pytest.raises(ProblemError, match=r"variance"):
        heterogeneity(estimates, variances)


def test_level_with_skewed_losses_and_few_rows():
    """20 sources of 40 rows, squared errors: 300 runs, Monte Carlo error 0.013 at 0.05.

    The sources' own variances and the chi-square law reject in a quarter of the runs.
    """
    rng = np.random.default_rng(0)
    rejected = []
    for _ in range(300):
        weights = [np.exp(rng.normal(-0.08, 0.4, 40)) for _ in range(20)]
        risk = estimate([rng.chisquare(1, 40) for _ in range(20)], weights, "unbiased")
        plain = heterogeneity(risk.estimates, risk.divergences / risk.n)
        rejected.append((heterogeneity_of(risk).p_value < 0.05, plain.p_value < 0.05))
    ours, plain = np.mean(rejected, axis=0)
    assert ours < 0.05 + 3 * 0.013
    assert plain > 0.2


def test_scale_errors_of_weights_are_no_disagreement(rng):
    """Weights of a source that are all too large by a factor do not move its answer."""
    losses = [rng.exponential(size=300) for _ in range(3)]
    weights = [np.full(300, 1.3), np.ones(300), np.full(300, 0.7)]
    risk = estimate(losses, weights)
    assert heterogeneity_of(risk).p_value > 0.05
    assert heterogeneity(risk.estimates, risk.divergences / risk.n).p_value < 1e-6


def test_sources_that_differ_are_found(rng):
    losses = [rng.exponential(scale, 300) for scale in (1.0, 1.0, 2.0)]
    found = heterogeneity_of(estimate(losses, [np.ones(300)] * 3))
    assert found.p_value < 1e-6
    assert 0.5 < found.i_squared < 1


def test_who_is_asked(rng):
    """Left-out sources are not; with one source there is nothing to compare."""
    losses = [rng.exponential(size=100) for _ in range(3)]
    risk = estimate(losses, [np.ones(100), np.ones(100), np.full(100, 1e-9)])
    assert heterogeneity_of(risk).k == 2
    assert heterogeneity_of(estimate(losses[:1], [np.ones(100)])) is None
    assert heterogeneity_of(estimate([np.ones(9), np.ones(9)], method="naive")) is None


@pytest.mark.parametrize("tiny", [1e-9, 0.1])
def test_an_estimate_that_fell_back(tiny, rng):
    """Naive (1e-9) or self-normalised (0.1): both are on the scale of the losses."""
    losses = [rng.exponential(size=100) for _ in range(3)]
    with pytest.warns(OverlapWarning):
        risk = estimate(losses, [np.full(100, tiny * c) for c in (0.5, 1, 1.5)])
    assert heterogeneity_of(risk).p_value > 0.01
