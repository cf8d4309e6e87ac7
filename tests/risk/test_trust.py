"""How far the adjustment is trusted when models are compared."""

import numpy as np
import pytest

from shiftune.risk import RegressionAdjusted, estimate, risk_named
from shiftune.risk._adjusted import trust_in_adjustment
from shiftune.risk._ridge import RidgeSystem
from shiftune.rows._moments import MomentRows


def sites(*, shift, site_effect, k=8, rows=200, models=12, seed=0):
    """Losses of models that depend on x by a slope, and on the site by an effect of their own."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, shift, k)
    X = [rng.normal(c, 1, (rows, 1)) for c in centres]
    slopes = rng.normal(size=models)
    effects = rng.normal(0, site_effect, (models, k))
    losses = np.concatenate(
        [
            slopes[:, None] * x[:, 0] + effects[:, [j]] + rng.normal(0, 0.5, (models, rows))
            for j, x in enumerate(X)
        ],
        axis=1,
    )
    return X, losses


def trust(X, losses):
    Z = np.concatenate(X)
    Z = (Z - Z.mean()) / Z.std()
    n = np.array([len(x) for x in X])
    ridge = RidgeSystem.of(MomentRows.as_they_are(Z), 9.0)
    return trust_in_adjustment(losses, ridge, n, np.full(len(X), 1 / len(X)))


def test_it_is_near_one_where_only_the_rows_differ():
    # Losses are exactly linear in x; the penalty of 9 on 1600 rows takes less than 1 % away, and
    # the noise of a site mean, .5 / sqrt(200), is small beside shifts of 1.
    assert trust(*sites(shift=1.0, site_effect=0.0)) == pytest.approx(1, abs=0.05)


def test_it_is_near_zero_where_site_means_do_not_follow_the_rows():
    # Within a site losses rise with x, but every site's mean is the same: what the adjustment adds
    # explains nothing of the differences between sites.
    X, losses = sites(shift=1.0, site_effect=0.0)
    site = np.repeat(np.arange(len(X)), [len(x) for x in X])
    means = np.array([losses[:, site == j].mean(axis=1) for j in range(len(X))])
    assert trust(X, losses - means[site].T) == pytest.approx(0, abs=0.02)


def test_one_source_shows_nothing():
    X, losses = sites(shift=1.0, site_effect=0.0, k=1)
    assert trust(X, losses) == 0.5


def test_models_that_do_not_differ_need_no_adjustment():
    X, losses = sites(shift=1.0, site_effect=0.0)
    assert trust(X, np.tile(losses[:1], (3, 1))) == 0


def test_the_adjustment_brings_the_sources_to_the_target():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 2))
    Z -= Z.mean(axis=0)
    gaps, shares = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0.5, 0.5])
    move = RidgeSystem.of(MomentRows.as_they_are(Z), 1e-9).solve(shares @ gaps)
    # Without a penalty the coefficients Z v reproduce any loss that is linear in Z.
    np.testing.assert_allclose((Z @ move) @ Z, shares @ gaps, rtol=1e-6)


def test_row_shares_compare_models_as_the_estimate_where_it_is_trusted():
    X, losses = sites(shift=1.0, site_effect=0.0)
    rng = np.random.default_rng(1)
    fitted = RegressionAdjusted().fit(rng.normal(2.0, 1, (300, 1)), X)
    ends = np.cumsum([len(x) for x in X])[:-1]
    risks = [fitted.estimate(np.split(own, ends)) for own in losses]
    best = min(risks, key=lambda risk: risk.value)
    shares = fitted.row_shares(losses, best)
    assert shares.sum() == pytest.approx(1, abs=1e-9)
    # The adjusted estimates range over some 4; the criterion follows them.
    apart = losses @ shares - [risk.value for risk in risks]
    assert np.abs(apart).max() < 0.3


def test_labelled_target_rows_have_their_share():
    X, losses = sites(shift=1.0, site_effect=0.0)
    rng = np.random.default_rng(1)
    fitted = RegressionAdjusted().fit(rng.normal(2.0, 1, (300, 1)), X)
    own = rng.normal(size=(len(losses), 20))
    ends = np.cumsum([len(x) for x in X])
    both = np.concatenate([losses, own], axis=1)
    best = fitted.estimate(np.split(both[0], ends))
    shares = fitted.row_shares(both, best)
    assert shares[-20:].sum() == pytest.approx(20 / 120)
    assert shares.sum() == pytest.approx(1, abs=1e-9)


def test_other_estimators_compare_by_their_shares():
    risk = estimate([[1.0, 2.0], [3.0, 5.0, 1.0]], method="naive")
    shares = risk_named("naive").row_shares(np.ones((1, 5)), risk)
    assert shares @ [1.0, 2.0, 3.0, 5.0, 1.0] == pytest.approx(risk.value)
