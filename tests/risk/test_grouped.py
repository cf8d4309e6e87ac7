"""Variance by groups of rows: against closed forms, for all estimators."""

from __future__ import annotations

import numpy as np
import pytest

from shiftune.errors import DataError
from shiftune.risk import (
    METHODS,
    RegressionAdjusted,
    RiskEstimate,
    by_group,
    estimate,
    heterogeneity_of,
)
from shiftune.risk._adjusted import combined

M, RHO = 10, 0.5
DESIGN = 1 + (M - 1) * RHO


def grouped_losses(rng, k, groups, shape=()):
    """Losses 5 + group effect + noise of variance 1 and intra-class correlation RHO."""
    effects = np.repeat(rng.normal(0, np.sqrt(RHO), (*shape, k, groups)), M, axis=-1)
    return 5 + effects + rng.normal(0, np.sqrt(1 - RHO), effects.shape)


def codes(k, groups):
    return [np.repeat(np.arange(groups), M)] * k


def estimators(rng, k, n):
    """All estimates, as functions of the losses."""
    X = [rng.normal(size=(n, 1)) for _ in range(k)]
    adjusted = RegressionAdjusted().fit(rng.normal(size=(300, 1)), X)
    weights = [np.exp(0.3 * x[:, 0] - 0.045) for x in X]
    found = {
        method: lambda losses, method=method: estimate(losses, weights, method)
        for method in METHODS
        if method != "lambda"
    }
    return found | {"adjusted": adjusted.estimate}


def test_the_interval_covers_where_that_of_rows_does_not():
    # 2000 replications: the Monte Carlo error of a coverage of .9 is .007.
    rng, k, groups = np.random.default_rng(0), 3, 12
    losses = grouped_losses(rng, k, groups, (2000,))
    covered = []
    for own in losses:
        of_rows = estimate(list(own), method="naive")
        both = of_rows, by_group(of_rows, codes(k, groups))
        covered.append([low <= 5 <= high for low, high in (r.interval(0.9) for r in both)])
    of_rows, of_groups = np.mean(covered, axis=0)
    assert of_groups == pytest.approx(0.9, abs=0.02)
    # By the closed form, z = 1.645 / sqrt(5.5), it is .517.
    assert of_rows == pytest.approx(0.517, abs=0.04)


@pytest.mark.parametrize("name", ["naive", "unbiased", "adjusted"])
def test_the_design_effect_is_recovered(name):
    # 400 replications of 4 sites: the variances have a Monte Carlo error of about 1 %.
    rng, k, groups = np.random.default_rng(1), 4, 25
    estimator = estimators(rng, k, M * groups)[name]
    ratios, means = [], []
    for own in grouped_losses(rng, k, groups, (400,)):
        own = own - 5 * (name == "unbiased")  # weights vary too, and multiply the mean loss
        of_rows = estimator(list(own))
        of_groups = by_group(of_rows, codes(k, groups))
        assert of_groups.value == of_rows.value
        ratios.append((of_groups.row_variance, of_rows.row_variance))
        means.append((of_groups.divergences.mean(), of_rows.divergences.mean()))
    for variances in (ratios, means):
        new, old = np.mean(variances, axis=0)
        # Weights that vary within groups leave less of the correlation.
        expected = DESIGN if name in ("naive", "adjusted") else 1 + (DESIGN - 1) / np.exp(0.09)
        assert new / old == pytest.approx(expected, rel=0.06)


def test_sources_have_intervals_by_group_and_agree():
    rng, k, groups = np.random.default_rng(2), 4, 20
    estimator = estimators(rng, k, M * groups)["adjusted"]
    inside, p_values = [], []
    for own in grouped_losses(rng, k, groups, (200,)):
        of_rows = estimator(list(own))
        risk = by_group(of_rows, codes(k, groups)).condensed()
        table = risk.sources
        inside.append(((table["low"] <= 5) & (table["high"] >= 5)).mean())
        p_values.append([heterogeneity_of(each).p_value < 0.05 for each in (of_rows, risk)])
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)
    of_rows, of_groups = np.mean(p_values, axis=0)
    assert of_rows > 0.5
    assert of_groups < 0.1


@pytest.mark.parametrize("name", [*[m for m in METHODS if m != "lambda"], "adjusted"])
def test_groups_of_one_row_change_nothing(name):
    rng, k, n = np.random.default_rng(3), 3, 40
    risk = estimators(rng, k, n)[name](list(rng.exponential(size=(k, n))))
    same = by_group(risk, [rng.permutation(n) for _ in range(k)])
    assert (same.value, same.lam.tolist()) == (risk.value, risk.lam.tolist())
    assert same.variance == pytest.approx(risk.variance, rel=1e-12)
    assert same.dof == pytest.approx(risk.dof, rel=1e-12)
    assert (same.between or 0) == pytest.approx(risk.between or 0, rel=1e-12)
    np.testing.assert_allclose(same.divergences, risk.divergences, rtol=1e-12)
    again = RiskEstimate.from_record(same.condensed().to_record())
    np.testing.assert_array_equal(again.units, risk.n)


