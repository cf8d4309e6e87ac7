from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from shiftune.errors import ProblemError, SettingsError
from shiftune.evaluate import Loss, bounded, loss_named, pinball


class TestAgainstScikitLearn:
    """The mean of our pointwise losses is scikit-learn's metric."""

    @pytest.mark.parametrize(
        ("name", "metric"),
        [
            ("squared", metrics.mean_squared_error),
            ("absolute", metrics.mean_absolute_error),
            ("pinball", metrics.mean_pinball_loss),
        ],
    )
    def test_regression(self, rng, name, metric):
        y, p = rng.normal(size=50), rng.normal(size=50)
        assert loss_named(name)(y, p).mean() == pytest.approx(metric(y, p))

    def test_half_squared(self, rng):
        y, p = rng.normal(size=50), rng.normal(size=50)
        np.testing.assert_allclose(loss_named("half_squared")(y, p), (y - p) ** 2 / 2)

    def test_pinball_at_a_quantile(self, rng):
        y, p = rng.normal(size=50), rng.normal(size=50)
        want = metrics.mean_pinball_loss(y, p, alpha=0.9)
        assert pinball(0.9)(y, p).mean() == pytest.approx(want)

    @pytest.mark.parametrize(
        "classes", [[0, 1], [-1, 1], ["no", "yes"], [False, True], [3, 7, 9], ["c", "a", "b"]]
    )
    def test_classification_with_any_labels(self, rng, classes):
        y = rng.choice(np.array(classes, dtype=object if isinstance(classes[0], str) else None), 80)
        X = rng.normal(size=(80, 3))
        model = LogisticRegression().fit(X, y)
        P = model.predict_proba(X)
        log_loss = loss_named("log_loss")(y, P, model.classes_)
        assert log_loss.mean() == pytest.approx(metrics.log_loss(y, P, labels=model.classes_))
        truth = (y[:, None] == model.classes_[None, :]).astype(float)
        brier = loss_named("brier")(y, P, model.classes_)
        half = 0.5 if len(classes) == 2 else 1.0
        np.testing.assert_allclose(brier, half * ((P - truth) ** 2).sum(axis=1))
        zero_one = loss_named("zero_one")(y, model.predict(X))
        assert zero_one.mean() == pytest.approx(1 - model.score(X, y))

    def test_binary_brier(self, rng):
        y, p = rng.integers(0, 2, 60), rng.random(60)
        got = loss_named("brier")(y, p, [0, 1]).mean()
        assert got == pytest.approx(metrics.brier_score_loss(y, p))

    def test_one_column_is_the_second_class(self, rng):
        y, p = rng.choice([-1, 1], 60), rng.uniform(0.1, 0.9, 60)
        both = np.column_stack([1 - p, p])
        log_loss = loss_named("log_loss")
        np.testing.assert_allclose(log_loss(y, p, [-1, 1]), log_loss(y, both, [-1, 1]))

    def test_columns_in_any_order(self):
        P = [[0.2, 0.8]]
        assert loss_named("log_loss")(["a"], P, ["b", "a"]) == pytest.approx(-np.log(0.8))


def test_certain_and_wrong_is_finite():
    loss = loss_named("log_loss")([0], [[0.0, 1.0]], [0, 1])
    assert 30 < loss[0] < 40


def test_bounded():
    loss = bounded("log_loss", 2.0)
    assert loss([0], [[0.0, 1.0]], [0, 1]) == [2.0]
    assert loss.needs == "predict_proba"
    with pytest.raises(ProblemError, match="bound"):
        bounded("squared", 0)


class TestUserFunctions:
    def test_plain(self):
        cost = loss_named(lambda y, p: np.where(y > p, 5.0, 1.0) * np.abs(y - p))
        np.testing.assert_allclose(cost([1.0, 0.0], [0.0, 1.0]), [5, 1])

    def test_of_probabilities(self):
        own = Loss(lambda y, P, classes: P[:, 0], "first", needs="predict_proba")
        np.testing.assert_allclose(own([0, 1], [[0.3, 0.7], [0.6, 0.4]], [0, 1]), [0.3, 0.6])

    def test_an_average_is_refused(self):
        with pytest.raises(ProblemError, match="one loss per row"):
            loss_named(lambda y, p: np.mean((y - p) ** 2))([1.0, 2.0], [1.0, 2.0])

    def test_an_accidental_table_is_refused(self):
        """(n,) against (n, 1): NumPy would make it (n, n)."""
        with pytest.raises(ProblemError, match="one loss per row"):
            loss_named(lambda y, p: y - p[:, None])(np.zeros(3), np.zeros(3))

    def test_a_column_of_predictions_is_taken_as_a_vector(self):
        np.testing.assert_allclose(loss_named("squared")([1.0, 2.0], [[1.0], [4.0]]), [0, 4])


@pytest.mark.parametrize(
    ("name", "y", "p", "classes", "message"),
    [
        ("squared", ["a"], [1.0], None, "needs numbers"),
        ("squared", [[1.0]], [1.0], None, r"shape \(n,\)"),
        ("squared", [1.0], [np.nan], None, "NaN"),
        ("squared", [1.0], [np.inf], None, "infinite"),
        ("squared", [1e100], [0.0], None, "losses of up to 1e\\+200 .*labels, .* up to 1e\\+100"),
        ("squared", [1e200], [0.0], None, "infinite losses .*labels, .* up to 1e\\+200"),
        ("squared", [1.0, 2.0], [[1.0, 2.0], [1.0, 2.0]], None, "one prediction per row"),
        ("zero_one", ["a"], [1], None, "text but the predictions numbers"),
        ("log_loss", [0], [[0.5, 0.5]], None, "classes= is needed"),
        ("log_loss", [2], [[0.5, 0.5]], [0, 1], r"\['2'\] occur.*never seen"),
        ("log_loss", ["c"], [[0.5, 0.5]], ["a", "b"], "never seen"),
        ("log_loss", ["c"], [[0.5, 0.5]], [0, 1], "text and numbers"),
        ("squared", [1.0, 2.0], [1.0], None, "one prediction per row"),
        ("squared", [1.0], ["a"], None, "needs numbers"),
        ("log_loss", [0], [[0.5, 0.2]], [0, 1], "add up to 1"),
        ("log_loss", [0], [[0.5, 0.3, 0.2]], [0, 1], "do not fit 2 classes"),
        ("log_loss", [0], [[np.nan, 0.5]], [0, 1], "NaN"),
        ("brier", [5], [[0.5, 0.5]], [0, 1], "never seen"),
    ],
)
def test_bad_input_gets_a_clear_error(name, y, p, classes, message):
    with pytest.raises(ProblemError, match=message):
        loss_named(name)(y, p, classes)


def test_unknown_names():
    with pytest.raises(ProblemError, match="no loss 'mze'"):
        loss_named("mze")
    with pytest.raises(ProblemError, match="quantile"):
        pinball(1.5)


@pytest.mark.parametrize("name", [name for name in metrics.get_scorer_names() if "neg_" in name])
def test_names_of_scikit_learn(name):
    """Scorers that are means of one of our losses are known by their names."""
    ours = {
        "neg_log_loss": "log_loss",
        "neg_brier_score": "brier",
        "neg_mean_squared_error": "squared",
        "neg_root_mean_squared_error": "squared",
        "neg_mean_absolute_error": "absolute",
    }
    if name in ours:
        assert loss_named(name) is loss_named(ours[name])
    else:
        with pytest.raises(SettingsError):
            loss_named(name)
