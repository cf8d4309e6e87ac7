"""Rows of weight 2 count as two: in fits, in mean losses, in metrics."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import DataError, DataWarning, SettingsError
from shiftune.evaluate._fits import fit, weight_argument
from shiftune.metrics import metric_named
from shiftune.metrics._new_site import at_site
from shiftune.risk import RegressionAdjusted
from shiftune.rows._moments import coefficients, linearised

SPACE = {"alpha": [3.0]}
WEIGHTS = np.random.default_rng(1).integers(1, 4, 120)


@pytest.fixture(scope="module")
def searches():
    """The same rows with whole numbers as weights, and repeated as often."""
    rng = np.random.default_rng(0)
    w = WEIGHTS
    X = np.column_stack([np.arange(120) % 40, rng.normal(size=120)])
    y, sites = X[:, 1] + rng.normal(size=120), np.repeat(list("BCD"), 40)

    def searched(times, **weights):
        data = (np.repeat(each, times, axis=0) for each in (X, y, sites))
        problem = ShiftProblem.from_arrays(*data, X[:50], task="regression", **weights)
        search = ShiftSearch(Ridge(), SPACE, n_trials=1, progress=False)
        return search.fit(problem)

    return searched(np.ones(120, int), sample_weight=w), searched(w)


def test_refit_and_losses_are_those_of_repeated_rows(searches):
    weighted, repeated = searches
    assert weighted.best_estimator_.coef_ == pytest.approx(repeated.best_estimator_.coef_)
    of_sites = [_losses(search) for search in searches]
    assert len(of_sites[0][0]) < len(of_sites[1][0])
    means = [[own.mean() for own in each] for each in of_sites]
    assert means[0] == pytest.approx(means[1])


def test_every_fold_has_the_weights(searches):
    """Each model of a trial is that of its repeated training rows."""
    weighted, repeated = searches
    of_repeated = repeated.result_.choice.predictions
    first = np.cumsum(WEIGHTS) - WEIGHTS
    np.testing.assert_allclose(weighted.result_.choice.predictions, of_repeated[first])


def test_the_interval_of_losses_ends_at_zero(searches):
    weighted, _ = searches
    assert weighted.risk_.nonnegative
    assert min(own.min() for own in _losses(weighted)) < 0  # linearised


def _losses(search):
    return search.result_.context.data.losses(
        search.result_.choice.predictions, search.result_.loss
    )


def test_the_variance_is_that_of_a_weighted_mean():
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(2000, 40)), rng.gamma(1.0, size=(2000, 40)) + 0.1
    means = np.sum(w * x, axis=1) / w.sum(axis=1)
    claimed = [linearised(*pair).var(ddof=1) / 40 for pair in zip(x, w, strict=True)]
    assert np.mean(claimed) == pytest.approx(means.var(), rel=0.1)  # error of 2000: 3 %


def test_coefficients_of_linearised_values(rng):
    c, w, x = rng.normal(size=9), rng.random(9) + 0.1, rng.normal(size=9)
    assert coefficients(c, w) @ x == pytest.approx(c @ linearised(x, w))


def test_weighted_rows_like_the_targets_need_no_adjustment():
    """The target is the source with its rows repeated: the risk is the weighted mean loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    losses, w = X[:, 0] ** 2 + X[:, 0] + 3, 1.0 + (X[:, 0] > 0) + (X[:, 0] > 1)
    target = np.repeat(X, w.astype(int), axis=0)
    weights = [np.ones(len(target)), w]
    adjusted = RegressionAdjusted().fit(target, [X], weights)
    plain = RegressionAdjusted().fit(target, [X])
    found = adjusted.estimate([linearised(losses, w)]).value
    assert found == pytest.approx(np.average(losses, weights=w))
    without = [plain.estimate([losses]).value, losses.mean()]  # a ridge adjusts by a part
    assert found - 0.1 > without[0] > without[1] + 0.1


@pytest.mark.parametrize("columns", [1, 16])  # 16: more numbers than rows
def test_an_adjustment_of_weighted_rows_is_a_weighted_mean_of_losses(columns):
    """Weights that depend on x move the mean of the rows, from which the adjustment is taken."""
    rng = np.random.default_rng(0)
    X = [rng.normal(m, 1, (40, columns)) for m in (0.0, 1.0)]
    target, losses = rng.normal(1, 1, (60, columns)), [np.exp(x[:, 0] / 2) for x in X]
    w = [np.exp(0.5 * x[:, 0]) for x in X]
    risk = RegressionAdjusted().fit(target, X, [np.ones(60), *w])
    values = [linearised(*each) for each in zip(losses, w, strict=True)]
    c = risk.coefficients_
    assert c.sum() == pytest.approx(1)
    assert c @ np.concatenate(values) == pytest.approx(risk.estimate(values).value)
    shifted = risk.estimate([each + 5 for each in values]).signed(nonnegative=False)
    assert shifted.value == pytest.approx(risk.estimate(values).value + 5)
    plain = risk.estimate(values).signed(nonnegative=False)
    assert shifted.variance == pytest.approx(plain.variance)