def test_differences_of_models_are_paired_by_group():
    # Model b is worse by its own group effects, of variance 1; the rest cancels.
    rng, k, groups = np.random.default_rng(4), 2, 200
    estimator = estimators(rng, k, M * groups)["naive"]
    a = grouped_losses(rng, k, groups)
    b = a + np.repeat(rng.normal(size=(k, groups)), M, axis=-1)
    one, two = (by_group(estimator(list(own)), codes(k, groups)) for own in (a, b))
    expected = 1 / (k * groups)
    assert two.minus(one).variance == pytest.approx(expected, rel=0.15)
    condensed = two.condensed(100).minus(one.condensed(100))
    assert condensed.variance == pytest.approx(expected, rel=0.35)


def test_degrees_of_freedom_count_groups_and_large_ones_more():
    rng = np.random.default_rng(5)
    risk = estimate([rng.normal(size=100)], method="naive")
    equal = by_group(risk, [np.arange(100) // 10])
    assert equal.dof == pytest.approx(9)
    assert equal.block_counts.tolist() == [10]
    one_giant = by_group(risk, [np.maximum(np.arange(100) - 49, 0)])
    assert one_giant.units[0] == pytest.approx(100**2 / (50**2 + 50))
    assert one_giant.dof == pytest.approx(one_giant.units[0] - 1)


def test_a_site_with_one_group_has_the_divergence_of_the_others():
    rng = np.random.default_rng(6)
    losses = list(grouped_losses(rng, 3, 8))
    groups = [*codes(2, 8), np.zeros(8 * M, dtype=int)]
    risk = by_group(estimate(losses, method="naive"), groups)
    assert risk.divergences[2] == pytest.approx(risk.divergences[:2].mean())
    alone = by_group(estimate(losses[:1], method="naive"), groups[2:])
    assert np.isfinite(alone.interval()).all()
    assert alone.divergences[0] > 0


def test_labels_of_few_patients_have_a_smaller_share():
    rng, k, groups = np.random.default_rng(7), 6, 12
    n = M * groups
    X = [rng.normal(size=(n, 1)) for _ in range(k)]
    adjusted = RegressionAdjusted().fit(rng.normal(size=(100, 1)), X)
    losses = list(grouped_losses(rng, k, groups))
    own = np.repeat([3.0, 5.0, 7.0], [4, 3, 3]) + 0.1 * rng.normal(size=10)
    sources = by_group(adjusted.estimate(losses), codes(k, groups))
    shares, variances = [], []
    for patients in (np.arange(10), np.repeat([0, 1, 2], [4, 3, 3])):
        risk = by_group(adjusted.estimate([*losses, own]), [*codes(k, groups), patients])
        risk = combined(risk, sources)
        shares.append(risk.lam[-1] * risk.n[-1])
        variances.append(risk.divergences[-1] / 10)
    assert shares[1] < shares[0]
    assert variances[1] > 2 * variances[0]
    same = by_group(adjusted.estimate([*losses, np.full(10, 5.0)]), [*codes(k, groups), patients])
    assert same.divergences[-1] > 0  # losses without variance do not cancel within a patient


def test_the_error_of_the_adjustment_does_not_grow():
    """It depends on how much a row's loss varies, not on how many rows are alike."""
    rng, k, groups = np.random.default_rng(8), 4, 20
    X = [rng.normal(size=(M * groups, 1)) for _ in range(k)]
    far = RegressionAdjusted().fit(rng.normal(2, 1, (200, 1)), X)
    for own in grouped_losses(rng, k, groups, (3,)):
        of_rows = far.estimate(list(own))
        of_groups = by_group(of_rows, codes(k, groups))
        assert (of_rows.new_site.extrapolation != 0).any()
        np.testing.assert_array_equal(
            of_groups.new_site.extrapolation, of_rows.new_site.extrapolation
        )


def test_other_rows():
    risk = estimate([np.ones(4)], method="naive")
    with pytest.raises(DataError, match=r"groups of \[3\] rows, but influence values of \[4\]"):
        by_group(risk, [np.arange(3)])


@pytest.mark.parametrize("k", [3, 6])
def test_rows_that_are_repeated_and_grouped_are_worth_the_rows_once(k):
    rng = np.random.default_rng(7)
    X = [rng.normal(size=(60, 2)) for _ in range(k)]
    losses = [rng.exponential(size=60) for _ in range(k)]
    target = rng.normal(size=(60, 2))
    once = RegressionAdjusted().fit(target, X).estimate(losses)
    ten = RegressionAdjusted().fit(target, [np.repeat(x, 10, axis=0) for x in X])
    repeated = by_group(
        ten.estimate([np.repeat(own, 10) for own in losses]), [np.arange(600) // 10] * k
    )
    # The ten-fold rows have a little less penalty and larger shares, so the numbers differ a bit.
    assert repeated.between == pytest.approx(once.between, rel=0.2)
    assert repeated.stderr == pytest.approx(once.stderr, rel=0.1)
