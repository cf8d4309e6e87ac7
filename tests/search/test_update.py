"""Labels of the target update the final model of a search."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.effects import UpdatedClassifier, UpdatedRegressor
from shiftune.errors import DataError, DataWarning, SettingsError

SPACE = {"alpha": FloatDistribution(1e-3, 1.0, log=True)}
OWN = 3.0


def sites(count=10, rows=60, seed=0):
    """Sites whose labels lie some way above or below a common line; the last one is the target."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rows, 2)) for _ in range(count + 1)]
    apart = [*rng.normal(0, 2, count), OWN]
    return X, [x[:, 0] + b + rng.normal(0, 0.3, rows) for x, b in zip(X, apart, strict=True)]


def problem(few=0, count=10):
    X, y = sites(count)
    labelled = {"labelled_target": (X[-1][:few], y[-1][:few])} if few else {}
    return ShiftProblem.from_sites(list(zip(X[:-1], y[:-1], strict=True)), X[-1], **labelled)


def searched(few=0, count=10, **options):
    return ShiftSearch(Ridge(), SPACE, n_trials=3, progress=False, **options).fit(
        problem(few, count)
    )


@pytest.fixture(scope="module")
def search():
    return searched()


@pytest.fixture(scope="module")
def target():
    X, y = sites()
    return X[-1], y[-1]


def error(model, X, y):
    return float(np.mean((model.predict(X) - y) ** 2))


def test_ten_labels(search, target):
    X, y = target
    before = search.predict(X)
    updated = search.update(X[:10], y[:10])
    assert isinstance(updated.predictor_, UpdatedRegressor)
    assert error(updated, X[10:], y[10:]) < 0.05 * error(search, X[10:], y[10:])
    assert updated.labels_ == 10
    assert updated.risk_.value < 0.2 * updated.before_.value
    # Noise 0.09, posterior variance of an intercept 0.09 / 10, and about 0.02 for two slopes from
    # 420 rows whose sites lie apart with a standard deviation of 2: 2 * 4 / 420.
    assert updated.risk_.value == pytest.approx(0.12, abs=0.06)
    assert updated.gain_.value == pytest.approx(updated.before_.value - updated.risk_.value)
    # The error at sites that were each updated by ten labels of their own.
    rmse = updated.metrics_.loc["rmse"]
    assert rmse["estimate"] == pytest.approx(np.sqrt(0.12), abs=0.1)
    # That of the target's 50 other rows has a standard error of 10 %.
    own = np.sqrt(error(updated, X[10:], y[10:]))
    assert rmse["low"] < 1.2 * own
    assert 0.8 * own < rmse["high"]
    assert rmse["estimate"] < 0.3 * search.metrics_.loc["rmse", "estimate"]
    assert updated.effect_.loc["intercept", "estimate"] == pytest.approx(OWN, abs=1.2)
    np.testing.assert_array_equal(search.predict(X), before)  # the search is as it was


def test_more_labels_give_more(search, target):
    X, y = target
    errors = [error(search.update(X[:m], y[:m]), X[40:], y[40:]) for m in (1, 10, 40)]
    assert errors[0] > errors[1] >= 0.8 * errors[2]


def test_fit_with_labels_updates_by_itself(search, target):
    X, y = target
    fitted = searched(few=10)
    assert isinstance(fitted.predictor_, UpdatedRegressor)
    assert fitted.risk_ is fitted.result_.updated.risk_
    later = search.update(X[:10], y[:10])
    assert error(fitted, X[10:], y[10:]) == pytest.approx(error(later, X[10:], y[10:]), rel=0.5)
    assert isinstance(fitted.best_estimator_, Ridge)


def test_labels_of_the_search_count_as_well(target):
    X, y = target
    fitted = searched(few=10)
    assert fitted.update(X[10:15], y[10:15]).labels_ == 15
    assert fitted.update(X[:15], y[:15]).labels_ == 15  # all of them again


def test_a_site_whose_labels_are_noisier(search):
    """The labels show it: the intervals are wide, and most of 20 contain the truth."""
    contained = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 2))
        updated = search.update(X, X[:, 0] + OWN + rng.normal(0, 1.5, 40))
        low, high = updated.risk_.interval(0.95)
        contained.append(low < 1.5**2 < high)
    # No source has a noise of more than 0.3, so they are not those of a random site: 80 % of 60.
    assert np.mean(contained) > 0.6


