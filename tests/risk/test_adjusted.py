"""The adjusted estimate: against closed forms, with few labels, with honest intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune.errors import OverlapWarning, ProblemError
from shiftune.risk import RegressionAdjusted, RiskEstimate, _adjusted, estimate
from shiftune.risk._adjusted import (
    combined,
    share_of_labels,
    with_share,
)
from shiftune.risk._result import by_group


def sites(rng, centres, n=300):
    """Rows around some centres, with losses 3 + x + noise."""
    X = [rng.normal(c, 1, (n, 2)) for c in centres]
    return X, [3 + x[:, 0] + rng.normal(size=n) for x in X]


def test_it_is_a_weighted_mean_whose_coefficients_do_not_depend_on_the_losses():
    rng = np.random.default_rng(0)
    X, losses = sites(rng, (0.5, 1.0, -0.5))
    adjusted = RegressionAdjusted().fit(rng.normal(size=(100, 2)), X)
    c = adjusted.coefficients_
    assert c.sum() == pytest.approx(1)
    assert adjusted.estimate(losses).value == pytest.approx(c @ np.concatenate(losses))
    others = [loss**2 for loss in losses]
    assert adjusted.estimate(others).value == pytest.approx(c @ np.concatenate(others))


def test_a_hundred_times_the_rows_do_not_have_a_hundred_times_the_share():
    X = [np.random.default_rng(n).normal(size=(n, 1)) for n in (10, 990)]
    shares = RegressionAdjusted().fit(X[1], X).shares_  # n / (n + 10), with sum 1
    np.testing.assert_allclose(shares, np.array([0.5, 0.99]) / 1.49)


def test_estimate_is_the_mean_of_what_the_sources_say():
    rng = np.random.default_rng(1)
    X, losses = sites(rng, (0.5, 1.0, -0.5))
    risk = (
        RegressionAdjusted().fit(rng.normal(size=(100, 2)), X).estimate(losses, names=list("BCD"))
    )
    table = risk.sources
    assert (table["share"] * table["estimate"]).sum() == pytest.approx(risk.value)
    assert table["share"].sum() == pytest.approx(1)


def test_without_penalty_it_is_the_least_squares_prediction_at_the_target():
    """One source: with a vanishing penalty, regression of L on z, at the target's mean of z."""
    rng = np.random.default_rng(2)
    x, t = rng.normal(1, 1, (200, 1)), rng.normal(0, 1, (80, 1))
    loss = 2 + x[:, 0] + 0.5 * x[:, 0] ** 2 + rng.normal(size=200)
    found = RegressionAdjusted(prior_r2=1 - 1e-9).fit(t, [x]).estimate([loss]).value
    design = np.column_stack([np.ones(200), x, x**2])
    slopes = np.linalg.lstsq(design, loss, rcond=None)[0]
    by_hand = (np.column_stack([np.ones(80), t, t**2]) @ slopes).mean()
    assert found == pytest.approx(by_hand, rel=1e-6)


def test_with_nothing_explained_it_is_the_mean_over_the_sites():
    rng = np.random.default_rng(3)
    X, losses = sites(rng, (0.5, 3.0))
    found = (
        RegressionAdjusted(prior_r2=1e-12).fit(rng.normal(size=(50, 2)), X).estimate(losses).value
    )
    assert found == pytest.approx(np.mean([loss.mean() for loss in losses]), rel=1e-6)


def test_removes_the_bias_of_the_rows():
    """Sources at 1 and 2, target at 0, loss linear in x: 3 at the target, 4.5 on average.

    Each of 40 draws has a standard error of about .15, their mean of .03; with an R^2 of .1
    expected (it is .5 here) and 600 rows the penalty leaves a tenth of the bias.
    """
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, losses = sites(rng, (1.0, 2.0))
        found.append(RegressionAdjusted().fit(rng.normal(size=(300, 2)), X).estimate(losses).value)
    assert abs(np.mean(found) - 3) < 0.25


