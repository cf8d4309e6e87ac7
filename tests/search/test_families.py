"""Several model families in one search: names, spaces, defaults, budget, resuming."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import ProblemError, SearchWarning
from shiftune.evaluate._losses import LOSSES
from shiftune.models import _by_name, ready_model, spaces
from shiftune.search import GPLCBSampler
from shiftune.search._families import (
    EVERY,
    FIRST_TRIALS,
    FLOOR,
    FamilyWeights,
    first_trials,
    next_family,
    resolve,
)
from shiftune.search._loop import Loop
from shiftune.search._storage import open_study

ALPHA = {"alpha": FloatDistribution(0.1, 100.0, log=True)}
NEIGHBOURS = {"n_neighbors": IntDistribution(2, 20)}
PAIRS = {"ridge": (Ridge(), ALPHA), "near": (KNeighborsRegressor(), NEIGHBOURS)}
NAMES = ["linear", "kernel"]
FIRST = 3


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(240, 3))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=240)
    return ShiftProblem.from_arrays(X, y, np.repeat(list("BCDE"), 60), rng.normal(size=(50, 3)))


@pytest.fixture(scope="module")
def visits():
    """Numbers with gaps, categories, dates; classes as text."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(
        {
            "site": np.repeat(list("ABCDE"), 40),
            "age": np.where(rng.random(200) < 0.1, np.nan, rng.normal(50, 10, 200)),
            "sex": rng.choice(["f", "m", None], 200),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, 200), "D"),
        }
    )
    frame["ill"] = np.where(frame["age"].fillna(50) + rng.normal(0, 9, 200) > 50, "yes", "no")
    options = {"site": "site", "label": "ill", "target": "A", "target_labels": "oracle"}
    return ShiftProblem.from_frame(frame, **options)


def make(model, space=None, **options):
    return ShiftSearch(model, space, **{"n_trials": 6, "progress": False} | options)


def drawn(search):
    return search.trials_.filter(regex="^(model|risk|param_.*)$")


class TestBudget:
    def test_all_families_begin_in_turn(self):
        proposed = dict.fromkeys("abc", 0)
        order = []
        for _ in range(3 * FIRST_TRIALS):
            order.append(next_family(proposed, lambda: pytest.fail("too early")))
            proposed[order[-1]] += 1
        assert "".join(order) == "abc" * FIRST_TRIALS

    def test_numbers_tend_to_the_weights(self):
        weights = {"a": 0.7, "b": 0.3, "c": 0.0}
        proposed = dict.fromkeys("abc", FIRST_TRIALS)
        for _ in range(400):
            proposed[next_family(proposed, lambda: weights)] += 1
        assert proposed["c"] == FIRST_TRIALS
        share = (0.7 + FLOOR) / (1 + 2 * FLOOR)
        assert proposed["a"] / (proposed["a"] + proposed["b"]) == pytest.approx(share, abs=0.01)

    def test_a_family_that_costs_more_than_its_share_has_fewer_first_trials(self):
        seconds = {"a": [1.0], "b": [20.0, 10.0], "c": [69.0, 51.0]}
        share = (240.0 - 90.0) / 3
        expected = {"a": FIRST_TRIALS, "b": 1 + int(share / 15), "c": 1}
        assert first_trials(seconds, 240.0) == expected
        assert first_trials(seconds) == dict.fromkeys("abc", FIRST_TRIALS)
        assert first_trials(seconds, 1e9) == dict.fromkeys("abc", FIRST_TRIALS)
        assert first_trials(seconds, 1.0) == dict.fromkeys("abc", 1)
        proposed = dict.fromkeys("abc", 1)
        for _ in range(10):
            proposed[next_family(proposed, lambda: pytest.fail("too early"), expected)] += 1
        assert proposed == expected

    def test_unknown_and_tiny_times(self):
        assert first_trials({"a": [], "b": [5e-324]}, 1e300) == dict.fromkeys("ab", FIRST_TRIALS)
        assert first_trials({"a": [0.0], "b": [9.0]}, 8.0) == {"a": FIRST_TRIALS, "b": 1}

    def test_without_any_weight_all_are_equal(self):
        proposed = {"a": FIRST_TRIALS + 5, "b": FIRST_TRIALS + 4}
        assert next_family(proposed, lambda: {"a": 0.0, "b": 0.0}) == "b"
        assert next_family(proposed, lambda: {"a": 1.0, "b": 0.0}) == "a"


