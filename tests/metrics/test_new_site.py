"""Metrics at a new site: combined on their scale, with an interval for a further site."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from shiftune.metrics import METRICS, Metric, metric_tables
from shiftune.metrics._metric import SCALES, SitePredictions
from shiftune.metrics._new_site import NewSite
from shiftune.risk import RegressionAdjusted

CLASSES = np.array(["no", "yes"])


def predictions(y, p, **options):
    k = len(y)
    X = [np.random.default_rng(j).normal(0, 1, (len(own), 2)) for j, own in enumerate(y)]
    return SitePredictions(tuple("BCDEFGHIJKLMN"[:k]), y, p, X, **options)


def at_target(given, **options):
    return NewSite(given, np.random.default_rng(99).normal(0, 1, (200, 2)), **options)


def of_classes(rng, rows=(80, 60, 90), strength=2.0):
    p = [rng.random(n) for n in rows]
    odds = [strength * np.log(own / (1 - own)) for own in p]
    y = [(rng.random(len(own)) < 1 / (1 + np.exp(-own))).astype(int) for own in odds]
    return predictions(y, p, classes=CLASSES)


def test_a_mean_on_its_own_scale_is_the_estimate_of_the_risk(rng):
    y, p = ([rng.normal(0, 1, n) for n in (40, 70, 50)] for _ in range(2))
    given = predictions(y, p)
    new_site = at_target(given)
    risk = RegressionAdjusted().fit(new_site.X_target, given.X)
    expected = risk.estimate([b - a for a, b in zip(y, p, strict=True)])
    found = new_site.estimate(METRICS["bias"])
    assert found.value == pytest.approx(expected.value)
    assert (found.low, found.high) == pytest.approx(expected.interval())


@pytest.mark.parametrize("name", ["auc", "calibration_slope", "brier"])
def test_the_order_of_sites_does_not_matter(rng, name):
    given = of_classes(rng)
    turned = SitePredictions(
        given.names[::-1], given.y[::-1], given.p[::-1], given.X[::-1], classes=CLASSES
    )
    one, other = (at_target(each).estimate(METRICS[name]) for each in (given, turned))
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_coverage_of_binormal_areas():
    """Sites of distance d ~ N(1.2, 0.4): nominal 90 %, 100 draws, three Monte Carlo errors."""
    draw, covered, draws = np.random.default_rng(5), [], 100
    y = np.arange(100) % 2
    empty = predictions([y] * 6, [y] * 6, classes=CLASSES)
    fitted = RegressionAdjusted().fit(at_target(empty).X_target, empty.X)
    for _ in range(draws):
        *sources, own = draw.normal(1.2, 0.4, 7)
        given = predictions([y] * 6, [draw.normal(d * y, 1) for d in sources], classes=CLASSES)
        found = at_target(given, fitted=fitted, level=0.9).estimate(METRICS["auc"])
        covered.append(found.low <= norm.cdf(own / np.sqrt(2)) <= found.high)
    assert np.mean(covered) >= 0.9 - 3 * np.sqrt(0.09 / draws)


def test_rows_that_belong_together_count_once(rng):
    """Every row is there twice: the same errors of the sites, and no narrower interval."""
    given = of_classes(rng, (150, 160, 170))
    doubled = SitePredictions(
        given.names,
        *([np.repeat(own, 2, axis=0) for own in each] for each in (given.y, given.p, given.X)),
        classes=CLASSES,
        groups=[np.repeat(np.arange(len(own)), 2) for own in given.y],
    )
    metric = METRICS["auc"]
    one, two = (at_target(each).estimate(metric) for each in (given, doubled))
    assert one.value == pytest.approx(two.value, abs=0.01)
    assert two.high - two.low > 0.95 * (one.high - one.low)
    errors = [[site.stderr for site in found.sites] for found in (one, two)]
    assert errors[0] == pytest.approx(errors[1], rel=0.01)


def test_sites_without_a_value_are_named(rng):
    given = of_classes(rng, (80, 60, 90, 4))
    given.y[1][:] = 0
    found = at_target(given).estimate(METRICS["auc"])
    assert np.isfinite(found.value)
    assert len(found.known) == 2
    assert found.note == "no value at 'C': one class only; no value at 'E': 4 rows only"


def test_one_site_is_not_enough(rng):
    given = of_classes(rng, (80, 60))
    given.y[1][:] = 0
    found = at_target(given).estimate(METRICS["auc"])
    assert np.isnan([found.value, found.low, found.high]).all()
    assert found.note.startswith("1 site with a value, and 2 are needed")
    assert np.isfinite(at_target(given).estimate(METRICS["brier"]).value)


def test_shares_of_one_at_all_sites_have_an_interval(rng):
    """No error among 60 to 90 rows of three sites: an error rate of some percent is possible."""
    y = [rng.integers(0, 2, n) for n in (80, 60, 90)]
    given = predictions(y, [0.01 + 0.98 * own for own in y], classes=CLASSES)
    found = at_target(given).estimate(METRICS["accuracy"])
    assert 0.5 < found.low < 0.99 < found.value < found.high < 1


def test_the_order_of_rows_does_not_move_shares_of_one(rng):
    """Rows are often sorted: what is unknown of such a share must not look like their effect."""
    y = [rng.integers(0, 2, 80) for _ in range(3)]
    given = predictions(y, [0.01 + 0.98 * own for own in y], classes=CLASSES)
    for X in given.X:
        X.sort(axis=0)
    new_site = NewSite(given, rng.normal(2, 1, (200, 2)))
    assert new_site.estimate(METRICS["accuracy"]).value == pytest.approx(1 - 0.5 / 80)


def test_what_a_metric_needs(rng):
    given = of_classes(rng)
    votes = predictions(given.y, [1.0 * (p > 0.5) for p in given.p], classes=CLASSES, votes=True)
    assert "needs probabilities" in at_target(votes).estimate(METRICS["auc"]).note
    assert np.isfinite(at_target(votes).estimate(METRICS["f1"]).value)
    P = [rng.dirichlet([1, 1, 1], n) for n in (40, 50)]
    three = predictions([own.argmax(axis=1) for own in P], P, classes=np.arange(3))
    assert at_target(three).estimate(METRICS["o_e"]).note == (
        "it needs two classes, and there are 3"
    )
    assert np.isfinite(at_target(three).estimate(METRICS["auc"]).value)


def test_tables(rng):
    given = of_classes(rng)
    mine = Metric("mine", lambda y, p, w: np.average(p, weights=w), "probabilities", better=0.5)
    table, by_site = metric_tables([METRICS["auc"], mine], at_target(given))
    assert list(table.index) == ["auc", "mine"]
    assert table.loc["mine", "better"] == "nearest to 0.5"
    own = by_site.loc["auc"]
    assert table.loc["auc", "lowest"] == own["value"].min()
    assert table.loc["auc", "highest_site"] == own["value"].idxmax()
    assert (own["low"] < own["value"]).all()
    assert (own["value"] < own["high"]).all()
    assert (own["rows"] == [80, 60, 90]).all()


def test_notes_on_all_metrics(rng):
    given = of_classes(rng)
    seen = SitePredictions(given.names, given.y, given.p, given.X, CLASSES, unseen=False)
    table, _ = metric_tables([METRICS["auc"]], at_target(seen))
    assert "have seen the sites" in table.loc["auc", "note"]
    nothing, by_site = metric_tables([METRICS["auc"]], None)
    assert np.isnan(nothing.loc["auc", "estimate"])
    assert "were kept" in nothing.loc["auc", "note"]
    assert by_site.empty


def test_rows_with_different_updates_are_not_ranked_against_each_other(rng):
    """Each draw of labels moves its rows by an intercept of its own: no order changes."""
    given = of_classes(rng)
    draws = [np.tile(own, (5, 1)) for own in given.p]
    for own in draws:
        for d, order in enumerate(np.split(rng.permutation(own.shape[1]), 5)):
            own[d, order] = np.nan  # labelled
    moved = [own * np.linspace(0.2, 1, 5)[:, None] for own in draws]
    found = [
        at_target(given.updated([np.stack([1 - each, each], axis=2) for each in answers]))
        for answers in (draws, moved)
    ]
    one, other = (each.estimate(METRICS["auc"]) for each in found)
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))
    plain = at_target(given).estimate(METRICS["auc"])
    for site, whole in zip(one.sites, plain.sites, strict=True):
        assert site.value == pytest.approx(whole.value, abs=0.01)
        assert site.stderr == pytest.approx(whole.stderr, rel=0.1)
        assert abs(site.influence.mean()) < 1e-9
    mixed = at_target(predictions(given.y, found[1].predictions.p, classes=CLASSES))
    assert mixed.estimate(METRICS["auc"]).value < one.value - 0.02


def test_draws_without_a_value_do_not_count(rng):
    given = predictions([np.array([0] * 9 + [1] * 3)] * 3, [rng.random(12)] * 3, classes=CLASSES)
    draws = np.tile(given.p[0], (2, 1))
    draws[0, -1] = np.nan  # two rows of a class are left
    answers = np.stack([1 - draws, draws], axis=2)
    for used, missing in ((answers, False), (answers[:1], True)):
        (site, *_) = at_target(given.updated([used] * 3)).at_sites(METRICS["auc"])
        assert np.isnan(site.value) == missing
        assert ("2 rows of one class only" in site.note) == missing
        assert (site.n, len(site.influence)) == (12, 12)


def test_scales_keep_away_from_their_bounds_and_intervals_may_be_infinite():
    values, resolution = np.array([0.2, 1.0]), np.array([0.1, 0.1])
    np.testing.assert_array_equal(SCALES["logit"].inside(values, resolution), [0.2, 0.9])
    np.testing.assert_array_equal(SCALES["identity"].inside(values, resolution), values)
    assert SCALES["log"].interval(0.0, 1000.0) == (1.0, np.inf)