@pytest.mark.parametrize("k", [2, 3, 6, 30])
def test_intervals_cover_one_more_site(k):
    """Sites differ by effects; so does the target. 90 % intervals, 150 draws, s.e. .025.

    Two sites that are alike by chance are the hard case.
    """
    sizes = np.array([0.0, 0.1, 0.5])
    covered = np.zeros(3)
    for seed in range(150):
        rng = np.random.default_rng(seed)
        effects = rng.normal(size=k + 1)
        X, losses = sites(rng, rng.normal(0, 0.5, k), n=120)
        adjusted = RegressionAdjusted().fit(rng.normal(size=(300, 2)), X)
        for i, size in enumerate(sizes):
            moved = [own + size * e for own, e in zip(losses, effects[1:], strict=True)]
            low, high = adjusted.estimate(moved).interval(0.9)
            covered[i] += low <= 3 + size * effects[0] <= high
    assert (covered / 150 >= (0.74 if k == 2 else 0.82)).all()
    assert covered[2] / 150 <= 0.98


@pytest.mark.parametrize(
    ("rows", "columns", "spread", "effect", "shift"),
    [
        ([150] * 6, 5, 1.0, 1.0, 0.0),  # the columns take some of the sites' differences
        ([100] * 6, 5, 0.5, 0.0, 1.0),  # the target lies to one side
        ([1000] + [8] * 15, 5, 0.5, 0.5, 0.0),  # one large site and many small ones
    ],
    ids=["columns tell sites apart", "to one side", "unequal sites"],
)
def test_coverage_of_a_model_and_of_the_difference_of_two(rows, columns, spread, effect, shift):
    """Nominal 90 %, 100 draws, s.e. .03."""
    covered = np.zeros(2)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        k = len(rows)
        X = [rng.normal(spread * rng.normal(size=columns), 1, (n, columns)) for n in rows]
        adjusted = RegressionAdjusted().fit(rng.normal(shift, 1, (300, columns)), X)
        found, truth = [], []
        for _ in range(2):
            slope = rng.normal(size=columns) / np.sqrt(columns)
            deviation = effect * rng.normal(size=k + 1)
            found.append(
                adjusted.estimate(
                    [
                        20 + x @ slope + deviation[j] + rng.normal(size=len(x))
                        for j, x in enumerate(X)
                    ]
                )
            )
            truth.append(20 + shift * slope.sum() + deviation[k])
        low, high = found[0].interval(0.9)
        covered[0] += low <= truth[0] <= high
        low, high = found[0].minus(found[1]).interval(0.9)
        covered[1] += low <= truth[0] - truth[1] <= high
    assert (covered / 100 >= 0.8).all()


@pytest.mark.parametrize("k", [1, 2])
def test_sites_that_look_alike_are_not_taken_for_certain(k):
    """Same losses at every source: by the rows alone the interval would be 0.1 of the loss."""
    rng = np.random.default_rng(15)
    X, losses = sites(rng, (0.0,))
    adjusted = RegressionAdjusted().fit(rng.normal(size=(300, 2)), X * k)
    risk = adjusted.estimate([np.abs(own) for own in losses * k])
    low, high = risk.interval()
    # One source shows nothing, so that its interval is that of the prior.
    assert (high - low) / risk.value > {1: 0.3, 2: 0.15}[k]


def test_a_difference_is_that_of_the_differences():
    """The estimate is linear, so both ways give the same."""
    rng = np.random.default_rng(10)
    X, a = sites(rng, (0.0, 0.5, 1.0, -0.5))
    b = [loss + rng.normal(size=300) for loss in a]
    adjusted = RegressionAdjusted().fit(rng.normal(size=(80, 2)), X)
    one = adjusted.estimate(a).minus(adjusted.estimate(b))
    other = adjusted.estimate([x - y for x, y in zip(a, b, strict=True)])
    assert one.value == pytest.approx(other.value)
    assert one.variance == pytest.approx(other.variance)
    assert one.dof == pytest.approx(other.dof)


def test_a_risk_is_not_below_0():
    rng = np.random.default_rng(11)
    X = [rng.normal(size=(30, 1)) for _ in range(3)]
    adjusted = RegressionAdjusted().fit(rng.normal(size=(30, 1)), X)
    low, high = adjusted.estimate([np.full(30, x) for x in (0.0, 0.1, 3.0)]).interval()
    assert 0 <= low < high
    assert adjusted.estimate([np.full(30, x) for x in (-0.1, 0.1, 3.0)]).interval()[0] < 0


