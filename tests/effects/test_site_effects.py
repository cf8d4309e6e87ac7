"""Effects of sites, with spreads that sources and labels determine together."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from shiftune.effects import SiteEffects, SiteRows
from shiftune.effects._site_effects import draw_labels
from shiftune.evaluate._losses import Loss, loss_named, pinball

SITES, ROWS, NOISE = 20, 50, 0.5


def sites(rng, intercepts, slopes=0.0, rows=ROWS):
    """Predictions, rows and labels: label = prediction + intercept + slope * prediction + noise."""
    X = [rng.normal(size=(rows, 2)) for _ in intercepts]
    predictions = [x[:, 0] for x in X]
    slopes = np.broadcast_to(slopes, len(intercepts))
    y = [
        f + b + s * f + rng.normal(0, NOISE, rows)
        for f, b, s in zip(predictions, intercepts, slopes, strict=True)
    ]
    return predictions, X, y


def effects_of(rng, intercepts, slopes=0.0, loss="squared", rows=ROWS):
    named = loss if callable(loss) else loss_named(loss)
    predictions, X, y = sites(rng, intercepts, slopes, rows)
    return SiteEffects(predictions, X, y, named, None)


def loss_with(effects, m, X, predictions, y):
    """Loss of the other rows with the effect of the first m labels, relative to that without."""
    update = effects.update(effects.rows(X[:m], predictions[:m], y[:m]))
    rest = effects.rows(X[m:], predictions[m:], y[m:])
    after = effects.losses(rest.y, rest.with_effect(update.effect)).mean()
    return after, effects.losses(rest.y, rest.scaled).mean()


def spread_of(effects, axis):
    """Posterior mean of a spread, in units of the label."""
    weights = np.exp(effects.spreads()).sum(axis=tuple({0, 1, 2} - {axis}))
    from shiftune.effects import _site_effects as hierarchy

    grid = (hierarchy._INTERCEPTS, hierarchy._SLOPES, hierarchy._COLUMNS)[axis]
    return effects.unit * float(weights @ grid)


@pytest.mark.parametrize(("rows", "labels"), [(5, 1), (50, 10), (7, 100), (3, 1), (1, 5)])
def test_every_row_is_predicted_without_its_own_label(rows, labels):
    counts, nothing = np.zeros(rows), np.zeros((rows, 1))
    site = SiteRows(nothing, nothing, nothing, nothing[:, 0], nothing)
    for labelled, others in draw_labels(site, labels, 0):
        assert sorted([*labelled, *others]) == list(range(rows))
        counts[others] += 1
    assert counts.min() >= 1


def test_where_sites_do_not_differ_labels_cost_next_to_nothing():
    """12 worlds: the mean cost is below half a percent, the worst below 5 %."""
    cost = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        effects = effects_of(rng, np.zeros(12))
        (f,), (X,), (y,) = sites(rng, [0.0], rows=500)
        after, before = loss_with(effects, 10, X, f, y)
        cost.append(after / before - 1)
    assert np.mean(cost) < 0.005
    assert np.max(cost) < 0.05


@pytest.mark.parametrize("sources", [3, 10, 40])
@pytest.mark.parametrize(("m", "most"), [(30, 1.3), (100, 1.1)])
def test_labels_that_contradict_sources_that_are_alike(sources, m, most):
    """The target lies two standard deviations of the noise higher than all sources."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng([seed, sources])
        effects = effects_of(rng, np.zeros(sources))
        (f,), (X,), (y,) = sites(rng, [2 * NOISE], rows=1000)
        after, _ = loss_with(effects, m, X, f, y)
        found.append(after / np.mean((y - f - 2 * NOISE) ** 2))
    assert np.mean(found) < most
    assert effects.update(effects.rows(X[:m], f[:m], y[:m])).unlike > 0.8


def test_a_target_like_the_sources_is_not_unlike_them():
    rng = np.random.default_rng(0)
    effects = effects_of(rng, rng.normal(0, 1, SITES))
    (f,), (X,), (y,) = sites(rng, [1.0])
    assert effects.update(effects.rows(X, f, y)).unlike < 0.1