@pytest.mark.parametrize("name", ["rmse", "auc"])
def test_metrics_have_the_weights(rng, name):
    y, p, w = rng.integers(0, 2, 50), rng.random(50), rng.integers(1, 4, 50)
    metric = metric_named(name)
    found = at_site(metric, "B", y, p, weights=w.astype(float))
    repeated = at_site(metric, "B", np.repeat(y, w), np.repeat(p, w))
    assert found.value == pytest.approx(repeated.value)
    assert abs(found.influence.mean()) < 1e-9
    assert found.stderr > repeated.stderr  # which takes repeated rows for new ones


def test_models_without_weights_are_named(searches):
    problem = searches[0].problem_
    with pytest.raises(SettingsError, match="KNeighborsRegressor takes no sample_weight"):
        ShiftSearch(KNeighborsRegressor(), {"n_neighbors": [5]}).fit(problem)
    with pytest.raises(SettingsError, match=r"rows with sample_weight need risk='adjusted'"):
        ShiftSearch(Ridge(), SPACE, risk="variance_reduced").fit(problem)


def test_weighted_rows_are_updated(searches):
    """A label of weight 0, nearly, does not count; labels without weights count once each."""
    search = searches[0]
    X = search.problem_.target.X[:20]
    y = search.predict(X) + 5.0
    updated = search.update(X, y)
    assert np.mean(updated.predict(X) - search.predict(X)) == pytest.approx(5.0, abs=2.0)
    wrong, w = np.where(np.arange(20) < 10, y, -2.0), np.where(np.arange(20) < 10, 1.0, 1e-9)
    few = search.update(X, wrong, sample_weight=w)
    half = search.update(X[:10], y[:10], sample_weight=np.ones(10))
    assert few.effect_["estimate"].to_numpy() == pytest.approx(
        half.effect_["estimate"].to_numpy(), abs=0.05
    )
    with pytest.raises(DataError, match=r"the weight of row 0 is 0 \(and 19 more there\)"):
        search.update(X, y, sample_weight=np.zeros(20))


def test_scikit_learns_signature(searches):
    problem = searches[0].problem_
    X = np.concatenate([site.X for site in problem.sources])
    y, w = (
        np.concatenate([getattr(s, n) for s in problem.sources]) for n in ("y", "sample_weight")
    )
    search = ShiftSearch(Ridge(), SPACE, n_trials=1, progress=False)
    groups = np.repeat(problem.names, [len(site) for site in problem.sources])
    search.fit(X, y, groups=groups, X_target=problem.target.X, sample_weight=w)
    assert search.best_estimator_.coef_ == pytest.approx(searches[0].best_estimator_.coef_)
    twice = search.score(np.repeat(X, w.astype(int), axis=0), np.repeat(y, w.astype(int)))
    assert search.score(X, y, sample_weight=w) == pytest.approx(twice)
    with config_context(enable_metadata_routing=True):
        routed = Pipeline([("search", search.set_fit_request(sample_weight=True, groups=True))])
        routed.steps[0][1].set_fit_request(X_target=True, sample_weight=True, groups=True)
        routed.fit(X, y, groups=groups, X_target=problem.target.X, sample_weight=w)
    assert search.best_estimator_.coef_ == pytest.approx(searches[0].best_estimator_.coef_)


def test_metadata_routing_inside_pipelines(rng):
    X, y, w = rng.normal(size=(30, 2)), rng.normal(size=30), rng.random(30) + 0.1
    expected = Ridge().fit(StandardScaler().fit_transform(X), y, sample_weight=w)
    scaled = StandardScaler().fit_transform(X, sample_weight=w)
    both = Ridge().fit(scaled, y, sample_weight=w)
    with config_context(enable_metadata_routing=True):
        plain = fit(make_pipeline(StandardScaler(), Ridge()), X, y, w)
        requested = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=True),
            Ridge().set_fit_request(sample_weight=True),
        )
        routed = fit(requested, X, y, w)
    assert plain[-1].coef_ == pytest.approx(expected.coef_)
    assert routed[-1].coef_ == pytest.approx(both.coef_)
    inside = TransformedTargetRegressor(Ridge(), transformer=StandardScaler())
    assert weight_argument(make_pipeline(inside)) == "transformedtargetregressor__sample_weight"


def test_families_and_labels_of_the_target(searches):
    problem = searches[0].problem_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        few = ShiftProblem.from_sites(
            {s.name: (s.X, s.y, s.sample_weight) for s in problem.sources},
            problem.target.X,
            labelled_target=(problem.target.X[:12], np.arange(12.0)),
        )
    models = {"one": (Ridge(), SPACE), "other": (Ridge(), {"alpha": [5.0]})}
    search = ShiftSearch(models, n_trials=4, progress=False).fit(few)
    assert search.risk_.labelled_target
    assert search.result_.updated.labels_ == 12
    assert len(search.metrics_)