class TestNames:
    def test_columns_of_all_kinds(self, visits):
        search = make(["logistic", "kernel", "knn"], n_trials=5).fit(visits)
        assert (search.trials_["state"] == "COMPLETE").all()
        assert search.trials_["model"].tolist()[:4] == [
            "logistic", "kernel", "knn", "logistic",
        ]  # fmt: skip
        assert search.predict_proba(visits.target.X).shape == (40, 2)
        assert is_classifier(search)

    def test_arrays_with_gaps(self, problem):
        X, y = problem.sources[0].X.copy(), problem.sources[0].labels
        X[::5, 1] = np.nan
        search = make("ridge", n_trials=2)
        search.fit(X, y, groups=np.repeat(["B", "C", "D"], 20), X_target=X)
        assert search.predict(X).shape == (60,)

    def test_dates_in_arrays_are_read_by_models_by_name(self, problem):
        X, y = problem.sources[0].X.astype(object), problem.sources[0].labels
        X[:, 1] = [pd.Timestamp("2021-01-31") + pd.Timedelta(days=9 * row) for row in range(60)]
        search = make("ridge", n_trials=2)
        search.fit(X, y, groups=np.repeat(["B", "C", "D"], 20), X_target=X)
        assert search.predict(X).shape == (60,)

    def test_parameters_have_the_bare_models_names(self, problem):
        one = make("linear", n_trials=3).fit(problem)
        assert {"param_alpha", "param_degree"} <= set(one.trials_)
        assert one.trials_["model"].unique().tolist() == ["linear"]
        two = make(NAMES).fit(problem)
        assert {"param_linear.alpha", "param_kernel.gamma"} <= set(two.trials_)
        assert two.best_model_ in NAMES
        assert set(two.best_params_) <= {"alpha", "degree", "gamma"}
        bare = two.best_estimator_[-1].get_params()
        assert {name: bare[name] for name in two.best_params_} == two.best_params_

    def test_a_space_of_ones_own(self, problem):
        """Then no trial has the defaults, which may lie outside."""
        for model in ("ridge", {"mine": ready_model("ridge", "regression", None)}):
            found = make(model, ALPHA, n_trials=3).fit(problem).trials_["param_alpha"]
            assert found.between(0.1, 100).all()

    def test_auto_and_what_is_installed(self, problem, monkeypatch):
        families = resolve("auto", None, problem)
        assert tuple(families) == _by_name.AUTO_FAMILIES
        monkeypatch.setattr(_by_name, "find_spec", lambda name: None)
        assert "hist_gradient_boosting" in resolve("auto", None, problem)
        assert list(resolve(["auto", "ridge", "linear"], None, problem))[-1] == "ridge"
        assert ShiftSearch().estimator == "auto"

    @pytest.mark.parametrize("loss", ["absolute", "mae", LOSSES["absolute"]])
    def test_absolute_errors_are_trained_for(self, problem, loss):
        pytest.importorskip("lightgbm")
        families = resolve("auto", None, problem, loss)
        assert tuple(families) == (*_by_name.AUTO_FAMILIES, "lightgbm_l1")
        assert families["lightgbm_l1"].defaults()["lightgbm_l1.objective"] == "l1"
        found = make("auto", n_trials=4, loss=loss).fit(problem).trials_
        assert found["model"].tolist() == list(families)
        classes = ShiftProblem.from_sites(
            [(s.X, s.labels > 0) for s in problem.sources], problem.target.X
        )
        assert tuple(resolve("auto", None, classes, loss)) == _by_name.AUTO_FAMILIES

    def test_names_share_their_prepared_rows(self, problem):
        search = make(NAMES, n_trials=2).fit(problem)
        assert len(set(search.result_.context.preparations.values())) == 1

    @pytest.mark.parametrize(
        ("model", "space", "words"),
        [
            ("lightgmb", None, "did you mean 'lightgbm'"),
            (["ridge", "kernel", "ridge"], None, "'ridge' is given twice"),
            ([], None, "must be a scikit-learn model"),
            (["ridge", "kernel"], ALPHA, "mapping from names"),
            ("auto", ALPHA, "'auto' searches several"),
            ("logistic", None, "for classification, not for regression"),
            (Ridge(), None, "needs a search space"),
            ("ridge", {"alhpa": ALPHA["alpha"]}, "'ridge'.*did you mean 'alpha'"),
            ({"a": Ridge()}, None, "pair"),
            ({"a.b": (Ridge(), ALPHA)}, None, "without dots"),
            ({"a": (Ridge(), {"gamma": ALPHA["alpha"]})}, None, "'a'.*not a parameter of Ridge"),
        ],
    )
    def test_mistakes_are_named(self, problem, model, space, words):
        with pytest.raises(ProblemError, match=f"(?s){words}"):
            make(model, space).fit(problem)


