"""Fits of a trial, and the losses of their predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from tests.evaluate.studies import losses, predicted, study

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import DataError
from shiftune.evaluate import loss_named, pinball
from shiftune.evaluate._fits import (
    Predicted,
    best_constant,
    constant_predictions,
    fit_predict,
    losses_of_fits,
    losses_of_rows,
)
from shiftune.search._settings import check_settings
from shiftune.search._trial import Candidate, run_trial

SQUARED, LOG = loss_named("squared"), loss_named("log_loss")


class Mean(RegressorMixin, BaseEstimator):
    """Predicts the (weighted) mean of its training labels."""

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def drawn(rng, labels, sites=5, rows=40):
    """Return sites whose labels are a function of rows, their site and noise."""
    found = []
    for j in range(sites):
        X = rng.normal(size=(rows, 2)) + 0.2 * j
        found.append((X, labels(X[:, 0] + 0.3 * j + rng.normal(size=rows))))
    y = np.concatenate([own for _, own in found])
    return study(found, classes=None if y.dtype.kind == "f" else np.unique(y))


def words(score):
    return np.array(["high", "low", "mid"], dtype=object)[np.digitize(score, [0.0, 1.0])]


def two(score):
    return (score > 0.5).astype(int)


def one_column(*labels):
    """Return sites with these labels, whose only column is uninformative."""
    return [(np.zeros((len(own), 1)), np.array(list(own))) for own in labels]


# ---------------------------------------------------------------- closed forms


def test_means_of_the_other_sites_by_hand():
    # Three folds of one site each; every row is predicted by the mean of the other two sites.
    data = study(one_column([0.0, 2.0], [5.0], [8.0, 8.0, 11.0]))
    assert data.train_folds.tolist() == [1, 1, 2, 0, 0, 0]
    found = losses(Mean(), data, SQUARED)
    means = np.repeat([32 / 4, 29 / 5, 7 / 3], [2, 1, 3])
    np.testing.assert_allclose(found.predictions, means)
    assert [len(own) for own in found.by_source] == [2, 1, 3]
    np.testing.assert_allclose(np.concatenate(found.by_source), (means - [0, 2, 5, 8, 8, 11]) ** 2)


def test_rows_keep_their_place_whatever_the_order_of_the_folds():
    data = study(one_column([1.0] * 2, [2.0] * 5, [3.0] * 3), folds=[2, 0, 1])
    fits = {fold: Predicted(np.full((data.folds == fold).sum(), 10.0 * fold), None, 1)
            for fold in (1, 2, 0)}  # fmt: skip
    found = losses_of_fits(fits, data, SQUARED)
    assert found.predictions.tolist() == [20.0] * 2 + [0.0] * 5 + [10.0] * 3
    assert [own[0] for own in found.by_source] == [19.0**2, 2.0**2, 7.0**2]


def test_rows_of_one_site_in_several_folds():
    """Folds of rows, as one source has them."""
    y = np.arange(6.0)
    rows = np.array([0, 1, 2, 0, 1, 2])
    data = replace(study([(y[:, None], y)]), train_folds=rows, folds=rows)
    expected = [(15 - y[rows == fold].sum()) / 4 for fold in rows]
    np.testing.assert_allclose(losses(Mean(), data, SQUARED).predictions, expected)


def test_both_kinds_of_weights_by_hand():
    class Noted(Mean):
        def fit(self, X, y, sample_weight=None):
            self.weights_ = sample_weight
            weights.append(sample_weight)
            return super().fit(X, y, sample_weight)

    sites, w = one_column([0.0, 4.0], [1.0, 3.0, 2.0]), np.array([1.0, 3.0, 2.0, 2.0, 8.0])
    # Density ratios are relative: those of the rows that are left have mean 1.
    weights: list = []
    ratios = study(sites, training_weights=w)
    np.testing.assert_allclose(losses(Noted(), ratios, SQUARED).predictions, [2, 2, 3, 3, 3])
    np.testing.assert_allclose(weights[0], [0.5, 1.5])
    np.testing.assert_allclose(weights[1], [0.5, 0.5, 2.0])
    # Weights that rows were given are numbers of rows.
    weights.clear()
    given = study(sites, training_weights=w, sample_weight=(w[:2], w[2:]))
    by_source, predictions = losses(Noted(), given, SQUARED)
    np.testing.assert_allclose(predictions, [2, 2, 3, 3, 3])
    np.testing.assert_allclose(weights[0], [1, 3])
    assert by_source[1].mean() == pytest.approx(np.average([4, 0, 1], weights=w[2:]))
    # Density ratios that are all 0 leave the rows unweighted.
    weights.clear()
    losses(Noted(), study(sites, training_weights=np.array([0, 0, 1.0, 1.0, 1.0])), SQUARED)
    assert weights[0] is None


@pytest.mark.parametrize("model", [LogisticRegression(), DummyClassifier()])
def test_a_class_that_only_one_fold_has(model):
    # Nobody but site 2 has c. Its model is trained on m = 10 rows, so c has .5 / 10.5 there.
    data = study(one_column("aaabb", "aabbb", "aacca"), classes="abc")
    P = losses(model, data, LOG).predictions
    assert P.dtype == np.float32
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(P[10:, 2], 0.5 / 10.5, rtol=1e-6)
    np.testing.assert_allclose(P[10:, 0] / P[10:, 1], 1, rtol=1e-2)  # five of each
    assert (P[:10, 2] > 0.1).all()  # the models of the other sites know it: 2 of 10 rows
    np.testing.assert_allclose(losses(model, data, LOG).by_source[2][2:4], np.log(21), rtol=1e-6)


def test_several_classes_that_a_fit_has_not_seen():
    data = study(one_column("aabb", "aabb", "abcd"), folds=[0, 0, 1], classes="abcd")
    fit = predicted(DummyClassifier(), data, "predict_proba")[1]
    assert fit.rows == 8
    assert fit.classes.tolist() == ["a", "b"]
    P = losses(DummyClassifier(), data, LOG).predictions[8:]
    least = 0.5 / (8 + 2 * 0.5)
    np.testing.assert_allclose(P, [[0.5 - least, 0.5 - least, least, least]] * 4, rtol=1e-6)


@pytest.mark.parametrize("loss", ["log_loss", "brier", "zero_one"])
def test_fits_whose_training_rows_have_one_label(loss):
    # Without site 0 there is nothing but a: no model is fitted, and a has all but half a row.
    class Two(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            assert len(np.unique(y)) == 2
            return super().fit(X, y, sample_weight)

    data = study(one_column("aabb", "aaaa"), classes="ab")
    found = losses(Two(), data, loss_named(loss))
    least = 0 if loss == "zero_one" else 0.5 / 4.5
    np.testing.assert_allclose(found.predictions[:4], [[1 - least, least]] * 4, rtol=1e-6)
    if loss == "log_loss":
        np.testing.assert_allclose(
            found.by_source[0], -np.log([8 / 9, 8 / 9, 1 / 9, 1 / 9]), rtol=1e-6
        )
    if loss == "zero_one":
        assert found.by_source[0].tolist() == [0, 0, 1, 1]


def test_quantities_with_one_value_at_the_other_sites():
    class Refuses(Mean):
        def fit(self, X, y, sample_weight=None):
            assert len(np.unique(y)) > 1, "no variance"
            return super().fit(X, y, sample_weight)

    found = losses(Refuses(), study(one_column([1.0, 3.0], [7.0, 7.0])), SQUARED)
    assert found.predictions.tolist() == [7, 7, 2, 2]


def test_one_model_of_all_rows_gets_them_whatever_their_labels():
    """Where nothing is left out, one label is a matter for the model."""
    data = study(one_column("aaaa", "aaaa"), classes="ab")
    pooled = replace(data, train_folds=np.full(8, -1), folds=np.zeros(8, dtype=int))
    with pytest.raises(ValueError, match="at least 2 classes"):
        fit_predict(LogisticRegression(), pooled, 0, "predict_proba")


# ---------------------------------------------------------------- losses of predictions


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
@pytest.mark.parametrize("folds", [4, 1])
def test_losses_of_the_predictions_are_those_of_the_trial(rng, labels, model, loss, folds):
    data, loss = drawn(rng, labels), loss_named(loss)
    if folds == 1:
        data = replace(data, train_folds=np.full(200, -1), folds=np.zeros(200, dtype=int))
    found = losses(model, data, loss)
    assert len(found.predictions) == 200
    again = np.concatenate(data.losses(found.predictions, loss))
    np.testing.assert_allclose(again, np.concatenate(found.by_source), atol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 1.7e9])
def test_values_are_precise_at_any_size(rng, offset):
    """Times in seconds since 1970: steps of single precision are 128 s there."""
    data = drawn(rng, lambda score: score + offset)
    found = losses(Ridge(), data, SQUARED)
    assert found.predictions.dtype == np.float64
    again = data.losses(found.predictions, SQUARED)
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate(found.by_source))


def test_values_take_8_bytes_and_probabilities_4(rng):
    assert losses(Ridge(), drawn(rng, np.asarray), SQUARED).predictions.nbytes == 8 * 200
    assert losses(LogisticRegression(), drawn(rng, words), LOG).predictions.nbytes == 12 * 200


def test_one_probability_per_row(rng):
    class Second(LogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X)[:, 1]

    data = drawn(rng, two)
    ours, usual = (losses(m, data, LOG).predictions for m in (Second(), LogisticRegression()))
    np.testing.assert_allclose(ours, usual, rtol=1e-5)


def test_a_column_of_values(rng):
    class Column(Ridge):
        def predict(self, X):
            return super().predict(X)[:, None]

    data = drawn(rng, np.asarray)
    ours, usual = (losses(m, data, SQUARED).predictions for m in (Column(), Ridge()))
    np.testing.assert_array_equal(ours, usual)


def test_a_column_of_values_and_a_fit_of_one_label():
    class Column(Mean):
        def predict(self, X):
            return super().predict(X)[:, None]

    found = losses(Column(), study(one_column([1.0, 3.0], [7.0, 7.0])), SQUARED)
    assert found.predictions.tolist() == [7, 7, 2, 2]


def test_classes_in_another_order(rng):
    class Reversed(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.model_ = LogisticRegression().fit(X, y)
            self.classes_ = self.model_.classes_[::-1]
            return self

        def predict_proba(self, X):
            return self.model_.predict_proba(X)[:, ::-1]

    data = drawn(rng, words)
    ours, usual = (losses(m, data, LOG).predictions for m in (Reversed(), LogisticRegression()))
    np.testing.assert_array_equal(ours, usual)


def test_probabilities_of_other_classes_are_refused(rng):
    class Wrong(LogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X)[:, :2]

    with pytest.raises(DataError, match=r"probabilities of shape \(\d+, 2\) for the classes"):
        losses(Wrong(), drawn(rng, words), LOG)


def test_scores_for_a_loss_of_their_own_are_not_kept(rng):
    class Score(RegressorMixin, BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return X[:, 0]

    hinge = loss_named(lambda y, score: np.maximum(0, 1 - (2 * y - 1) * score))
    found = losses(Score(), drawn(rng, two), hinge)
    assert found.predictions is None
    assert len(found.by_source) == 5


def test_a_mean_of_votes_is_a_weighted_vote():
    classes, loss = np.array(["no", "yes"]), loss_named("zero_one")
    votes = 0.5 * np.array([[1.0, 0.0]]) + 0.6 * np.array([[0.0, 1.0]])
    assert losses_of_rows(votes, np.array(["yes"]), loss, classes) == 0
    assert losses_of_rows(votes, np.array(["no"]), loss, classes) == 1
    with pytest.raises(DataError, match=r"shape \(n, C\), got \(3,\)"):
        losses_of_rows(np.ones(3), np.array(["no"] * 3), loss, classes)


# ---------------------------------------------------------------- trials


def problem_of(rng, few, task):
    def rows(n, shift):
        X = rng.normal(shift, 1, size=(n, 2))
        score = X[:, 0] + rng.normal(size=n)
        return X, score if task == "regression" else two(score)

    X, y = rows(60, 0.5)
    labelled = (X[:few], y[:few]) if few else None
    sites = {f"h{j}": rows(50, j / 4) for j in range(4)}
    return ShiftProblem.from_sites(sites, X[few:], labelled_target=labelled)


def context_of(problem, model, **options):
    search = ShiftSearch(model, {"fit_intercept": [True]}, **options)
    settings = check_settings(search.get_params(deep=False), problem)
    return settings.context(problem, settings.split(problem), None)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("few", [0, 12])
def test_outcome_of_a_trial(rng, few, task):
    context = context_of(
        problem_of(rng, few, task), Ridge() if task == "regression" else LogisticRegression()
    )
    data, loss = context.data, context.loss
    assert loss.name == ("squared" if task == "regression" else "log_loss")
    assert (data.classes is None) == (task == "regression")
    outcome = run_trial(context, Candidate({}))
    of_sites = data.losses(outcome.predictions, loss)
    risk = context.risk.estimate(of_sites, None, names=data.names)
    assert risk.value == pytest.approx(outcome.risk.value, abs=1e-5)
    assert outcome.risk.criterion == pytest.approx(
        (risk.lam * risk.n) @ [own.mean() for own in of_sites], abs=1e-6
    )
    assert len(outcome.predictions) == 200 + few


def test_the_paper_s_estimators_are_minimised_themselves(rng):
    context = context_of(problem_of(rng, 0, "regression"), Ridge(), risk="naive")
    outcome = run_trial(context, Candidate({}))
    assert outcome.risk.criterion == outcome.risk.value
    assert len(outcome.predictions) == 60  # three tenths of 200


def test_a_regressor_on_classes_gives_values(rng):
    context = context_of(problem_of(rng, 0, "classification"), Ridge(), loss="squared")
    assert context.data.classes is None
    assert run_trial(context, Candidate({})).predictions.shape == (200,)


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
def test_a_search_where_one_site_alone_has_a_class(rng):
    sites = []
    for name, labels in zip("ABCDE", ("ab", "ab", "abc", "ab", "ab"), strict=True):
        y = np.array(list(labels))[np.arange(40) % len(labels)]
        x = np.searchsorted(list("abc"), y) + rng.normal(size=40)
        sites.append(pd.DataFrame({"site": name, "x": x, "z": rng.normal(size=40), "y": y}))
    sites.append(sites[0].assign(site="T", y=None))
    problem = ShiftProblem.from_frame(pd.concat(sites), site="site", label="y", target="T")
    search = ShiftSearch(LogisticRegression(), {"C": (0.01, 1.0)}, n_trials=3, progress=False).fit(
        problem
    )
    assert (search.trials_["state"] == "COMPLETE").all()
    # Rows of c have the probability of a class that the models of the other sites have not seen.
    data, P = search.result_.context.data, search.result_.choice.predictions
    fold = int(data.folds[data.validation_rows(["C"])][0])
    rows = data.validation_rows(["C"]) & (np.concatenate(data.y_validation) == "c")
    m = int(data.trains(fold).sum())
    np.testing.assert_allclose(P[rows][:, 2], 0.5 / (m + 0.5), rtol=1e-5)
    assert len(search.predict_proba(problem.target.X)[0]) == 3


# ---------------------------------------------------------------- constants


def test_the_best_constant():
    assert best_constant(np.arange(101.0), pinball(0.9), None) == pytest.approx(90, abs=0.5)
    y, classes = np.array(["a", "b", "b", "b"] * 10), np.array(["a", "b"])
    shares = best_constant(y, loss_named("brier"), classes)
    np.testing.assert_allclose(shares, [10.5 / 41, 30.5 / 41])
    assert best_constant(y, loss_named("zero_one"), classes).tolist() == [0, 1]


def test_constants_are_learned_in_the_folds_of_a_trial():
    data = study(one_column([0.0, 2.0], [5.0, 6.0], [8.0, 8.0, 11.0]))
    found = constant_predictions(data, SQUARED)
    np.testing.assert_allclose(found, np.repeat([38 / 5, 29 / 5, 13 / 4], [2, 2, 3]))
    pooled = replace(data, train_folds=np.full(7, -1), folds=np.zeros(7, dtype=int))
    np.testing.assert_allclose(constant_predictions(pooled, SQUARED), 40 / 7)


def test_constants_of_classes():
    data = study(one_column("aab", "bbbb"), classes="ab")
    expected = np.repeat([[0.5 / 5, 4.5 / 5], [2.5 / 4, 1.5 / 4]], [3, 4], axis=0)
    np.testing.assert_allclose(constant_predictions(data, LOG), expected)