@pytest.mark.parametrize("m", [5, 20])
def test_the_loss_after_m_labels_is_that_of_the_posterior(m):
    r"""Noise plus the posterior variance of the intercept, :math:`s^2 t^2 / (s^2 + m t^2)`."""
    rng = np.random.default_rng(1)
    effects = effects_of(rng, rng.normal(0, 1, 60))
    assert spread_of(effects, 0) == pytest.approx(1.0, rel=0.4)  # spreads are powers of 2
    played = np.array([own.mean() for own in effects.source_losses(m)])
    expected = NOISE**2 * (1 + 1 / (m + NOISE**2))
    assert abs(played.mean() - expected) < 4 * played.std() / np.sqrt(len(played))
    before = np.array([own.mean() for own in effects.source_losses(0)])
    assert before.mean() > 3 * played.mean()
    pairs = zip(effects.source_predictions(m), effects.sources, strict=True)
    predicted = np.array([np.nanmean((own - source.y) ** 2) for own, source in pairs])
    assert abs(predicted.mean() - expected) < 4 * predicted.std() / np.sqrt(len(predicted))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_sources_play_with_labels_of_other_groups(size):
    """Rows of a group are alike: their own labels would make predictions look too good."""
    rng = np.random.default_rng(3)
    groups = np.arange(16) // size
    X = [rng.normal(size=(16, 2)) for _ in range(150)]
    y = [x[:, 0] + rng.normal(0, 0.5) + rng.normal(0, NOISE, 16 // size)[groups] for x in X]
    f, who = [x[:, 0] for x in X], [groups] * 150
    effects = SiteEffects(f, X, y, loss_named("squared"), None, groups=who)
    for m in (2, 30):
        played = np.array([own.mean() for own in effects.source_losses(m)])
        expected = NOISE**2 * (1 + 1 / (m + NOISE**2 / 0.5**2))
        assert abs(played.mean() - expected) < 4 * played.std() / np.sqrt(len(played))


@pytest.mark.parametrize("m", [30, 100, 300])
def test_more_labels_than_a_source_has(m):
    """Sources of 15 rows show 9 labels; what more would gain follows from the model."""
    rng = np.random.default_rng(2)
    effects = effects_of(rng, rng.normal(0, 0.5, 150), rows=15)
    worth = np.array([own.mean() for own in effects.source_losses(m)])
    expected = NOISE**2 * (1 + 1 / (m + NOISE**2 / 0.5**2))
    assert abs(worth.mean() - expected) < 4 * worth.std() / np.sqrt(len(worth))
    assert worth.mean() < np.mean([own.mean() for own in effects.source_losses(9)])


def test_slopes_that_differ_are_learned():
    rng = np.random.default_rng(2)
    effects = effects_of(rng, np.zeros(SITES), rng.normal(0, 0.7, SITES))
    assert spread_of(effects, 1) > 0.2 > spread_of(effects, 0)
    (f,), (X,), (y,) = sites(rng, [0.0], 1.0)
    update = effects.update(effects.rows(X[:30], f[:30], y[:30]))
    per_unit = update.effect[0, 1] / effects.terms.width_[0]
    assert per_unit + update.effect[0, 2] / np.sqrt(2) == pytest.approx(1.0, abs=0.3)


def test_a_quantile_stays_a_quantile():
    """The distance of a quantile from the centre is no effect of the site."""
    rng = np.random.default_rng(4)
    intercepts = rng.normal(0, 1, SITES)
    predictions, X, y = sites(rng, intercepts)
    beside = 1.2816 * NOISE
    upper = [own + beside for own in predictions]
    effects = SiteEffects(upper, X, y, pinball(0.9), None)
    assert effects.shift == pytest.approx(-beside, abs=0.1)
    (new,), (X_new,), (y_new,) = sites(rng, [2.0])
    update = effects.update(effects.rows(X_new[:30], new[:30] + beside, y_new[:30]))
    assert update.effect[0, 0] == pytest.approx(2.0, abs=0.3)


def test_one_prediction_that_explodes():
    """The noise, and what the loss prefers to the centre, do not depend on it."""
    rng = np.random.default_rng(11)
    predictions, X, y = sites(rng, rng.normal(0, 1, 8))
    usual = SiteEffects(predictions, X, y, loss_named("squared"), None)
    predictions[0] = predictions[0].copy()
    predictions[0][0] = 1e7
    effects = SiteEffects(predictions, X, y, loss_named("squared"), None)
    assert effects.unit == pytest.approx(usual.unit, rel=0.1)
    assert abs(effects.shift) < 0.2
    (f,), (X_new,), (y_new,) = sites(rng, [1.5])
    update = effects.update(effects.rows(X_new[:30], f[:30], y_new[:30]))
    assert update.effect[0, 0] == pytest.approx(1.5, abs=0.3)


@pytest.mark.parametrize("classes", [np.array(["no", "yes"]), np.array(["a", "b", "c"])])
def test_classes(classes):
    """The last class is more likely at some sites than at others."""
    rng = np.random.default_rng(5)

    def site(shift, rows=120):
        x = rng.normal(size=(rows, 1))
        odds = np.column_stack([np.ones((rows, len(classes) - 1)), np.exp(x[:, 0])])
        true = odds * np.exp(shift * (np.arange(len(classes)) == len(classes) - 1))
        cumulative = np.cumsum(true / true.sum(axis=1, keepdims=True), axis=1)
        chosen = (rng.random((rows, 1)) > cumulative[:, :-1]).sum(axis=1)
        return odds / odds.sum(axis=1, keepdims=True), x, classes[chosen]

    given = [site(shift) for shift in rng.normal(0, 1.5, 12)]
    predictions, rows, labels = (list(part) for part in zip(*given, strict=True))
    effects = SiteEffects(predictions, rows, labels, loss_named("log_loss"), classes)
    P, X, y = site(2.0)
    update = effects.update(effects.rows(X[:60], P[:60], y[:60]))
    assert update.effect.shape == (1 if len(classes) == 2 else 3, 3)
    assert update.effect[-1, 0] == pytest.approx(2.0, abs=0.9)
    assert len(update.own_losses) == 60
    gain = np.mean([own.mean() for own in effects.source_losses(0)]) - np.mean(
        [own.mean() for own in effects.source_losses(60)]
    )
    assert gain > 0.05


def test_one_source_shows_nothing_of_sites():
    """Its residuals are of models that know it; labels of the target decide alone."""
    rng = np.random.default_rng(6)
    (f,), (X,), (y,) = sites(rng, [0.0], rows=300)
    effects = SiteEffects([f], [X], [y], loss_named("squared"), None, out_of_site=False)
    np.testing.assert_allclose(effects.spreads(), effects.spreads(without=0))
    (new,), (X_new,), (y_new,) = sites(rng, [1.0])
    assert effects.update(effects.rows(X_new, new, y_new)).effect[0, 0] == pytest.approx(
        1.0, abs=0.25
    )
    np.testing.assert_array_equal(effects.source_losses(30)[0], effects.source_losses(0)[0])


def test_predictions_that_are_all_alike():
    """Rounding errors are no slope."""
    rng = np.random.default_rng(14)
    X = [rng.normal(size=(70, 1)) for _ in range(5)]
    y = [0.1 + rng.normal(0, 1) + rng.normal(0, NOISE, 70) for _ in X]
    f = [np.full(70, 0.1) for _ in X]
    effects = SiteEffects(f, X, y, loss_named("squared"), None)
    rows = effects.rows(X[0][:2], np.array([0.1, 0.2]), y[0][:2])
    np.testing.assert_array_equal(rows.slopes, 0.0)


def test_wide_tables(monkeypatch):
    """Columns are no terms where they do not fit into memory."""
    monkeypatch.setattr("shiftune.effects._site_effects.MOST_CELLS", SITES * ROWS)
    effects = effects_of(np.random.default_rng(7), np.random.default_rng(0).normal(0, 1, SITES))
    assert effects.terms.names == ["intercept", "slope"]
    assert [len(own) for own in effects.source_losses(10)] == [ROWS] * SITES


def test_labels_beyond_those_of_the_sources():
    """The site's own labels show what is possible."""
    rng = np.random.default_rng(8)
    effects = effects_of(rng, rng.normal(0, 3, SITES))
    (f,), (X,), (y,) = sites(rng, [40.0])
    after, _ = loss_with(effects, 30, X, f, y)
    assert after < 2
    assert effects.update(effects.rows(X[:30], f[:30], y[:30])).own_losses.mean() < 2


def test_a_constant_added_to_the_loss_changes_nothing():
    rng = np.random.default_rng(9)
    predictions, X, y = sites(rng, rng.normal(0, 1, 12))
    updates = []
    for constant in (0.0, 5.0):
        loss = Loss(lambda y, p, c=constant: (y - p) ** 2 - c, "shifted")
        effects = SiteEffects(predictions, X, y, loss, None)
        updates.append(effects.update(effects.rows(X[0][:10], predictions[0][:10], y[0][:10] + 1)))
    np.testing.assert_allclose(updates[0].effect, updates[1].effect)


def test_units_of_the_label_do_not_matter():
    rng = np.random.default_rng(12)
    predictions, X, y = sites(rng, rng.normal(0, 1, 8))
    found = []
    for unit in (1.0, 1e4, 1e-8):
        effects = SiteEffects(
            [unit * f for f in predictions], X, [unit * v for v in y], loss_named("squared"), None
        )
        update = effects.update(
            effects.rows(X[0][:10], unit * predictions[0][:10], unit * (y[0][:10] + 1))
        )
        found.append((update.effect / unit, update.deviation / unit, update.own_losses / unit**2))
    for one, other, small in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3)
        np.testing.assert_allclose(small, one, rtol=1e-3)


def test_weights_count_rows():
    """Rows of weight next to nothing do not count, and the unit of weights does not matter."""
    rng = np.random.default_rng(13)
    predictions, X, y = sites(rng, rng.normal(0, 1, 10))
    weights = [rng.uniform(0.5, 2, ROWS) for _ in y]
    effects = SiteEffects(predictions, X, y, loss_named("squared"), None, sample_weight=weights)
    (f,), (X_new,), (y_new,) = sites(rng, [1.0], rows=20)
    wrong = np.where(np.arange(20) < 10, y_new, -30.0)
    w = np.where(np.arange(20) < 10, 1.0, 1e-9)
    half = effects.update(effects.rows(X_new[:10], f[:10], y_new[:10], None, np.ones(10)))
    for unit in (1.0, 1e6):
        both = effects.update(effects.rows(X_new, f, wrong, None, unit * w))
        np.testing.assert_allclose(both.effect, half.effect, atol=1e-3)


def test_labels_without_noise():
    rng = np.random.default_rng(10)
    predictions, X, y = sites(rng, np.zeros(SITES))
    y = [own + b for own, b in zip(predictions, rng.normal(0, 1, SITES), strict=True)]
    effects = SiteEffects(predictions, X, y, loss_named("squared"), None)
    update = effects.update(effects.rows(X[0][:10], predictions[0][:10], predictions[0][:10] + 1))
    assert update.effect[0, 0] == pytest.approx(1.0, abs=0.01)


def test_own_losses_leave_the_row_out():
    """A label that is far from all others is not predicted by itself."""
    rng = np.random.default_rng(6)
    effects = effects_of(rng, rng.normal(0, 3, SITES))
    (f,), (X,), (y,) = sites(rng, [0.0])
    alone = effects.update(effects.rows(X[:1], f[:1], y[:1] + 2.0))
    np.testing.assert_allclose(alone.own_losses, (y[:1] + 2.0 - f[:1]) ** 2)


def test_pickled():
    rng = np.random.default_rng(10)
    effects = effects_of(rng, rng.normal(0, 1, 6))
    effects.source_losses(10)
    again = pickle.loads(pickle.dumps(effects))
    np.testing.assert_array_equal(again.source_losses(10)[0], effects.source_losses(10)[0])
