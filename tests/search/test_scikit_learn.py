"""A search as users of scikit-learn know searches: scores, cv_results_, names of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution
from sklearn.linear_model import LogisticRegression

from shiftune import ShiftProblem
from shiftune.errors import DataError
from shiftune.search import ShiftSearch

COLUMNS = ["age", "dose"]


def rows(n, seed):
    """Rows whose two columns have opposite effects, so that an exchange would show."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=COLUMNS)
    noise = rng.normal(size=n)
    return X, np.where(X["age"] - X["dose"] + noise > 0, "yes", "no")


@pytest.fixture(scope="module")
def search():
    sources = {name: rows(40, seed) for seed, name in enumerate("BCD")}
    problem = ShiftProblem.from_sites(sources, rows(30, 9)[0])
    space = {"C": CategoricalDistribution([0.01, 1.0, -1.0])}  # the last one fails
    return ShiftSearch(LogisticRegression(), space, n_trials=6, sampler="random").fit(problem)


class TestScores:
    def test_best_score_is_the_negated_risk_of_what_is_handed_over(self, search):
        assert search.best_score_ == -search.risk_.value

    def test_score_is_the_negated_mean_loss(self, search):
        X, y = rows(50, 20)
        P = search.predict_proba(X)
        own = P[np.arange(50), np.searchsorted(search.classes_, y)]
        assert search.score(X, y) == pytest.approx(np.log(own).mean())

    def test_cv_results(self, search):
        found = search.cv_results_
        trials = search.trials_
        failed = (trials["state"] == "FAIL").to_numpy()
        assert failed.any()
        np.testing.assert_array_equal(found["mean_test_score"], -trials["criterion"])
        np.testing.assert_array_equal(found["std_test_score"], trials["stderr"])
        np.testing.assert_array_equal(found["split1_test_score"], -trials["risk_C"])
        assert np.isnan(found["mean_test_score"]).tolist() == failed.tolist()
        assert found["params"][search.best_index_] == search.best_params_
        assert found["rank_test_score"][search.best_index_] == 1
        assert found["rank_test_score"][failed].min() > found["rank_test_score"][~failed].max()
        assert list(found["param_C"]) == [params["C"] for params in found["params"]]
        assert len(pd.DataFrame(found)) == len(trials)

    def test_of_several_families(self, search):
        several = ShiftSearch(["linear", "kernel"], n_trials=4).fit(search.problem_)
        found = several.cv_results_
        assert found["rank_test_score"][several.best_index_] == 1
        assert found["params"][several.best_index_] == several.best_params_
        # Parameters of another family are masked.
        assert found["param_linear.alpha"].mask.any()


class TestColumns:
    def test_names(self, search):
        assert search.n_features_in_ == 2
        assert search.feature_names_in_.tolist() == COLUMNS
        assert search.feature_names_in_.dtype == object

    def test_no_names_of_arrays(self, search):
        X, y = rows(40, 1)
        problem = ShiftProblem.from_sites([(X.to_numpy(), y)] * 2, X.to_numpy())
        other = ShiftSearch("linear", n_trials=1).fit(problem)
        assert other.n_features_in_ == 2
        assert not hasattr(other, "feature_names_in_")

    def test_in_another_order_with_others_beside_them(self, search):
        X, y = rows(20, 3)
        odd = X[["dose", "age"]].assign(ward="icu")
        expected = search.predict_proba(X)
        np.testing.assert_array_equal(search.predict_proba(odd), expected)
        np.testing.assert_array_equal(search.predict(odd), search.predict(X))
        np.testing.assert_array_equal(search.predict_proba(X.to_numpy()), expected)
        assert search.score(odd, y) == search.score(X, y)

    def test_a_missing_one_is_named(self, search):
        with pytest.raises(
            DataError, match="lack 1 column that the model reads: 'dose'; is it 'Dose'"
        ):
            search.predict(rows(5, 3)[0].rename(columns={"dose": "Dose"}))

    def test_an_array_with_too_many(self, search):
        with pytest.raises(DataError, match="3 columns, but the model was trained with 2"):
            search.predict(np.zeros((4, 3)))

    def test_of_an_updated_predictor(self, search):
        X, y = rows(20, 3)
        updated = search.update(X, y)
        odd = X[["dose", "age"]].assign(ward="icu")
        np.testing.assert_array_equal(updated.predict_proba(odd), updated.predict_proba(X))
        np.testing.assert_array_equal(updated.predict(odd), updated.predict(X))


class Numbers(LogisticRegression):
    """Accepts the classes 0, 1, ... only, as XGBoost does."""

    __module__ = "xgboost.sklearn"

    def fit(self, X, y, sample_weight=None):
        if sorted(set(y)) != list(range(len(set(y)))):
            raise ValueError("expected [0 1]")
        return super().fit(X, y)


def test_classes_of_xgboost(search):
    found = ShiftSearch(Numbers(), {"C": [1.0]}, n_trials=1).fit(search.problem_)
    assert found.best_params_ == {"C": 1.0}
    assert set(found.predict(rows(20, 3)[0])) == {"no", "yes"}


class Narrow(ShiftSearch):
    """A search with a constructor of its own."""

    def __init__(self, largest=1.0):
        self.largest = largest
        space = {"C": (0.01, largest)}
        super().__init__(LogisticRegression(), space, n_trials=1, progress=False)


@dataclass(eq=False, repr=False)
class Tagged(ShiftSearch):
    """A search with one more parameter."""

    tag: str = ""


def test_subclasses(search):
    assert Narrow(largest=0.5).fit(search.problem_).best_params_["C"] == 1.0  # the model as given
    space = {"C": (0.01, 1.0)}
    tagged = Tagged(LogisticRegression(), space, n_trials=1, progress=False, tag="mine")
    assert tagged.fit(search.problem_).risk_.value == Narrow().fit(search.problem_).risk_.value
