"""Effects of sites, learned where sources play the target."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from shiftune.effects import SiteEffects, Spread
from shiftune.effects._site_effects import drawn
from shiftune.evaluate._losses import Loss, loss_named, pinball

SITES, ROWS, NOISE = 20, 50, 0.5


def sites(rng, intercepts, slopes=0.0):
    """Answers, rows and labels of sites: label = answer + intercept + slope * answer + noise."""
    X = [rng.normal(size=(ROWS, 2)) for _ in intercepts]
    answers = [x[:, 0] for x in X]
    slopes = np.broadcast_to(slopes, len(intercepts))
    y = [
        a + b + s * a + rng.normal(0, NOISE, ROWS)
        for a, b, s in zip(answers, intercepts, slopes, strict=True)
    ]
    return answers, X, y


def effects_of(rng, intercepts, slopes=0.0, loss="squared"):
    named = loss if callable(loss) else loss_named(loss)
    answers, X, y = sites(rng, intercepts, slopes)
    return SiteEffects(answers, X, y, named, None)


@pytest.mark.parametrize(("rows", "labels"), [(5, 1), (50, 10), (7, 100), (3, 1), (1, 5)])
def test_every_row_is_predicted_without_its_own_label(rows, labels):
    counts = np.zeros(rows)
    for labelled, others in drawn(rows, labels, 0):
        assert sorted([*labelled, *others]) == list(range(rows))
        counts[others] += 1
    assert counts.min() >= 1


def test_sites_that_do_not_differ_are_not_updated():
    """In 8 worlds without any difference, hardly an effect is found, and it costs nothing."""
    cost, none = [], 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        effects = effects_of(rng, np.zeros(12))
        none += effects.spread(10) == Spread()
        (answers,), (X,), (y,) = sites(rng, [0.0])
        update = effects.update(X[:10], answers[:10], y[:10])
        rest = effects.role(X[10:], answers[10:], y[10:])
        with_labels = effects.row_losses(rest.y, rest.scaled + rest.Z @ update.effect.T).mean()
        cost.append(with_labels / effects.row_losses(rest.y, rest.scaled).mean() - 1)
    assert none >= 5
    assert np.mean(cost) < 0.005  # half a percent


@pytest.mark.parametrize("m", [5, 20])
def test_the_loss_after_m_labels_is_that_of_the_posterior(m):
    r"""Noise plus the posterior variance of the intercept, :math:`s^2 t^2 / (s^2 + m t^2)`."""
    rng = np.random.default_rng(1)
    effects = effects_of(rng, rng.normal(0, 1, 60))
    spread = effects.spread(m)
    assert 0.3 <= spread.intercept <= 1.7  # true: 1; they are tried at powers of 2 times the noise
    played = np.array([own.mean() for own in effects.source_losses(m)])
    expected = NOISE**2 * (1 + 1 / (m + NOISE**2))
    error = played.std() / np.sqrt(len(played))
    assert abs(played.mean() - expected) < 4 * error
    before = np.array([own.mean() for own in effects.source_losses(0)])
    assert before.mean() > 3 * played.mean()
    pairs = zip(effects.source_answers(m), effects.sources, strict=True)
    answered = np.array([np.nanmean((own - source.y) ** 2) for own, source in pairs])
    assert abs(answered.mean() - expected) < 4 * answered.std() / np.sqrt(len(answered))


def test_slopes_that_differ_are_learned():
    rng = np.random.default_rng(2)
    effects = effects_of(rng, np.zeros(SITES), rng.normal(0, 0.7, SITES))
    assert effects.spread(20).slope > 0.2 > effects.spread(20).intercept
    (answers,), (X,), (y,) = sites(rng, [0.0], 1.0)
    update = effects.update(X[:30], answers[:30], y[:30])
    per_unit = update.effect[0, 1] / effects.terms.width_
    assert per_unit + update.effect[0, 2] / np.sqrt(2) == pytest.approx(1.0, abs=0.3)


def test_a_quantile_stays_a_quantile():
    """The distance of a quantile from the centre is no effect of the site."""
    rng = np.random.default_rng(4)
    intercepts = rng.normal(0, 1, SITES)
    answers, X, y = sites(rng, intercepts)
    beside = 1.2816 * NOISE
    upper = [own + beside for own in answers]
    effects = SiteEffects(upper, X, y, pinball(0.9), None)
    assert effects.shift == pytest.approx(-beside, abs=0.1)
    (new,), (X_new,), (y_new,) = sites(rng, [2.0])
    update = effects.update(X_new[:30], new[:30] + beside, y_new[:30])
    assert update.effect[0, 0] == pytest.approx(2.0, abs=0.3)


def test_classes():
    rng = np.random.default_rng(5)
    classes = np.array(["no", "yes"])

    def site(shift):
        x = rng.normal(size=(80, 1))
        odds = np.exp(x[:, 0])
        P = np.column_stack([1 / (1 + odds), odds / (1 + odds)])
        return P, x, classes[(rng.random(80) < 1 / (1 + np.exp(-x[:, 0] - shift))).astype(int)]

    given = [site(shift) for shift in rng.normal(0, 1.5, 12)]
    answers, rows, labels = (list(part) for part in zip(*given, strict=True))
    effects = SiteEffects(answers, rows, labels, loss_named("log_loss"), classes)
    P, X, y = site(2.0)
    update = effects.update(X[:40], P[:40], y[:40])
    added = update.effect[1, 0] - update.effect[0, 0]
    assert added == pytest.approx(2.0, abs=0.9)
    assert len(update.own_losses) == 40
    gain = np.mean([own.mean() for own in effects.source_losses(0)]) - np.mean(
        [own.mean() for own in update.source_losses]
    )
    assert gain > 0.05


def test_large_tables(monkeypatch):
    """The spread is learned on some of the rows, and columns are dropped where they do not fit."""
    rng = np.random.default_rng(7)
    whole = effects_of(rng, np.random.default_rng(0).normal(0, 1, SITES))
    monkeypatch.setattr("shiftune.effects._site_effects.MOST_ROWS", 20)
    monkeypatch.setattr("shiftune.effects._site_effects.MOST_CELLS", SITES * ROWS)
    thin = effects_of(rng, np.random.default_rng(0).normal(0, 1, SITES))
    assert thin.terms.names == ["intercept", "slope"]
    assert thin.spread(10).intercept == pytest.approx(whole.spread(10).intercept, rel=0.6)
    assert [len(own) for own in thin.source_losses(10)] == [ROWS] * SITES


def test_labels_beyond_those_of_the_sources():
    """The site's own labels show what is possible."""
    rng = np.random.default_rng(8)
    effects = effects_of(rng, rng.normal(0, 3, SITES))
    (answers,), (X,), (y,) = sites(rng, [40.0])
    update = effects.update(X[:30], answers[:30], y[:30])
    rest = effects.role(X[30:], answers[30:], y[30:])
    losses = effects.row_losses(rest.y, rest.scaled + rest.Z @ update.effect.T, update.limits)
    assert losses.mean() < 2
    assert update.own_losses.mean() < 2


