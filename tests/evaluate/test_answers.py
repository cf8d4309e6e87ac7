"""Answers of trials: predictions by models that know the row's site, and by others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.evaluate import (
    Answers,
    LeaveSourcesOut,
    PooledFit,
    StudyData,
    loss_named,
    pinball,
    weighted_mean,
)
from shiftune.evaluate._plan import best_constant
from shiftune.search._settings import check_settings
from shiftune.search._trial import Candidate, run_trial

PLANS = [PooledFit(), LeaveSourcesOut(), LeaveSourcesOut(2, 0.3)]


def data_of(rng, labels, sites=5, rows=40):
    """Sites "0", "1", ..., whose labels are a function of rows, their site and noise."""
    names = [str(j) for j in range(sites)]
    site = np.repeat(np.arange(sites), rows)

    def drawn():
        X = rng.normal(size=(sites * rows, 2)) + 0.2 * site[:, None]
        return X, labels(X[:, 0] + 0.3 * site + rng.normal(size=len(X)))

    (X_train, y_train), (X, y) = drawn(), drawn()
    return StudyData(
        X_train=X_train,
        y_train=y_train,
        train_sites=np.repeat(names, rows),
        training_weights=None,
        X_validation=X,
        y_validation=tuple(np.split(y, sites)),
        weights=None,
        names=tuple(names),
        classes=None if y.dtype.kind == "f" else np.unique(np.concatenate([y_train, y])),
    )


def words(score):
    return np.array(["high", "low", "mid"], dtype=object)[np.digitize(score, [0.0, 1.0])]


def two(score):
    return (score > 0.5).astype(int)


@pytest.mark.parametrize("plan", PLANS, ids=repr)
@pytest.mark.parametrize(
    ("labels", "model", "loss"),
    [
        (np.asarray, Ridge(), "squared"),
        (np.asarray, Ridge(), "absolute"),
        (words, LogisticRegression(), "log_loss"),
        (words, LogisticRegression(), "brier"),
        (words, LogisticRegression(), "zero_one"),
        (two, LogisticRegression(), "log_loss"),
        (two, LogisticRegression(), "brier"),
        (two, LogisticRegression(), lambda y, p: 2.0 * (y > p) + (p > y)),
    ],
)
def test_losses_of_the_answers_are_those_of_the_trial(rng, plan, labels, model, loss):
    data, loss = data_of(rng, labels), loss_named(loss)
    found = plan.losses(model, data, loss)
    assert len(found.answers) == 200
    losses = found.answers.losses(np.concatenate(data.y_validation), loss, data.classes)
    np.testing.assert_allclose(losses, np.concatenate(found.by_source), atol=1e-5)


def test_both_kinds_of_answers_by_hand(rng):
    data = data_of(rng, np.asarray)
    plan = LeaveSourcesOut(5, 0.25)
    answers = plan.losses(Ridge(), data, loss_named("squared")).answers
    pooled = Ridge().fit(data.X_train, data.y_train)
    np.testing.assert_array_equal(answers.known, pooled.predict(data.X_validation))
    for name in data.names:
        others, rows = data.train_sites != name, data.validation_rows([name])
        model = Ridge().fit(data.X_train[others], data.y_train[others])
        np.testing.assert_array_equal(answers.unseen[rows], model.predict(data.X_validation[rows]))
    assert answers.unseen_share == 0.25


@pytest.mark.parametrize("offset", [0.0, 1.7e9])
def test_values_are_precise_at_any_size(rng, offset):
    """Times in seconds since 1970: steps of single precision are 128 s there."""
    data = data_of(rng, lambda score: score + offset)
    found = LeaveSourcesOut().losses(Ridge(), data, loss_named("squared"))
    losses = found.answers.losses(np.concatenate(data.y_validation), loss_named("squared"))
    np.testing.assert_array_equal(losses, np.concatenate(found.by_source))


def test_one_model_has_one_answer(rng):
    answers = PooledFit().losses(Ridge(), data_of(rng, np.asarray), loss_named("squared")).answers
    assert answers.unseen is answers.known
    assert answers.unseen_share == 0
    assert answers.nbytes == 8 * 200


def one_class_at_one_site(rng):
    """Only site 0 has the class c."""
    data = data_of(rng, lambda score: np.where(score > 0, "a", "b").astype(object), sites=3)
    y, own = data.y_train.copy(), data.y_validation[0].copy()
    y[:8] = own[:8] = "c"
    return replace(
        data,
        y_train=y,
        y_validation=(own, *data.y_validation[1:]),
        classes=np.array(["a", "b", "c"], dtype=object),
    )


@pytest.mark.parametrize("loss", ["log_loss", "brier"])
def test_a_class_that_no_other_site_has(rng, loss):
    data = one_class_at_one_site(rng)
    found = LeaveSourcesOut(3).losses(LogisticRegression(), data, loss_named(loss))
    answers = found.answers
    np.testing.assert_array_equal(answers.unseen[:8], answers.known[:8])
    assert (answers.unseen[8:40, 2] == 0).all()  # the model without site 0 has never seen c
    assert (answers.known[:, 2] > 0).all()
    np.testing.assert_allclose(answers.unseen.sum(axis=1), 1, rtol=1e-6)
    losses = answers.losses(np.concatenate(data.y_validation), loss_named(loss), data.classes)
    np.testing.assert_allclose(losses, np.concatenate(found.by_source), atol=1e-5)


def test_one_probability_per_row(rng):
    class Second(LogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X)[:, 1]

    data, loss = data_of(rng, two), loss_named("log_loss")
    ours, usual = (
        LeaveSourcesOut().losses(model, data, loss).answers
        for model in (Second(), LogisticRegression())
    )
    np.testing.assert_allclose(ours.unseen, usual.unseen, rtol=1e-5)


def test_scores_for_a_loss_of_their_own_are_not_kept(rng):
    class Score(RegressorMixin, BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return X[:, 0]

    hinge = loss_named(lambda y, score: np.maximum(0, 1 - (2 * y - 1) * score))
    found = LeaveSourcesOut().losses(Score(), data_of(rng, two), hinge)
    assert found.answers is None
    assert len(found.by_source) == 5


def problem_of(rng, few, task):
    def drawn(n, shift):
        X = rng.normal(shift, 1, size=(n, 2))
        score = X[:, 0] + rng.normal(size=n)
        return X, score if task == "regression" else two(score)

    X, y = drawn(60, 0.5)
    labelled = (X[:few], y[:few]) if few else None
    sites = {f"h{j}": drawn(50, j / 4) for j in range(4)}
    return ShiftProblem.from_sites(sites, X[few:], labelled_target=labelled)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("few", [0, 12])
def test_outcome_of_a_trial(rng, few, task):
    problem = problem_of(rng, few, task)
    model = Ridge() if task == "regression" else LogisticRegression()
    settings = check_settings(
        ShiftSearch(model, {"fit_intercept": [True]}).get_params(deep=False), problem
    )
    loss, context = settings.loss, settings.context(problem, settings.split(problem), None)
    assert loss.name == ("squared" if task == "regression" else "log_loss")
    outcome = run_trial(context, Candidate({}))
    y = np.concatenate(context.data.y_validation)
    assert (context.data.classes is None) == (task == "regression")
    losses = context.data.by_site(outcome.answers.losses(y, loss, context.data.classes))
    assert context.risk.estimate(losses, None, names=context.data.names).value == pytest.approx(
        outcome.risk.value, abs=1e-5
    )
    if few:  # labelled rows of the target come last; no model has seen them
        np.testing.assert_array_equal(outcome.answers.unseen[-few:], outcome.answers.known[-few:])


def test_a_regressor_on_classes_gives_values(rng):
    problem = problem_of(rng, 0, "classification")
    search = ShiftSearch(Ridge(), {"fit_intercept": [True]}, loss="squared")
    settings = check_settings(search.get_params(deep=False), problem)
    context = settings.context(problem, settings.split(problem), None)
    assert context.data.classes is None
    assert run_trial(context, Candidate({})).answers.known.shape == (60,)


class TestMean:
    def test_weights_need_not_add_up_to_1(self):
        one = Answers(np.array([0.0, 1.0]), np.array([2.0, 1.0]), 0.5)
        other = Answers(np.array([4.0, 1.0]), np.array([2.0, 5.0]), 0.5)
        mean = weighted_mean([one, other], [3, 1])
        np.testing.assert_array_equal(mean.known, [1, 1])
        np.testing.assert_array_equal(mean.unseen, [2, 2])
        assert mean.unseen_share == 0.5

    def test_a_mean_of_votes_is_a_weighted_vote(self):
        a, b = np.array([[1, 0]], np.float32), np.array([[0, 1]], np.float32)
        classes, loss = np.array(["no", "yes"]), loss_named("zero_one")
        mean = weighted_mean([Answers(a, a), Answers(b, b), Answers(b, b)], [0.5, 0.3, 0.3])
        assert mean.losses(np.array(["yes"]), loss, classes) == 0
        assert mean.losses(np.array(["no"]), loss, classes) == 1
        assert mean.known.dtype == np.float32

    def test_answers_of_one_model_stay_one_array(self):
        one = Answers(np.ones(3), np.ones(3))
        same = Answers(one.known, one.known)
        assert (mean := weighted_mean([same, same], [1, 1])).unseen is mean.known

    def test_answers_of_different_plans(self):
        x = np.ones(2)
        with pytest.raises(ValueError, match="one plan"):
            weighted_mean([Answers(x, x, 0.5), Answers(x, x)], [1, 1])


def test_answers_to_some_rows():
    answers = Answers(np.arange(4.0), -np.arange(4.0), 0.5)
    some = answers.rows(np.array([True, False, False, True]))
    np.testing.assert_array_equal(some.known, [0, 3])
    np.testing.assert_array_equal(some.unseen, [0, -3])


def test_the_best_constant():
    assert best_constant(np.arange(101.0), pinball(0.9), None) == pytest.approx(90, abs=0.5)
    y, classes = np.array(["a", "b", "b", "b"] * 10), np.array(["a", "b"])
    shares = best_constant(y, loss_named("brier"), classes)
    np.testing.assert_allclose(shares, [10.5 / 41, 30.5 / 41])
    assert best_constant(y, loss_named("zero_one"), classes).tolist() == [0, 1]


def test_answers_of_other_rows_are_refused():
    with pytest.raises(ValueError, match="same rows"):
        Answers(np.ones(3), np.ones(2))