def test_pickled_after_an_update(search, target):
    updated = search.update(target[0][:5], target[1][:5])
    same = pickle.loads(pickle.dumps(updated))
    np.testing.assert_array_equal(same.predict(target[0]), updated.predict(target[0]))
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(target[0]), search.predict(target[0]))


class Logged(RegressorMixin, BaseEstimator):
    """A user's regressor that happens to call its inner model `predictor_`."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        self.predictor_ = Ridge(self.alpha).fit(X, y)
        return self

    def predict(self, X):
        return self.predictor_.predict(X) + 0.0


def test_a_model_of_the_user_is_not_taken_apart(target):
    options = {"n_trials": 2, "progress": False, "final": "best"}
    search = ShiftSearch(Logged(), SPACE, **options).fit(problem())
    assert isinstance(search.best_estimator_, Logged)
    updated = search.update(target[0][:5], target[1][:5])
    assert isinstance(updated.predictor_.predictor_, Logged)


def test_classes():
    rng = np.random.default_rng(1)

    def site(shift):
        x = rng.normal(size=(80, 1))
        return x, np.where(rng.random(80) < 1 / (1 + np.exp(-x[:, 0] - shift)), "yes", "no")

    X, y = site(3.0)
    given = ShiftProblem.from_sites([site(b) for b in rng.normal(0, 1.5, 9)], X)
    space = {"C": FloatDistribution(0.1, 10, log=True)}
    search = ShiftSearch(LogisticRegression(), space, n_trials=2, progress=False).fit(given)
    with pytest.warns(DataWarning, match="all 20 labels of 'target' are 'yes'"):
        updated = search.update(X[:20], y[:20])
    assert isinstance(updated.predictor_, UpdatedClassifier)
    assert list(updated.classes_) == ["no", "yes"]
    rest = y[20:] == "yes"
    assert (
        updated.predict_proba(X[20:])[rest, 1].mean() > search.predict_proba(X[20:])[rest, 1].mean()
    )
    assert set(updated.effect_.index.get_level_values("class")) == {"yes"}
    with pytest.raises(DataError, match="'perhaps'"):
        search.update(X[:2], ["yes", "perhaps"])


def test_what_cannot_be_updated(target):
    found = searched(risk="naive")
    why = "no row was predicted by a model that has not seen its site"
    with pytest.raises(SettingsError, match=why):
        found.update(target[0][:5], target[1][:5])


@pytest.mark.filterwarnings("ignore:there is only one source")
@pytest.mark.parametrize("count", [1, 2])
def test_few_sources(count, target):
    X, y = target
    updated = searched(count=count).update(X[:20], y[:20])
    assert updated.used_
    assert error(updated, X[20:], y[20:]) < 0.5 * error(searched(count=count), X[20:], y[20:])
    low, high = updated.risk_.interval()
    assert low < error(updated, X[20:], y[20:]) < high


def alike(seed=3):
    """Sites that do not differ, and the target, whose labels do."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(80, 2)) for _ in range(7)]
    return X, [x[:, 0] + rng.normal(0, 0.3, 80) for x in X]


def test_an_update_whose_gain_is_negative_is_not_used(monkeypatch):
    X, y = alike()
    found = ShiftSearch(Ridge(), SPACE, n_trials=2, progress=False)
    found.fit(ShiftProblem.from_sites(list(zip(X[:-1], y[:-1], strict=True)), X[-1]))
    kept = 0
    for seed in range(12):
        rows = np.random.default_rng(seed).permutation(80)[:10]
        updated = found.update(X[-1][rows], y[-1][rows])
        assert updated.used_ == (updated.gain_.value >= 0)
        if not updated.used_:
            kept += 1
            assert updated.predictor_ is found.predictor_
            assert updated.risk_ is updated.before_
            assert repr(updated).startswith("<Not updated by 10 labels")
            np.testing.assert_array_equal(updated.predict(X[-1]), found.predict(X[-1]))
    assert kept >= 3