class TestDefaults:
    def test_they_come_first_and_nothing_is_worse(self, problem, monkeypatch):
        search = make(NAMES).fit(problem)
        first = [t.params for t in search.study_.trials[:3]]
        assert first[:2] == [
            {"linear.alpha": 10.0, "linear.degree": 2},
            {"kernel.gamma": 0.3, "kernel.alpha": 0.1},
        ]
        assert first[2].keys() == first[0].keys()
        criterion = search.trials_["criterion"]
        assert criterion[search.best_index_] <= criterion[:2].min()
        monkeypatch.setattr("shiftune.search._result.run_trial", None)  # no further fit
        assert search.default_risk().value == search.trials_["risk"][criterion[:2].idxmin()]

    def test_those_of_pairs(self, problem):
        search = make(PAIRS).fit(problem)
        first = search.study_.trials[: len(PAIRS)]
        assert all(trial.user_attrs["defaults"] for trial in first)
        best = min(search.result_.risks[trial.number].value for trial in first)
        assert search.default_risk().value == best

    def test_what_ready_model_returns(self, problem):
        ready = ready_model("ridge", "regression", None)
        search = make({"mine": ready, "ridge": PAIRS["ridge"]}).fit(problem)
        assert search.study_.trials[0].params == {"mine.alpha": 1.0}
        assert {"param_mine.alpha", "param_ridge.alpha"} <= set(search.trials_)

    def test_a_search_of_one_estimator_has_none(self, problem):
        search = make(Ridge(), ALPHA, n_trials=2).fit(problem)
        assert (search.best_model_, "model" in search.trials_) == ("", False)
        assert all(trial.params.keys() == {"alpha"} for trial in search.study_.trials)


