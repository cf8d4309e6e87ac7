"""ShiftSearch from end to end: results, choices, storage, failures, bad input."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from reproduction.toy import toy_problem
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from shiftune import ShiftProblem
from shiftune.errors import OverlapWarning, ProblemError, SearchWarning, SettingsError
from shiftune.models import spaces
from shiftune.risk import estimate
from shiftune.search import GPLCBSampler, ShiftSearch

ALPHA = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
TWO_WORKERS = {"n_jobs": 2}
# With a time limit, so long that it only decides where trials run: never in this process.
TWO_PROCESSES = {"n_jobs": 2, "trial_timeout": 1e6}


class Constant(RegressorMixin, BaseEstimator):
    """The toy problem's model: predicts theta, whatever x is."""

    def __init__(self, theta=0.0):
        self.theta = theta

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), self.theta)


class Moody(RegressorMixin, BaseEstimator):
    """Fails in one way or another, by its parameter."""

    def __init__(self, mood="fine"):
        self.mood = mood

    def fit(self, X, y):
        if self.mood == "raises":
            raise RuntimeError("no convergence today")
        return self

    def predict(self, X):
        return np.full(len(X), np.nan if self.mood == "nan" else 0.0)


THETA = {"theta": FloatDistribution(-8, 8)}
MOODS = {"mood": CategoricalDistribution(["raises", "nan", "fine"])}


@pytest.fixture(scope="module")
def toy():
    return toy_problem(1.0, n=300, random_state=1)


def make(estimator=None, space=None, **options):
    settings = {"n_trials": 6, "ratio": "ulsif", "sampler": "random"} | options
    return ShiftSearch(
        Constant() if estimator is None else estimator,
        THETA if space is None else space,
        **settings,
    )


def params_of(search):
    return search.trials_.filter(like="param_").to_numpy()


@pytest.fixture(scope="module")
def far_away():
    """A problem without a source that overlaps with the target."""
    rng = np.random.default_rng(0)
    sites = [(rng.normal(50, 1, (60, 1)), rng.normal(size=60)) for _ in range(2)]
    return ShiftProblem.from_sites(sites, rng.normal(size=(50, 1)))