def test_labels_are_not_ignored_where_the_sources_are_alike():
    """The target lies ten standard deviations of the noise above all sources."""
    X, y = alike()
    found = ShiftSearch(Ridge(), SPACE, n_trials=2, progress=False)
    found.fit(ShiftProblem.from_sites(list(zip(X[:-1], y[:-1], strict=True)), X[-1]))
    updated = found.update(X[-1][:30], y[-1][:30] + OWN)
    assert error(updated, X[-1][30:], y[-1][30:] + OWN) < 1.3 * 0.09
    assert updated.gain_.value == pytest.approx(OWN**2, rel=0.4)


def test_half_of_the_model_is_refitted(search, target):
    X, y = target
    model = search.update(X[:20], y[:20]).predictor_
    plain, refitted = model.predictor_.predict(X), model.refitted_.predict(X)
    assert np.abs(plain - refitted).max() > 1e-3
    alone = clone(model).fit(X, y)
    alone.predictor_ = alone.refitted_ = model.predictor_
    np.testing.assert_allclose(
        model.predict(X), alone.predict(X) + (refitted - plain) / 2, rtol=1e-10
    )


@pytest.mark.parametrize("seed", range(6))
def test_risk_and_predictor_agree_on_whether_labels_are_used(seed):
    X, y = alike(seed)
    few = {"labelled_target": (X[-1][:8], y[-1][:8])}
    given = ShiftProblem.from_sites(list(zip(X[:-1], y[:-1], strict=True)), X[-1], **few)
    found = ShiftSearch(Ridge(), SPACE, n_trials=2, progress=False).fit(given)
    assert isinstance(found.predictor_, UpdatedRegressor) == found.result_.updated.used_


def test_models_that_take_positive_labels_alone():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(60, 2)) for _ in range(6)]
    y = [rng.poisson(np.exp(0.5 * x[:, 0] + rng.normal(0, 1))).astype(float) for x in X]
    found = ShiftSearch(PoissonRegressor(), SPACE, n_trials=2, progress=False)
    given = list(zip(X[:-1], y[:-1], strict=True))
    found.fit(ShiftProblem.from_sites(given, X[-1], task="regression"))
    assert found.update(X[-1][:20], y[-1][:20] + 3.0).used_


def test_an_outlier_among_the_labels(search, target):
    X, y = target
    wrong = np.where(np.arange(20) == 7, 1e4, y[:20])
    with pytest.warns(DataWarning, match="have they the same unit"):
        updated = search.update(X[:20], wrong)
    usual = search.update(X[:20], y[:20])
    assert error(updated, X[20:], y[20:]) < 2 * error(usual, X[20:], y[20:])


def test_odd_labels(search, target):
    with pytest.warns(DataWarning, match="have they the same unit"):
        search.update(target[0][:5], 1000 * target[1][:5])
    X, y = pd.DataFrame(target[0][:5]), pd.Series(target[1][:5])
    frames = [pd.DataFrame(x) for x in sites()[0][:-1]]
    given = list(zip(frames, sites()[1][:-1], strict=True))
    found = ShiftSearch(Ridge(), SPACE, n_trials=2, progress=False)
    found.fit(ShiftProblem.from_sites(given, pd.DataFrame(target[0])))
    with pytest.raises(DataError, match="another order"):
        found.update(X, y[::-1])


def test_labels_in_half_precision(target):
    """The ends of their range, and as much again beyond, are no numbers of that kind."""
    X, y = sites()
    given = [(x, (300 * v).clip(-6e4, 6e4).astype("float16")) for x, v in zip(X, y, strict=True)]
    given[0][1][:2] = [-6e4, 6e4]
    found = ShiftSearch(Ridge(), SPACE, n_trials=2, progress=False)
    found.fit(ShiftProblem.from_sites(given[:-1], target[0]))
    found.update(target[0][:5], given[-1][1][:5])


def test_wrong_rows(search, target):
    with pytest.raises(DataError, match="3 columns"):
        search.update(np.zeros((2, 3)), [0.0, 1.0])
    with pytest.raises(DataError, match="label"):
        search.update(target[0][:2], [1.0, np.nan])
