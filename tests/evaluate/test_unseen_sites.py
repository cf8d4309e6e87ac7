"""Trials that are judged on sites which the model has not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import ProblemError
from shiftune.evaluate import LeaveSourcesOut, PooledFit, StudyData, loss_named
from shiftune.risk import RegressionAdjusted


class Sites(RegressorMixin, BaseEstimator):
    """Predicts 1 for rows whose x it has met in training (x is the number of the site)."""

    def fit(self, X, y):
        self.seen_ = np.unique(X[:, 0])
        return self

    def predict(self, X):
        return np.isin(X[:, 0], self.seen_).astype(float)


def data_of(rows, classes=None):
    """Sites "0", "1", ... with as many training as validation rows."""
    names = [str(j) for j in range(len(rows))]
    x = np.repeat(np.arange(len(rows)), rows).astype(float)[:, None]
    y = np.zeros(len(x)) if classes is None else np.concatenate(classes)
    ends = np.cumsum(rows)[:-1]
    return StudyData(
        X_train=x,
        y_train=np.arange(len(x)) % 2.0 if classes is None else y,
        train_sites=np.repeat(names, rows),
        training_weights=None,
        X_validation=x,
        y_validation=tuple(np.split(y, ends)),
        weights=None,
        names=tuple(names),
    )


@pytest.mark.parametrize("unseen", [0.0, 0.5, 1.0])
def test_no_model_has_seen_the_site_it_is_judged_on(unseen):
    losses = LeaveSourcesOut(3, unseen).losses(Sites(), data_of([4, 6, 3, 9, 2]), SQUARED).by_source
    for own in losses:  # 1 where the site was known, 0 where it was not
        np.testing.assert_allclose(own, 1 - unseen)


SQUARED = loss_named("squared")


def test_sites_keep_their_order():
    class Labelled(Sites):
        def predict(self, X):
            return np.where(super().predict(X) > 0, 0.0, X[:, 0])

    losses = LeaveSourcesOut(2, 1.0).losses(Labelled(), data_of([3, 9, 5, 2]), SQUARED).by_source
    assert [own[0] for own in losses] == [0, 1, 4, 9]
    assert [len(own) for own in losses] == [3, 9, 5, 2]


@pytest.mark.parametrize(("extra", "fits"), [(2, 3), (3, 4), (4, 5), (9, 6)])
def test_cost_in_fits(extra, fits):
    class Counted(Sites):
        count = 0

        def fit(self, X, y):
            Counted.count += 1
            return super().fit(X, y)

    LeaveSourcesOut(extra).losses(Counted(), data_of([4, 6, 3, 9, 2]), SQUARED)
    assert Counted.count == fits


def test_labelled_rows_of_the_target_are_no_source():
    data = replace(data_of([9, 9, 9, 4]), labelled_target="3")
    losses = LeaveSourcesOut(3, 1.0).losses(Sites(), data, SQUARED)
    assert losses.by_source[3][0] == 1  # every model has seen them
    assert sum(own[0] == 0 for own in losses.by_source) == 3


@pytest.mark.parametrize("own", [0.0, 2.0])
def test_weights_of_the_rows_that_are_left_have_mean_1(own):
    means = []

    class Weighed(Sites):
        def fit(self, X, y, sample_weight=None):
            means.append(1.0 if sample_weight is None else np.mean(sample_weight))
            return super().fit(X, y)

    data = data_of([6, 5])
    weights = np.where(data.train_sites == "0", own, 4.0)
    plan = LeaveSourcesOut(2)
    plan.losses(Weighed(), replace(data, training_weights=weights / weights.mean()), SQUARED)
    assert len(means) == 3
    np.testing.assert_allclose(means, 1)


def test_groups_have_about_as_many_rows():
    groups = LeaveSourcesOut(3).groups(np.repeat(list("abcdef"), [60, 30, 30, 20, 20, 20]))
    assert sorted(name for group in groups for name in group) == list("abcdef")
    rows = dict(zip("abcdef", [60, 30, 30, 20, 20, 20], strict=True))
    sizes = [sum(rows[name] for name in group) for group in groups]
    assert max(sizes) - min(sizes) <= 20  # no more than the smallest site


def test_a_class_that_only_one_site_has():
    """Without that site no model knows the class; the model of all sites speaks for its rows."""
    classes = [np.array(list("aabb")), np.array(list("aabb")), np.array(list("aacc"))]
    data = data_of([4, 4, 4], classes)
    loss = loss_named("log_loss")
    mixed = LeaveSourcesOut(3, 1.0).losses(LogisticRegression(), data, loss).by_source
    pooled = PooledFit().losses(LogisticRegression(), data, loss).by_source
    np.testing.assert_allclose(mixed[2][2:], pooled[2][2:])
    assert not np.allclose(mixed[2][:2], pooled[2][:2])


def test_sites_without_which_there_is_one_class():
    """The model of all sites judges site 0; that of site 0, which gives both the same chance, 1."""
    data = data_of([4, 4], [np.array(list("aabb")), np.array(list("aaaa"))])
    mixed = LeaveSourcesOut(2).losses(LogisticRegression(), data, LOG).by_source
    pooled = PooledFit().losses(LogisticRegression(), data, LOG).by_source
    np.testing.assert_allclose(mixed[0], pooled[0])
    np.testing.assert_allclose(mixed[1], (pooled[1] + np.log(2)) / 2, rtol=1e-6)


LOG = loss_named("log_loss")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((-1,), "extra_fits"),
        ((1,), "extra_fits"),
        ((4, 1.5), "unseen"),
        ((0,), "extra_fits"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ProblemError, match=message):
        LeaveSourcesOut(*options)


def hospitals(rng, few=0):
    sites = {}
    for j in range(5):
        X = rng.normal(rng.normal(0, 0.5), 1, (80, 3))
        sites[f"h{j}"] = (X, X @ [1.0, 0.5, 0.0] + rng.normal(size=80))
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, 0.5, 0.0] + rng.normal(size=100)
    labelled = (X[:few], y[:few]) if few else None
    return ShiftProblem.from_sites(sites, X[few:], labelled_target=labelled)


ALPHA = {"alpha": FloatDistribution(1e-2, 1e4, log=True)}


def test_default_search():
    """The default estimate is what the steps give by hand."""
    problem = hospitals(np.random.default_rng(0))
    search = ShiftSearch(Ridge(), ALPHA, n_trials=5, sampler="random").fit(problem)
    split = problem.split((0.0, 0.7, 0.3), random_state=0)
    judged = split.validation
    data = StudyData(
        X_train=np.vstack([s.X for s in split.train]),
        y_train=np.concatenate([s.y for s in split.train]),
        train_sites=np.repeat([s.name for s in split.train], [len(s) for s in split.train]),
        training_weights=None,
        X_validation=np.vstack([s.X for s in judged]),
        y_validation=tuple(s.y for s in judged),
        weights=None,
        names=tuple(s.name for s in judged),
    )
    losses = LeaveSourcesOut().losses(Ridge(**search.best_params_), data, SQUARED).by_source
    by_hand = RegressionAdjusted().fit(problem.target.X, [s.X for s in judged]).estimate(losses)
    assert search.risk_.value == pytest.approx(by_hand.value)
    assert search.risk_.stderr == pytest.approx(by_hand.stderr)
    assert search.weights_ is None
    low, high = search.risk_.interval(0.9)
    assert low < 1 < high  # the noise's variance


def test_no_extra_fits():
    problem = hospitals(np.random.default_rng(1))
    cheap = ShiftSearch(Ridge(), ALPHA, n_trials=3, plan=PooledFit()).fit(problem)
    assert cheap.risk_.method == "adjusted"
    assert list(cheap.risk_.names) == problem.names


def test_few_labels_judge_and_do_not_train():
    problem = hospitals(np.random.default_rng(2), few=20)
    search = ShiftSearch(Ridge(), ALPHA, n_trials=3).fit(problem)
    assert search.risk_.names[-1] == "target"
    assert search.risk_.n[-1] == 20
    assert search.risk_.labelled_target
    rows = sum(len(site) for site in problem.sources) + 20  # the final model has them all
    by_hand = Ridge(**search.best_params_).fit(
        np.vstack([s.X for s in problem.labelled_sites]),
        np.concatenate([s.y for s in problem.labelled_sites]),
    )
    assert rows == 420
    np.testing.assert_allclose(search.best_estimator_.coef_, by_hand.coef_)


def test_an_adjusted_estimator_with_other_settings():
    problem = hospitals(np.random.default_rng(3))
    space = {"alpha": CategoricalDistribution([1.0])}
    plain, less = (
        ShiftSearch(Ridge(), space, n_trials=1, risk=risk).fit(problem)
        for risk in ("adjusted", RegressionAdjusted(prior_r2=1e-9))
    )
    assert plain.risk_.value != less.risk_.value


def test_few_labels_count_alike_in_all_that_is_compared():
    problem = hospitals(np.random.default_rng(4), few=20)
    search = ShiftSearch(Ridge(), ALPHA, n_trials=5, final="best").fit(problem)
    chosen = search.result_.choice.risk  # without the effect of the labels
    own = chosen.sources["share"]["target"]
    assert own != pytest.approx(20 / 120)  # what the sources are worth is estimated
    assert search.default_risk().sources["share"]["target"] == pytest.approx(own)
    best = search.result_.risks[search.best_index_]
    assert best.sources["share"]["target"] == pytest.approx(own)


def test_a_split_without_a_source_leaves_the_labels_the_targets_own():
    problem = hospitals(np.random.default_rng(5), few=12)

    def without_one(given):
        split = given.split((0.0, 0.7, 0.3), random_state=0, target_trains=False)
        return replace(split, validation=split.validation[1:])

    search = ShiftSearch(Ridge(), ALPHA, n_trials=2, shares=without_one).fit(problem)
    assert search.risk_.names == ("h1", "h2", "h3", "h4", "target")
    assert search.risk_.labelled_target