class TestResults:
    def test_every_trial_is_the_estimate_of_its_model(self, toy):
        """The search's figures are those of doing each step by hand."""
        search = make(loss="half_squared", risk="variance_reduced").fit(toy.problem)
        split = toy.problem.split(random_state=0)
        for _, row in search.trials_.iterrows():
            losses = [toy.losses(row["param_theta"], s.y) for s in split.validation]
            by_hand = estimate(losses, search.result_.context.data.weights, names=toy.problem.names)
            assert row["risk"] == pytest.approx(by_hand.value)
            assert row["stderr"] == pytest.approx(by_hand.stderr)
            assert row["risk_1"] == pytest.approx(by_hand.estimates[0])

    def test_best(self, toy):
        search = make(loss="half_squared", n_trials=20, final="best").fit(toy.problem)
        assert search.best_index_ == search.trials_["criterion"].idxmin()
        assert search.best_params_["theta"] == search.trials_["param_theta"][search.best_index_]
        assert search.best_estimator_.theta == search.best_params_["theta"]
        assert (search.predict(toy.problem.target.X) == search.best_params_["theta"]).all()
        assert search.trials_["tied_with_best"][search.best_index_]
        assert len(search.study_.trials) == 20

    def test_gp_lcb_finds_the_minimum_of_the_estimate(self, toy):
        search = make(
            loss="half_squared", risk="variance_reduced", sampler="gp_lcb", n_trials=20
        ).fit(toy.problem)
        split = toy.problem.split(random_state=0)
        grid = np.linspace(-8, 8, 1601)
        risks = [
            estimate(
                [toy.losses(t, s.y) for s in split.validation], search.result_.context.data.weights
            ).value
            for t in grid
        ]
        assert search.risk_.value < min(risks) + 0.01
        assert toy.true_risk(search.best_params_["theta"]) < toy.true_risk(toy.best_theta) + 0.15

    def test_arrays_and_problem_are_the_same(self, toy):
        sites = toy.problem.sources
        X, y = np.vstack([s.X for s in sites]), np.concatenate([s.y for s in sites])
        groups = np.repeat(toy.problem.names, [len(s) for s in sites])
        one = make().fit(toy.problem)
        two = make().fit(X, y, groups=groups, X_target=toy.problem.target.X)
        pd.testing.assert_frame_equal(
            one.trials_.drop(columns="seconds"), two.trials_.drop(columns="seconds")
        )

    def test_refit_on_all_source_rows(self, toy):
        search = make(Ridge(), ALPHA).fit(toy.problem)
        X = np.vstack([s.X for s in toy.problem.sources])
        y = np.concatenate([s.y for s in toy.problem.sources])
        by_hand = Ridge(**search.best_params_).fit(X, y)
        np.testing.assert_allclose(search.best_estimator_.coef_, by_hand.coef_)

    @pytest.mark.parametrize("risk", ["naive", "unbiased", "variance_reduced", "oracle"])
    def test_every_risk(self, toy, risk):
        search = make(risk=risk, loss="half_squared").fit(toy.problem)
        assert search.risk_.method == risk
        assert (search.result_.context.data.weights is None) == (risk in ("naive", "oracle"))

    def test_own_risk(self, toy):
        def pessimist(losses, weights, names):
            return estimate(losses, weights, "unbiased", names=names, guard=False)

        assert make(risk=pessimist).fit(toy.problem).risk_.method == "unbiased"

    def test_mixed_columns_in_a_pipeline(self, hospitals):
        problem = ShiftProblem.from_frame(
            hospitals.drop(columns="admitted"), site="hospital", label="readmitted", target="A"
        )
        pipeline = make_pipeline(
            make_column_transformer(
                (OneHotEncoder(handle_unknown="ignore"), ["ward", "drug"]),
                remainder="passthrough",
            ),
            HistGradientBoostingClassifier(max_iter=10),
        )
        space = {"histgradientboostingclassifier__max_depth": IntDistribution(1, 4)}
        search = make(pipeline, space, n_trials=3, ratio="logistic").fit(problem)
        proba = search.predict_proba(problem.target.X)
        assert proba.shape == (60, 2)
        assert list(search.classes_) == ["no", "yes"]
        assert search.result_.loss.name == "log_loss"

    def test_few_labelled_target_rows_are_one_more_source(self, toy):
        oracle = toy.problem.oracle
        problem = ShiftProblem.from_sites(
            {s.name: (s.X, s.y) for s in toy.problem.sources},
            toy.problem.target.X,
            labelled_target=(oracle.X[:40], oracle.y[:40]),
            task="regression",
        )
        search = make(risk="variance_reduced").fit(problem)
        assert list(search.risk_.names) == ["1", "2", "target"]
        np.testing.assert_array_equal(search.result_.context.data.weights[-1], 1.0)

    def test_one_warning_where_no_source_overlaps(self, far_away):
        with pytest.warns(OverlapWarning) as caught:
            search = make(risk="variance_reduced").fit(far_away)
        assert len([w for w in caught if w.category is OverlapWarning]) == 1
        assert all(search.risk_.left_out)
        assert "fell back" in search.risk_.fallback