def test_difference_of_two_models_knows_the_sites():
    """The better model differs between sites, so a difference is less sure than rows alone say."""
    rng = np.random.default_rng(4)
    X, losses = sites(rng, (0.0, 0.2, -0.2, 0.1))
    adjusted = RegressionAdjusted().fit(rng.normal(size=(200, 2)), X)
    gaps = (0.5, -0.5, 0.5, -0.5)
    moved = [loss + gap for loss, gap in zip(losses, gaps, strict=True)]
    same = [loss + 0.2 for loss in losses]
    a = adjusted.estimate(losses)
    assert adjusted.estimate(same).minus(a).stderr < 1e-6
    low, high = adjusted.estimate(moved).minus(a).interval()
    assert low < -0.5
    assert high > 0.5


def test_few_labels_of_the_target():
    rng = np.random.default_rng(5)
    X, losses = sites(rng, (0.5, 1.0, -0.5))
    own = 5 + rng.normal(size=25)  # m / (m + 100) is a fifth
    adjusted = RegressionAdjusted().fit(rng.normal(size=(100, 2)), X)
    without, with_own = (
        adjusted.estimate(losses),
        adjusted.estimate([*losses, own], names=[*"BCD", "A"]),
    )
    assert with_own.value == pytest.approx(0.8 * without.value + 0.2 * own.mean())
    assert with_own.sources["share"]["A"] == pytest.approx(0.2)
    assert with_own.labelled_target
    more = adjusted.estimate([*losses, 5 + rng.normal(size=3000)])
    assert abs(more.value - 5) < 0.1
    assert more.variance < with_own.variance


def test_record():
    rng = np.random.default_rng(6)
    X, losses = sites(rng, (0.5, 1.0))
    risk = RegressionAdjusted().fit(rng.normal(size=(50, 2)), X).estimate([*losses, np.ones(10)])
    again = RiskEstimate.from_record(risk.to_record())
    assert (again.between, again.labelled_target) == (risk.between, True)
    assert again.minus(risk).stderr == pytest.approx(0, abs=1e-6)


def test_mixed_columns():
    rng = np.random.default_rng(7)

    def table(n):
        return pd.DataFrame(
            {
                "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 10, n)),
                "ward": rng.choice(["a", "b", "c"], n),
                "same": np.ones(n),
            }
        )

    risk = (
        RegressionAdjusted()
        .fit(table(40), [table(50), table(60)])
        .estimate([np.ones(50), np.zeros(60)])
    )
    assert 0 < risk.value < 1


def test_a_target_beyond_all_sources_is_pointed_out():
    rng = np.random.default_rng(8)
    X, losses = sites(rng, (0.0, 0.1), n=40)
    with pytest.warns(OverlapWarning, match="outside the range of the sources"):
        adjusted = RegressionAdjusted().fit(rng.normal(30, 0.1, (50, 2)), X)
    found = adjusted.estimate(losses)
    assert found.value == pytest.approx(np.mean([loss.mean() for loss in losses]), rel=1e-3)
    near = RegressionAdjusted().fit(rng.normal(size=(50, 2)), X).estimate(losses)
    assert found.stderr > 5 * near.stderr


def test_rows_that_no_source_comes_near_are_pointed_out():
    rng = np.random.default_rng(12)
    X, losses = sites(rng, (0.0, 0.1))
    near = rng.normal(size=(100, 2))
    far = np.where(np.arange(100)[:, None] < 30, near + 20, near)
    with pytest.warns(OverlapWarning, match="30 %"):
        adjusted = RegressionAdjusted().fit(far, X)
    plain = RegressionAdjusted().fit(near, X)
    assert adjusted.estimate(losses).stderr > 2 * plain.estimate(losses).stderr


def test_the_order_of_the_sources_does_not_matter():
    rng = np.random.default_rng(13)
    X = [np.column_stack([np.ones(1200), rng.normal(size=1200)]), rng.normal(size=(300, 2))]
    losses = [rng.exponential(size=1200), X[1][:, 0] ** 2]
    target = rng.normal(size=(100, 2))
    one = RegressionAdjusted().fit(target, X).estimate(losses)
    other = RegressionAdjusted().fit(target, X[::-1]).estimate(losses[::-1])
    assert one.value == pytest.approx(other.value)