class Refusing(RegressorMixin, BaseEstimator):
    """A model that cannot be fitted."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        raise ValueError("no")

    def predict(self, X):
        return np.zeros(len(X))


class TestTrials:
    @pytest.fixture(autouse=True)
    def few_first_trials(self, monkeypatch):
        monkeypatch.setattr("shiftune.search._families.FIRST_TRIALS", FIRST)

    def test_a_family_that_always_fails_gets_no_more(self, problem):
        search = make(PAIRS | {"no": (Refusing(), ALPHA)}, n_trials=15)
        with pytest.warns(SearchWarning, match=f"all its {FIRST} trials failed"):
            search.fit(problem)
        counts = search.trials_["model"].value_counts()
        assert counts["no"] == FIRST

    def test_a_family_that_always_fails_is_named(self, problem, tmp_path):
        search = make(PAIRS | {"no": (Refusing(), ALPHA)}, n_trials=7)
        with pytest.warns(SearchWarning) as warned:
            search.fit(problem)
        (message,) = [str(each.message) for each in warned]
        assert "'no' is not used: all its 2 trials failed (the first: ValueError: no" in message
        assert "leave it out" in message
        for text in (search.report(tmp_path / "r.html").read_text("utf-8"), search._repr_html_()):
            assert "all its 2 trials failed" in text
        with pytest.warns(SearchWarning, match="its only trial failed"):
            make(PAIRS | {"no": (Refusing(), ALPHA)}, n_trials=3).fit(problem)

    def test_families_without_a_trial_are_named(self, problem):
        words = "'kernel' and 'ridge' had no trial: 1 trial for 3 models; allow more"
        with pytest.warns(SearchWarning, match=words):
            make([*NAMES, "ridge"], n_trials=1).fit(problem)

    def test_weights_decide(self, problem, monkeypatch):
        monkeypatch.setattr(FamilyWeights, "__call__", lambda self: {"ridge": 0.0, "near": 1.0})
        counts = make(PAIRS, n_trials=10).fit(problem).trials_["model"].value_counts()
        assert counts.to_dict() == {"near": 10 - FIRST, "ridge": FIRST}

    def test_trials_go_where_the_ensemble_gains(self, problem):
        useless = (DummyRegressor(strategy="constant"), {"constant": FloatDistribution(50, 60)})
        search = make({"useless": useless, "ridge": PAIRS["ridge"]}, n_trials=16).fit(problem)
        counts = search.trials_["model"].value_counts()
        assert counts["useless"] <= FIRST + EVERY  # seen as useless after a few
        assert set(search.members_["model"]) == {"ridge"}

    def test_the_process_of_a_family_is_fitted_to_its_own_trials(self, problem, monkeypatch):
        monkeypatch.setattr(FamilyWeights, "__call__", lambda self: {"ridge": 1.0, "near": 1.0})
        sampler = GPLCBSampler(seed=0, n_startup_trials=2)
        both = make(PAIRS, n_trials=12, sampler=sampler).fit(problem)
        (place, ridge), *_ = [
            (i, trial)
            for i, trial in enumerate(both.study_.trials)
            if i >= 6 and trial.user_attrs["model"] == "ridge"
        ]
        given = sampler.for_space({"ridge.alpha": ALPHA["alpha"]})
        alone = open_study(None, {})
        alone.add_trials(both.study_.trials[:place])
        assert given.sample_relative(alone, ridge, given._space) == ridge.params

    def test_a_stopped_search_goes_on_as_if_never_stopped(self, problem, tmp_path):
        whole = make(NAMES, n_trials=12).fit(problem)
        journal = tmp_path / "journal"
        make(NAMES, n_trials=5, storage=journal).fit(problem)
        resumed = make(NAMES, n_trials=12, storage=journal).fit(problem)
        pd.testing.assert_frame_equal(drawn(whole), drawn(resumed))
        with pytest.raises(ProblemError, match="other estimator"):
            make([*NAMES, "ridge"], n_trials=12, storage=journal).fit(problem)

    def test_a_budget_is_shared_alike_where_the_storage_keeps_no_predictions(self, problem):
        whole = make(PAIRS, n_trials=16).fit(problem)
        storage = optuna.storages.InMemoryStorage()
        make(PAIRS, n_trials=11, storage=storage).fit(problem)
        resumed = make(PAIRS, n_trials=16, storage=storage).fit(problem)
        assert whole.trials_["model"].tolist() == resumed.trials_["model"].tolist()

    def test_a_trial_that_failed_when_it_was_run_again_is_not_the_best(self, problem):
        """The driver was killed between the risk and the end of the trial."""
        storage = optuna.storages.InMemoryStorage()
        first = make(PAIRS, n_trials=2, storage=storage).fit(problem)
        stopped = first.study_.ask()
        stopped.set_user_attr("model", "ridge")
        stopped.set_user_attr("risk", first.study_.trials[0].user_attrs["risk"])
        stopped.set_user_attr("failure", "OutOfTime")
        first.study_.tell(stopped, state=optuna.trial.TrialState.FAIL)
        with pytest.warns(SearchWarning, match="1 of 2 trials of the model 'ridge' failed"):
            again = make(PAIRS, n_trials=3, storage=storage).fit(problem)
        assert again.best_index_ in (0, 1)
        assert list(again.result_.risks) == [0, 1]

    @pytest.mark.filterwarnings("ignore:.*had no trial:shiftune.errors.SearchWarning")
    @pytest.mark.parametrize("asked", [False, True])
    def test_a_killed_search_goes_on_as_if_never_stopped(self, problem, tmp_path, asked):
        """The driver dies while the defaults of a family are proposed."""
        whole = make(NAMES, n_trials=4).fit(problem)
        journal = tmp_path / "journal"
        first = make(NAMES, n_trials=1, storage=journal).fit(problem)
        marks = {"defaults": True, "model": "kernel"}
        first.study_.enqueue_trial(
            first.result_.families["kernel"].first_params(), user_attrs=marks
        )
        if asked:
            first.study_.ask()
        resumed = make(NAMES, n_trials=4, storage=journal).fit(problem)
        pd.testing.assert_frame_equal(drawn(whole), drawn(resumed))

    def test_several_workers_repeat_themselves(self, problem):
        options = {"n_trials": 9, "n_jobs": 3}
        first, second = (make(NAMES, **options).fit(problem) for _ in range(2))
        pd.testing.assert_frame_equal(drawn(first), drawn(second))

    @pytest.mark.parametrize("sampler", ["random", "tpe", optuna.samplers.RandomSampler(seed=1)])
    def test_other_samplers(self, problem, sampler):
        search = make(PAIRS, n_trials=8, sampler=sampler).fit(problem)
        drawn_alphas = search.trials_["param_ridge.alpha"].dropna()
        assert len(drawn_alphas) >= FIRST
        assert drawn_alphas.is_unique

    def test_functions_as_spaces(self, problem):
        def space(trial):
            assert trial.number >= 0
            alpha = trial.suggest_float("alpha", 0.1, 10.0, log=True)
            return {"alpha": alpha, "fit_intercept": trial.suggest_categorical("fit", [True])}

        search = make({"by run": (Ridge(), space), "near": PAIRS["near"]}, n_trials=14)
        search.fit(problem)
        assert {"param_by run.alpha", "param_by run.fit", "param_near.n_neighbors"} <= set(
            search.trials_
        )
        family, (given, _, trial) = search.result_.families["by run"], search.study_.trials[:3]
        assert family.candidate(given).params == family.plain_params(given) == {}
        alpha = trial.params["by run.alpha"]
        assert family.candidate(trial).params == {"alpha": alpha, "fit_intercept": True}
        assert family.plain_params(trial) == {"alpha": alpha, "fit": True}

    def test_a_result_is_there_however_short_the_time(self, problem):
        search = make(NAMES, timeout=1e-9)
        with pytest.warns(SearchWarning, match="'kernel' had no trial"):
            search.fit(problem)
        assert search.trials_["model"].tolist() == ["linear"]
        assert search.members_["model"].tolist() == ["linear"]
        assert search.predict(problem.target.X).shape == (50,)

    @pytest.mark.parametrize("workers", [1, 2])
    def test_a_timeout_is_divided_by_the_recorded_times(
        self, problem, tmp_path, monkeypatch, workers
    ):
        """A resumed search divides it alike."""
        costs = {"ridge": 1.0, "near": workers * 4e5}

        tell = Loop._tell

        def as_recorded(loop, trial, outcome):
            tell(loop, trial, replace(outcome, seconds=costs[trial.user_attrs["model"]]))

        monkeypatch.setattr(Loop, "_tell", as_recorded)
        monkeypatch.setattr(FamilyWeights, "__call__", lambda self: {"ridge": 1.0, "near": 0.0})
        journal = tmp_path / "journal"
        options = {"timeout": 1e6, "n_trials": 9, "sampler": "random"}
        if workers > 1:
            options["n_jobs"] = workers
        whole = make(PAIRS, **options).fit(problem)
        counts = whole.trials_["model"].value_counts().to_dict()
        # 6e5 s are left after the first trials, of which each family has a half.
        assert counts == {"ridge": 8, "near": 1}
        make(PAIRS, **options | {"n_trials": 5}, storage=journal).fit(problem)
        resumed = make(PAIRS, **options, storage=journal).fit(problem)
        pd.testing.assert_frame_equal(drawn(whole), drawn(resumed))
        assert make(PAIRS, **options | {"timeout": None}).fit(problem).trials_[
            "model"
        ].value_counts().to_dict() == {"ridge": 9 - FIRST, "near": FIRST}


def test_it_is_cloned_and_pickled(problem):
    for model in ("auto", NAMES, PAIRS):
        copy = clone(make(model))
        assert str(copy.estimator) == str(model)
    search = pickle.loads(pickle.dumps(make(PAIRS).fit(problem)))
    assert search.predict(problem.target.X).shape == (50,)
    assert clone(search).fit(problem).best_params_ == search.best_params_


def test_tags_before_and_after_the_fit(visits):
    pairs = {"logistic": (LogisticRegression(), spaces.logistic())}
    assert is_classifier(make(pairs))
    by_names = make(["logistic", "kernel"], n_trials=2)
    assert not is_classifier(by_names)
    assert is_classifier(by_names.fit(visits))


def test_the_report_has_the_parameters_of_the_chosen_family(problem, tmp_path):
    search = make(NAMES).fit(problem)
    text = search.report(tmp_path / "report.html").read_text("utf-8")
    assert "linear.alpha" in text


def test_regressors_of_classes_predict_values(problem):
    """Classes that are numbers, and a loss of values: a mean of them is no vote."""
    labels = [(site.labels > 0).astype(int) for site in problem.sources]
    sites = {s.name: (s.X, y) for s, y in zip(problem.sources, labels, strict=True)}
    classes = ShiftProblem.from_sites(sites, problem.target.X, task="classification")
    search = make(PAIRS, n_trials=10, loss="squared").fit(classes)
    members = [model.predict(problem.target.X) for model in search.predictor_.members_]
    assert len(members) > 1
    mean = np.average(members, axis=0, weights=search.members_["weight"])
    np.testing.assert_allclose(search.predict(problem.target.X), mean)


def test_the_chosen_trial_comes_first_among_those_tied(problem):
    result = make(PAIRS, n_trials=8).fit(problem).result_
    lowest = min(result.risks, key=lambda number: result.risks[number].value)
    other = next(number for number in result.tied if number != lowest)
    vars(result)["chosen"] = other
    del vars(result)["tied"]
    assert result.tied[0] == other
    assert result.tied[1] == lowest


def test_a_refit_replaces_the_best_estimator(problem):
    search = make(PAIRS, n_trials=8).fit(problem)
    before = search.best_estimator_
    search.set_params(final="best").refit()
    assert search.best_estimator_ is search.predictor_
    assert search.best_estimator_ is not before