def test_a_constant_added_to_the_loss_changes_nothing():
    rng = np.random.default_rng(9)
    answers, X, y = sites(rng, np.zeros(12))
    for constant in (0.0, 5.0):
        loss = Loss(lambda y, p, c=constant: (y - p) ** 2 - c, "shifted")
        assert SiteEffects(answers, X, y, loss, None).spread(10) == Spread()


def test_labels_without_noise():
    rng = np.random.default_rng(10)
    answers, X, y = sites(rng, np.zeros(SITES))
    y = [own + b for own, b in zip(answers, rng.normal(0, 1, SITES), strict=True)]
    effects = SiteEffects(answers, X, y, loss_named("squared"), None)
    update = effects.update(X[0][:10], answers[0][:10], answers[0][:10] + 1)
    assert update.effect[0, 0] == pytest.approx(1.0, abs=0.01)


def test_copies_and_files():
    rng = np.random.default_rng(11)
    effects = effects_of(rng, rng.normal(0, 1, 6))
    found = effects.spread(10)
    assert pickle.loads(pickle.dumps(effects)).spread(10) == found


def test_own_losses_leave_the_row_out():
    """A label that is far from all others is not predicted by itself."""
    rng = np.random.default_rng(6)
    effects = effects_of(rng, rng.normal(0, 3, SITES))
    (answers,), (X,), (y,) = sites(rng, [0.0])
    alone = effects.update(X[:1], answers[:1], y[:1] + 2.0)
    plain = effects.row_losses(y[:1] + 2.0, effects.role(X[:1], answers[:1], y[:1]).scaled)
    np.testing.assert_allclose(alone.own_losses, plain)