def test_a_single_labelled_row_is_not_certain(monkeypatch):
    monkeypatch.setattr(_adjusted, "SOURCE_PSEUDO_ROWS", 1.0)  # half of the weight
    rng = np.random.default_rng(14)
    X, losses = sites(rng, (0.0, 0.2))
    adjusted = RegressionAdjusted().fit(rng.normal(size=(80, 2)), X)
    without, one = adjusted.estimate(losses), adjusted.estimate([*losses, np.array([3.0])])
    by_label = one.row_variance - without.row_variance / 4
    assert by_label == pytest.approx(without.divergences.mean() / 4, rel=0.15)


@pytest.mark.parametrize(
    ("options", "losses", "message"),
    [
        ({"prior_r2": 0}, [np.ones(5), np.ones(5)], "prior_r2 must lie between"),
        ({}, [np.ones(5)], "fitted on"),
        ({}, [np.ones(5), np.ones(6)], "fitted on"),
        ({}, [np.ones(5), np.full(5, np.nan)], "not finite"),
    ],
)
def test_mistakes(options, losses, message):
    rng = np.random.default_rng(9)
    X = [rng.normal(size=(5, 1)) for _ in range(2)]
    with pytest.raises(ProblemError, match=message):
        RegressionAdjusted(**options).fit(rng.normal(size=(9, 1)), X).estimate(losses)


def test_not_fitted():
    with pytest.raises(ProblemError, match="call fit first"):
        RegressionAdjusted().estimate([np.ones(3)])


def test_one_row_of_every_site():
    """Rows and sites cannot be told apart, but what differs is counted. s.e. of .02."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = [rng.normal(size=(1, 1)) for _ in range(20)]
        risk = (
            RegressionAdjusted()
            .fit(rng.normal(size=(50, 1)), X)
            .estimate([3 + rng.normal(size=1) for _ in X])
        )
        low, high = risk.interval(0.9)
        covered += low <= 3 <= high
    assert covered / 200 > 0.9


class TestShareOfTheTarget:
    """The target's own m rows have the share m / (m + 100)."""

    @pytest.mark.parametrize("m", [1, 20, 300])
    def test_it_depends_on_the_number_of_rows_alone(self, m):
        rng = np.random.default_rng(0)
        X, losses = sites(rng, (0.0, 1.0, -1.0))
        adjusted = RegressionAdjusted().fit(rng.normal(size=(50, 2)), X)
        own = rng.exponential(9.0, m)
        both, of_sources = adjusted.estimate([*losses, own]), adjusted.estimate(losses)
        share = m / (m + 100)
        assert both.sources["share"].iloc[-1] == pytest.approx(share)
        assert both.sources["share"].sum() == pytest.approx(1)
        assert both.value == pytest.approx((1 - share) * of_sources.value + share * own.mean())
        assert both.criterion == pytest.approx(
            (1 - share) * of_sources.criterion + share * own.mean()
        )

    def test_variance_is_that_of_an_estimate_made_with_this_share(self, monkeypatch):
        rng = np.random.default_rng(0)
        X = [rng.normal(size=(200, 1)) for _ in range(10)]
        target, losses = rng.normal(size=(200, 1)), [rng.exponential(size=200) for _ in range(10)]
        own = rng.exponential(size=20)
        adjusted = RegressionAdjusted().fit(target, X)
        moved = with_share(adjusted.estimate([*losses, own]), 20 / (20 + 7))
        monkeypatch.setattr(_adjusted, "SOURCE_PSEUDO_ROWS", 7.0)
        made = adjusted.estimate([*losses, own])
        assert moved.value == pytest.approx(made.value)
        assert moved.variance == pytest.approx(made.variance)
        assert moved.dof == pytest.approx(made.dof, rel=0.05)