class TestTrainingWeights:
    def test_they_reach_the_model_also_in_a_pipeline(self, toy):
        plain = make(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": ALPHA["alpha"]})
        weighted = clone(plain).set_params(training_weights="importance")
        a, b = plain.fit(toy.problem), weighted.fit(toy.problem)
        assert not np.allclose(a.best_estimator_[-1].coef_, b.best_estimator_[-1].coef_)
        ratio = b.result_.ratio.weights([s.X for s in toy.problem.sources])
        X = np.vstack([s.X for s in toy.problem.sources])
        y = np.concatenate([s.y for s in toy.problem.sources])
        w = np.concatenate(ratio) / np.concatenate(ratio).mean()
        by_hand = (
            clone(plain.estimator).set_params(**b.best_params_).fit(X, y, ridge__sample_weight=w)
        )
        np.testing.assert_allclose(b.best_estimator_[-1].coef_, by_hand[-1].coef_)

    def test_a_model_that_takes_none(self, toy):
        knn = make(KNeighborsRegressor(), spaces.knn(), training_weights="importance")
        with pytest.raises(ProblemError, match="KNeighborsRegressor takes no sample_weight"):
            knn.fit(toy.problem)


class TestRepeatable:
    @pytest.mark.parametrize("sampler", ["gp_lcb", "random", "tpe"])
    def test_same_seed_same_trials(self, toy, sampler):
        a = make(Ridge(), ALPHA, sampler=sampler, n_trials=9).fit(toy.problem)
        b = make(Ridge(), ALPHA, sampler=sampler, n_trials=9).fit(toy.problem)
        np.testing.assert_array_equal(params_of(a), params_of(b))
        np.testing.assert_array_equal(a.trials_["risk"], b.trials_["risk"])
        c = make(Ridge(), ALPHA, sampler=sampler, n_trials=9, random_state=1).fit(toy.problem)
        assert not np.array_equal(params_of(a), params_of(c))

    def test_models_that_draw_lots_are_seeded(self, toy):
        forest = RandomForestRegressor(n_estimators=5)
        a, b = (make(forest, spaces.random_forest(), n_trials=3).fit(toy.problem) for _ in range(2))
        np.testing.assert_array_equal(a.trials_["risk"], b.trials_["risk"])
        X = toy.problem.target.X
        np.testing.assert_array_equal(a.predict(X), b.predict(X))
        assert forest.random_state is None

    @pytest.mark.slow
    def test_two_workers_twice(self, toy):
        a, b = (
            make(Ridge(), ALPHA, sampler="gp_lcb", n_trials=10, **two).fit(toy.problem)
            for two in (TWO_PROCESSES, TWO_WORKERS)
        )
        np.testing.assert_array_equal(params_of(a), params_of(b))
        np.testing.assert_array_equal(a.trials_["risk"], b.trials_["risk"])


class TestScikitLearn:
    def test_clone_and_params(self):
        search = make(Ridge(), ALPHA, n_trials=7)
        twin = clone(search)
        assert twin.get_params()["n_trials"] == 7
        assert twin.get_params()["estimator__alpha"] == 1.0
        assert twin.set_params(estimator__fit_intercept=False).estimator.fit_intercept is False

    def test_kind(self):
        assert is_classifier(make(LogisticRegression(), spaces.logistic()))
        assert is_regressor(make(Ridge(), ALPHA))

    def test_cluster_and_storage_are_not_copied(self, toy):
        lock = threading.Lock()  # like a client: can be neither copied nor pickled

        def executor():
            return lock

        storage = optuna.storages.InMemoryStorage()
        search = make(Ridge(), ALPHA, executor=executor, storage=storage)
        twin = clone(search)
        assert twin.storage is storage
        assert twin.executor is executor
        assert pickle.loads(pickle.dumps(search)).executor is None
        with pytest.raises(SettingsError, match=r"get_executor of a Dask client.*use n_jobs"):
            search.fit(toy.problem)

    def test_the_users_sampler_is_left_alone(self, toy):
        sampler = optuna.samplers.RandomSampler(seed=1)
        a, b = (make(Ridge(), ALPHA, sampler=sampler).fit(toy.problem) for _ in range(2))
        np.testing.assert_array_equal(params_of(a), params_of(b))

    def test_pickle(self, toy):
        search = make(Ridge(), ALPHA).fit(toy.problem)
        loaded = pickle.loads(pickle.dumps(search))
        X = toy.problem.target.X
        np.testing.assert_array_equal(loaded.predict(X), search.predict(X))
        assert loaded.best_params_ == search.best_params_

    def test_the_estimator_is_left_alone(self, toy):
        model = Ridge(alpha=5.0)
        make(model, ALPHA).fit(toy.problem)
        assert model.alpha == 5.0
        assert not hasattr(model, "coef_")

    def test_no_probabilities_where_the_model_has_none(self):
        assert not hasattr(make(Ridge(), ALPHA), "predict_proba")
        assert hasattr(make(LogisticRegression(), spaces.logistic()), "predict_proba")

    def test_not_fitted(self):
        with pytest.raises(ProblemError, match="not been fitted"):
            make(Ridge(), ALPHA).predict(np.zeros((2, 1)))

    @pytest.mark.parametrize("name", ["members_", "predictor_", "risk_", "trials_", "study_"])
    def test_results_before_the_fit(self, name):
        search = make(Ridge(), ALPHA)
        with pytest.raises(NotFittedError, match=r"has not been fitted; call fit first"):
            getattr(search, name)
        assert not hasattr(search, name)
        assert not hasattr(pickle.loads(pickle.dumps(search)), name)

    def test_names_that_do_not_exist(self, toy):
        search = make(Ridge(), ALPHA, n_trials=1)
        for name in ("member", "_members_"):
            with pytest.raises(AttributeError, match=f"no attribute '{name}'") as raised:
                getattr(search, name)
            assert not isinstance(raised.value, NotFittedError)
        with pytest.raises(
            AttributeError, match="'ShiftSearch' object has no attribute 'membres_'"
        ):
            search.fit(toy.problem).membres_  # noqa: B018


class TestWinner:
    def test_ties(self, toy):
        """Constants near the best one cannot be told apart from it, those far away can."""
        search = make(n_trials=60, loss="half_squared").fit(toy.problem)
        tied = search.trials_["tied_with_best"]
        away = (search.trials_["param_theta"] - search.best_params_["theta"]).abs()
        assert 1 < tied.sum() < 30
        assert away[tied].max() < 2 < away[~tied].max()
        assert (away[~tied] > 0.05).all()


class Picky(Constant):
    """Takes a tuple and nothing else."""

    def __init__(self, shape=(1, 1)):
        self.shape = shape

    def fit(self, X, y):
        if not isinstance(self.shape, tuple):
            raise TypeError("shape must be a tuple")
        return self

    def predict(self, X):
        return np.zeros(len(X))


class TestFailures:
    def test_a_model_that_exits(self, toy):
        class Exits(Constant):
            def fit(self, X, y):
                if self.theta < 0:
                    sys.exit(3)
                return self

        search = make(Exits(), n_trials=10).fit(toy.problem)
        assert (search.trials_["state"] == "FAIL").sum() == (
            search.trials_["param_theta"] < 0
        ).sum()
        assert search.trials_["failure"].str.contains("SystemExit").any()

    def test_a_space_that_rejects_a_combination(self, toy):
        def space(trial):
            alpha = trial.suggest_float("alpha", 0.1, 10)
            if alpha > 5:
                raise optuna.TrialPruned("too stiff")
            return {"alpha": alpha}

        search = make(Ridge(), space, n_trials=12).fit(toy.problem)
        rejected = search.trials_[search.trials_["param_alpha"] > 5]
        assert 0 < len(rejected) < 12
        assert rejected["failure"].str.contains("too stiff").all()

    @pytest.mark.parametrize("sampler", ["grid", "brute force"])
    def test_samplers_that_come_to_an_end(self, toy, sampler):
        space = {"alpha": CategoricalDistribution([0.1, 1.0, 10.0])}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            samplers = {
                "grid": optuna.samplers.GridSampler({"alpha": [0.1, 1.0, 10.0]}),
                "brute force": optuna.samplers.BruteForceSampler(),
            }
        search = make(Ridge(), space, sampler=samplers[sampler], n_trials=9).fit(toy.problem)
        assert sorted(set(search.trials_["param_alpha"])) == [0.1, 1.0, 10.0]
        assert len(search.trials_) < 9

    def test_whole_numbers_with_a_regressor_are_quantities(self, rng):
        X, y = rng.normal(size=(80, 1)), rng.integers(0, 5, 80)
        search = make(Ridge(), ALPHA, n_trials=2)
        search.fit(X, y, groups=np.repeat(["a", "b"], 40), X_target=X[:30])
        assert search.problem_.task == "regression"
        problem = ShiftProblem.from_arrays(X, y, np.repeat(["a", "b"], 40), X[:30])
        with pytest.raises(ProblemError, match="Ridge is a regressor but the labels are read as"):
            make(Ridge(), ALPHA).fit(problem)

    def test_a_risk_that_is_none(self, toy):
        with pytest.raises(ProblemError, match="must return a RiskEstimate, got float"):
            make(Ridge(), ALPHA, risk=lambda losses, weights, names: 1.0).fit(toy.problem)

    def test_recorded_with_their_reason(self, toy):
        with pytest.warns(SearchWarning, match="of 30 trials failed"):
            search = make(Moody(), MOODS, n_trials=30).fit(toy.problem)
        table = search.trials_
        raised = table[table["param_mood"] == "raises"]
        assert len(raised) > 0
        assert (raised["state"] == "FAIL").all()
        assert raised["failure"].str.contains("no convergence today").all()
        blank = table[table["param_mood"] == "nan"]
        assert blank["failure"].str.contains("NaN").all()
        assert search.best_params_ == {"mood": "fine"}

    def test_all_fail(self, toy):
        space = {"mood": CategoricalDistribution(["raises"])}
        with pytest.raises(ProblemError, match=r"all 3 trials failed(.|\n)*no convergence today"):
            make(Moody("raises"), space, n_trials=3).fit(toy.problem)


BAD = {
    "unknown parameter": (
        {"estimator": Ridge(), "space": {"alfa": ALPHA["alpha"]}},
        "alfa.*alpha",
    ),
    "no distribution": ({"estimator": Ridge(), "space": {"alpha": 3}}, "alpha"),
    "empty space": ({"estimator": Ridge(), "space": {}}, "space"),
    "define-by-run names": (
        {"estimator": Ridge(), "space": lambda t: {"alfa": t.suggest_float("alfa", 0, 1)}},
        "alfa.*alpha",
    ),
    "loss of classes": ({"estimator": Ridge(), "loss": "log_loss"}, "'log_loss' is for classes"),
    "no trials": ({"n_trials": 0}, "n_trials must be a whole number > 0, got 0"),
    "half a trial": ({"n_trials": 1.5}, "n_trials"),
    "no jobs": ({"n_jobs": 0}, "n_jobs"),
    "some jobs": ({"n_jobs": 1.5}, "n_jobs must be"),
    "jobs and executor": ({"n_jobs": 2, "executor": lambda: None}, "executor or n_jobs, not both"),
    "no executor": ({"executor": 3}, "get_executor of a Dask client.*use n_jobs"),
    "negative seed": ({"random_state": -1}, "random_state must be"),
    "no seed": ({"random_state": None}, "random_state must be"),
    "time as text": ({"timeout": "5"}, "timeout must be > 0"),
    "no rows for the ratio": (
        {"shares": (0, 0.7, 0.3), "risk": "variance_reduced"},
        "leaves no rows",
    ),
    "storage of no kind": ({"storage": 5}, "storage is a path"),
    "unknown url": ({"storage": "foo://bar"}, "cannot be opened"),
    "no time": ({"timeout": 0}, "timeout must be > 0"),
    "folder as storage": ({"storage": "."}, "is a folder"),
    "unwritable storage": ({"storage": "/proc/nowhere/study.journal"}, "cannot be written"),
    "several objectives": ({"sampler": optuna.samplers.NSGAIISampler()}, "several objectives"),
    "unknown sampler": ({"sampler": "annealing"}, "no sampler 'annealing'"),
    "unknown risk": ({"risk": "best"}, "no risk estimator 'best'"),
    "unknown loss": ({"loss": "mze"}, "no loss 'mze'"),
    "unknown ratio": ({"ratio": "kliep"}, "no density ratio 'kliep'"),
    "unknown weighting": ({"training_weights": "some"}, "training_weights must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_any_model_is_trained(toy, case, monkeypatch):
    options, message = BAD[case]
    monkeypatch.setattr(Ridge, "fit", lambda *_: pytest.fail("a model was trained"))
    with pytest.raises((ProblemError, ValueError), match=message):
        make(**({"estimator": Ridge(), "space": ALPHA} | options)).fit(toy.problem)


def test_fit_needs_a_target(toy):
    with pytest.raises(ProblemError, match="X_target="):
        make().fit(np.zeros((4, 1)), np.zeros(4))
    with pytest.raises(ProblemError, match="part of it"):
        make().fit(toy.problem, np.zeros(4))


def test_a_classifier_without_probabilities_can_have_another_loss(hospitals):
    df = hospitals[["hospital", "smoker", "readmitted"]].assign(age=hospitals["age"].fillna(50))
    problem = ShiftProblem.from_frame(df, site="hospital", label="readmitted", target="A")
    space = {"C": FloatDistribution(0.1, 10, log=True)}
    with pytest.raises(ProblemError, match="'brier' needs predict_proba, which LinearSVC"):
        make(LinearSVC(), space, loss="brier").fit(problem)
    search = make(LinearSVC(), space, loss="zero_one", n_trials=3, ratio="logistic").fit(problem)
    assert set(search.predict(problem.target.X)) <= {"no", "yes"}


def test_define_by_run(toy):
    def space(trial):
        if trial.suggest_categorical("flat", [True, False]):
            return {"alpha": 1000.0}
        return {"alpha": trial.suggest_float("strength", 0.1, 10, log=True)}

    search = make(Ridge(), space, n_trials=10, sampler="gp_lcb").fit(toy.problem)
    given, flat, strength = 1.0, 1000.0, search.best_params_.get("strength")
    assert search.best_estimator_.alpha in (given, flat, strength)


class TestStorage:
    def test_a_finished_study_is_only_read(self, toy, tmp_path, monkeypatch):
        path = tmp_path / "study.journal"
        first = make(Ridge(), ALPHA, storage=path, n_trials=8).fit(toy.problem)
        calls = []
        original = Ridge.fit
        monkeypatch.setattr(Ridge, "fit", lambda *a, **k: calls.append(1) or original(*a, **k))
        again = make(Ridge(), ALPHA, storage=path, n_trials=8).fit(toy.problem)
        assert len(calls) == len(again.members_)  # the refit
        pd.testing.assert_frame_equal(first.trials_, again.trials_)
        assert again.risk_.value == first.risk_.value

    @pytest.mark.parametrize("sampler", ["gp_lcb", "random", GPLCBSampler(seed=3)])
    def test_continued_is_the_same_as_uninterrupted(self, toy, tmp_path, sampler):
        path = tmp_path / "study.journal"
        make(Ridge(), ALPHA, storage=path, n_trials=7, sampler=sampler).fit(toy.problem)
        continued = make(Ridge(), ALPHA, storage=path, n_trials=12, sampler=sampler).fit(
            toy.problem
        )
        whole = make(Ridge(), ALPHA, n_trials=12, sampler=sampler).fit(toy.problem)
        np.testing.assert_array_equal(params_of(continued), params_of(whole))
        np.testing.assert_array_equal(continued.trials_["risk"], whole.trials_["risk"])
        pd.testing.assert_series_equal(
            continued.trials_["tied_with_best"], whole.trials_["tied_with_best"]
        )

    def test_tpe_does_not_repeat_itself(self, toy, tmp_path):
        path = tmp_path / "study.journal"
        make(Ridge(), ALPHA, storage=path, n_trials=4, sampler="tpe").fit(toy.problem)
        search = make(Ridge(), ALPHA, storage=path, n_trials=8, sampler="tpe").fit(toy.problem)
        assert len(np.unique(params_of(search))) == 8

    def test_choices_that_no_storage_can_keep(self, toy, tmp_path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns of choices that are no plain values
            space = {"shape": CategoricalDistribution([(2, 3), (4, 5)])}
            with pytest.raises(ProblemError, match="'shape' are of type tuple"):
                make(Picky(), space, storage=tmp_path / "s.journal").fit(toy.problem)
            assert make(Picky(), space, n_trials=3).fit(toy.problem).best_params_["shape"]

        def named(trial):
            shapes = {"flat": (2, 3), "deep": (4, 5)}
            return {"shape": shapes[trial.suggest_categorical("shape", ["flat", "deep"])]}

        search = make(Picky(), named, storage=tmp_path / "s.journal", n_trials=3).fit(toy.problem)
        assert isinstance(search.best_estimator_.shape, tuple)

    @pytest.mark.parametrize("cut", [1, 25, 400])
    def test_a_torn_last_record_is_dropped(self, toy, tmp_path, cut):
        path = tmp_path / "study.journal"
        whole = make(Ridge(), ALPHA, storage=path, n_trials=6).fit(toy.problem)
        path.write_bytes(path.read_bytes()[:-cut])
        again = make(Ridge(), ALPHA, storage=path, n_trials=6).fit(toy.problem)
        np.testing.assert_allclose(params_of(again), params_of(whole))

    @pytest.mark.parametrize("content", ["a,b\n1,2\n", '{"x": 1}\n'])
    def test_a_file_that_is_no_journal(self, toy, tmp_path, content):
        path = tmp_path / "mine.csv"
        path.write_text(content)
        with pytest.raises(ProblemError, match="cannot be opened as a journal"):
            make(Ridge(), ALPHA, storage=path).fit(toy.problem)
        assert path.read_text() == content

    def test_a_mistake_can_be_corrected_in_the_same_storage(self, toy, tmp_path):
        path = tmp_path / "study.journal"
        with pytest.raises(ProblemError, match="add up to 1"):
            make(Ridge(), ALPHA, storage=path, risk="naive", shares=(0.5, 0.5, 0.5)).fit(
                toy.problem
            )
        assert len(make(Ridge(), ALPHA, storage=path).fit(toy.problem).trials_) == 6

    @pytest.mark.parametrize(
        ("one", "other", "what"),
        [
            ({"loss": lambda y, p: np.abs(y - p)}, {"loss": lambda y, p: (y - p) ** 4}, "loss"),
            ({"space": ALPHA}, {"space": {"alpha": FloatDistribution(1, 2)}}, "space"),
            ({"estimator": Ridge()}, {"estimator": Ridge(fit_intercept=False)}, "estimator"),
            ({"risk": "naive"}, {"risk": "unbiased"}, "risk"),
        ],
    )
    def test_other_settings_are_refused(self, toy, tmp_path, one, other, what):
        path = tmp_path / "study.journal"
        base = {"estimator": Ridge(), "space": ALPHA, "storage": path}
        make(**(base | one)).fit(toy.problem)
        make(**(base | one)).fit(toy.problem)
        with pytest.raises(ProblemError, match=f"other.*{what}"):
            make(**(base | other)).fit(toy.problem)

    def test_other_data_is_refused(self, toy, tmp_path):
        path = tmp_path / "study.journal"
        make(Ridge(), ALPHA, storage=path).fit(toy.problem)
        with pytest.raises(ProblemError, match=r"results of other settings \(other data\)"):
            make(Ridge(), ALPHA, storage=path).fit(toy_problem(1.0, n=300, random_state=2).problem)
        with pytest.raises(ProblemError, match=r"other loss\)"):
            make(Ridge(), ALPHA, storage=path, loss="absolute").fit(toy.problem)

    def test_any_optuna_storage(self, toy, tmp_path):
        url = f"sqlite:///{tmp_path / 'study.db'}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = make(Ridge(), ALPHA, storage=url, n_trials=3).fit(toy.problem)
            again = make(Ridge(), ALPHA, storage=url, n_trials=3).fit(toy.problem)
        assert again.risk_.value == search.risk_.value


DRIVER = textwrap.dedent(
    """
    import os, sys, threading, time
    from pathlib import Path
    from optuna.distributions import FloatDistribution
    from sklearn.linear_model import Ridge
    from reproduction.toy import toy_problem
    from shiftune.search import ShiftSearch

    class Slow(Ridge):
        # Only six models are trained before there is a file "open" in the folder GATE.
        def fit(self, *args, **options):
            gate = Path(os.environ["GATE"])
            begun = sum(1 for _ in gate.glob("fit-*"))
            (gate / f"fit-{begun}-{os.getpid()}").touch()
            while begun >= 6 and not (gate / "open").exists():
                time.sleep(0.01)
            return super().fit(*args, **options)

    def end_with(parent):
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if __name__ == "__main__":
        threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
        search = ShiftSearch(
            Slow(), {"alpha": FloatDistribution(1e-3, 1e3, log=True)}, n_trials=9,
            risk="variance_reduced", ratio="ulsif", storage=sys.argv[1], n_jobs=int(sys.argv[2]),
            trial_timeout=None if sys.argv[2] == "1" else 1e6, progress=False,
        )
        search.fit(toy_problem(1.0, n=300, random_state=1).problem)
        print(search.trials_.to_json())
    """
)


class TestKilled:
    """A real driver in a process of its own, killed in the middle."""

    def start(self, tmp_path, jobs):
        script = tmp_path / "driver.py"
        script.write_text(DRIVER)
        journal = tmp_path / f"study-{jobs}.journal"
        command = [sys.executable, str(script), str(journal), str(jobs)]
        return command, journal

    def finished(self, journal):
        return journal.read_text().count("datetime_complete") if journal.exists() else 0

    @pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
    def test_sigkill_and_resume(self, toy, tmp_path, jobs, monkeypatch):
        command, journal = self.start(tmp_path, jobs)
        monkeypatch.setenv("GATE", str(tmp_path))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while self.finished(journal) < 5:
                assert process.poll() is None
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
        kept = self.finished(journal)
        assert 5 <= kept <= 6 + jobs
        (tmp_path / "open").touch()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        table = pd.read_json(io.StringIO(done.stdout.splitlines()[0]))
        assert len(table) == 9
        assert (table["state"] == "COMPLETE").all()
        # The same trials as without the interruption.
        settings = {"risk": "variance_reduced", "sampler": "gp_lcb", "n_trials": 9}
        two = TWO_WORKERS if jobs == 2 else {}
        whole = make(Ridge(), ALPHA, **settings, **two).fit(toy.problem)
        np.testing.assert_allclose(table["param_alpha"], whole.trials_["param_alpha"])


class TestProgress:
    def test_quiet_when_nobody_watches(self, toy, capfd):
        make(Ridge(), ALPHA).fit(toy.problem)
        out, err = capfd.readouterr()
        assert out == ""
        assert "trial" not in err

    def test_bar(self, toy, capfd):
        make(Moody(), MOODS, n_trials=12, progress=True).fit(toy.problem)
        err = capfd.readouterr().err
        assert "12/12" in err
        assert "best" in err
        assert "failed" in err


class Sleepy(RegressorMixin, BaseEstimator):
    """Trains for ever, or not at all."""

    def __init__(self, sleeps=False):
        self.sleeps = sleeps

    def fit(self, X, y):
        while self.sleeps:
            time.sleep(1.0)
        return self

    def predict(self, X):
        return np.zeros(len(X))


class Mortal(Constant):
    """Kills the process it is trained in, once, if its theta is the one in a file."""

    def __init__(self, death="", theta=0.0):
        super().__init__(theta)
        self.death = death

    def fit(self, X, y):
        death = Path(self.death)
        if death.exists() and death.read_text() == repr(float(self.theta)):
            death.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self


@pytest.mark.xdist_group("search")
class TestWorkers:
    @pytest.mark.slow
    def test_a_trial_that_takes_too_long_is_recorded_as_failed(self, toy):
        def space(trial):
            return {"sleeps": trial.number == 1}

        search = make(Sleepy(), space, risk="variance_reduced", n_trials=2, trial_timeout=5.0)
        with pytest.warns(
            SearchWarning,
            match=r"1 of 2 trials failed \(the first: OutOfTime.*give trials more time",
        ):
            search.fit(toy.problem)
        other, slow = search.trials_.to_dict("records")
        assert "longer than" in slow["failure"]
        assert other["state"] == "COMPLETE"

    @pytest.mark.slow
    def test_a_killed_worker_costs_nothing_but_time(self, toy, tmp_path):
        """A worker of the pool is killed in the middle; the trials are the same as ever."""
        death = tmp_path / "death"
        settings = {"risk": "variance_reduced", "n_trials": 8, "sampler": "gp_lcb"}
        alone = make(Mortal(str(death)), **settings, **TWO_WORKERS).fit(toy.problem)
        death.write_text(repr(float(params_of(alone)[4, 0])))
        search = make(Mortal(str(death)), **settings, **TWO_PROCESSES).fit(toy.problem)
        assert not death.exists()
        np.testing.assert_array_equal(params_of(search), params_of(alone))
        assert (search.trials_["state"] == "COMPLETE").all()

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.filterwarnings("ignore::ResourceWarning")
    def test_on_a_dask_cluster_with_a_worker_killed(self, toy, tmp_path):
        distributed = pytest.importorskip("distributed")
        death = tmp_path / "death"
        settings = {"risk": "variance_reduced", "n_trials": 8}
        alone = make(Mortal(str(death)), **settings).fit(toy.problem)
        death.write_text(repr(float(params_of(alone)[4, 0])))
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            search = make(Mortal(str(death)), **settings, executor=client.get_executor)
            search.fit(toy.problem)
        assert not death.exists()
        np.testing.assert_array_equal(params_of(search), params_of(alone))
        assert (search.trials_["state"] == "COMPLETE").all()


def test_timeout_ends_the_search(toy, monkeypatch):
    """The clock is read once, then before every trial, and is a second later each time."""
    clock = SimpleNamespace(monotonic=map(float, itertools.count()).__next__)
    monkeypatch.setattr("shiftune.search._loop.time", clock)
    search = make(Ridge(), ALPHA, n_trials=1_000_000, timeout=6.0).fit(toy.problem)
    assert len(search.trials_) == 5