class TestCriterion:
    """Trials are compared by the mean losses of the sites, without the adjustment."""

    def test_it_is_the_mean_loss_over_the_sites(self):
        rng = np.random.default_rng(0)
        X, losses = sites(rng, (0.5, 1.0, -0.5))
        risk = RegressionAdjusted().fit(rng.normal(3, 1, size=(100, 2)), X).estimate(losses)
        means = [own.mean() for own in losses]
        assert risk.criterion == pytest.approx((risk.lam * risk.n) @ means)
        assert risk.value > risk.criterion + 1  # losses grow towards the target
        for same in (risk.condensed(), RiskEstimate.from_record(risk.condensed().to_record())):
            assert same.criterion == risk.criterion

    def test_of_groups(self):
        rng = np.random.default_rng(0)
        X, losses = sites(rng, (0.5, 1.0, -0.5))
        risk = RegressionAdjusted().fit(rng.normal(size=(100, 2)), X).estimate(losses)
        grouped = by_group(risk, [np.arange(300) // 7] * 3)
        assert grouped.criterion == pytest.approx(risk.criterion)

    def test_of_estimators_that_do_not_adjust(self):
        risk = estimate([np.ones(3), np.arange(4.0)], method="naive")
        assert risk.criterion == risk.value


def test_share_of_labels_has_the_least_variance():
    """Variances are combined as those of independent means."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(200, 1)) for _ in range(12)]
    losses = [rng.normal(centre, 2, 200) for centre in rng.normal(5, 1, 12)]
    risk = RegressionAdjusted().fit(rng.normal(size=(200, 1)), x).estimate(losses)
    one_row = float(np.mean(risk.divergences))
    for m in (1, 10, 1000):
        by_variance = risk.variance / (risk.variance + one_row / m)
        assert share_of_labels(m, one_row, risk.variance) == pytest.approx(
            min(by_variance, m / (m + 10))
        )
    shares = [share_of_labels(m, one_row, risk.variance) for m in range(1, 300)]
    assert np.all(np.diff(shares) > 0)


def test_labels_that_contradict_the_sources_widen_the_interval():
    """The distance is a part of the variance, whatever share the labels have afterwards."""
    rng = np.random.default_rng(1)
    x = [rng.normal(size=(200, 1)) for _ in range(12)]
    fitted = RegressionAdjusted().fit(rng.normal(size=(200, 1)), x)
    losses = [rng.exponential(1.0, 200) for _ in x]
    of_sources = fitted.estimate(losses)
    alike, apart = (
        combined(fitted.estimate([*losses, rng.exponential(scale, 30)]), of_sources)
        for scale in (1.0, 9.0)
    )
    assert alike.stderr < 0.5 < apart.stderr
    half = with_share(apart, 0.5)
    distance = float(apart.estimates[-1]) - of_sources.value
    assert half.stderr == pytest.approx(0.5 * distance, rel=0.2)
    # Both models are as far from the sources' estimate, so their difference is not uncertain.
    better = [0.9 * own for own in losses]
    own = rng.exponential(9.0, 30)
    one = combined(fitted.estimate([*losses, own]), of_sources)
    two = combined(fitted.estimate([*better, own - 0.1]), fitted.estimate(better))
    assert one.minus(with_share(two, float(one.lam[-1] * one.n[-1]))).stderr < 0.2 * one.stderr


@pytest.mark.filterwarnings("ignore::shiftune.errors.OverlapWarning")
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (3, (2.029298602285503, 2.0303371809856574)),
        (60, (2.657347618031668, 2.6724170565654175)),
    ],
)
def test_its_digits_are_those_of_all_numbers_at_once(columns, expected):
    # From a version that formed all values, squares and products, and inverted Z'Z + a p I.
    rng = np.random.default_rng(7)
    X = [rng.normal(rng.normal(0, 0.5, columns), 1, (n, columns)) for n in (30, 45, 25)]
    losses = [x[:, 0] ** 2 + x[:, 0] * x[:, 1] + rng.exponential(1, len(x)) for x in X]
    fitted = RegressionAdjusted().fit(rng.normal(0.2, 1, (60, columns)), X)
    risk = fitted.estimate(losses)
    _, full = fitted.least_and_most_adjusted(losses)
    assert (risk.value, full) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_products_of_columns_count_however_many_rows_there_are():
    # Products were left out beyond 87,000 rows of 20 columns: 1.005 instead of 1.299.
    rng = np.random.default_rng(0)

    def rows(n, correlation):
        X = rng.normal(size=(n, 20))
        X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
        return X

    X = [rows(18_000, c) for c in (-0.2, -0.1, 0, 0.1, 0.2)]
    target = rows(10_000, 0.3)
    risk = RegressionAdjusted().fit(target, X).estimate([1 + x[:, 0] * x[:, 1] for x in X])
    assert risk.value == pytest.approx(1 + np.mean(target[:, 0] * target[:, 1]), abs=0.02)
