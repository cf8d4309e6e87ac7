"""LI and DistBO on problems of all kinds."""

from __future__ import annotations

import signal
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from reproduction.baselines import DistBO, LearnedInitialisation
from reproduction.baselines.source_transfer import SourceTrials, shared_budget
from reproduction.toy import ConstantPrediction, toy_problem
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import Ridge

from shiftune import ShiftProblem
from shiftune.errors import DataWarning, ProblemError, SettingsError
from shiftune.search.gp._acquisition import UnitCube

BOTH = pytest.mark.parametrize("baseline", [LearnedInitialisation, DistBO])
THETA = {"theta": FloatDistribution(-8.0, 8.0)}


def fitted(baseline, problem, **options):
    options = {"loss": "half_squared", "n_trials": 20, **options}
    return baseline(ConstantPrediction(), THETA, **options).fit(problem)


class Failing(RegressorMixin, BaseEstimator):
    def __init__(self, theta=0.0):
        self.theta = theta

    def fit(self, X, y):
        if self.theta > 0:
            raise ValueError("theta is too large")
        return self

    def predict(self, X):
        return np.full(len(X), self.theta)


class Interrupting(Failing):
    """Ctrl-C comes during its fit, where what it raises is caught and forgotten."""

    def fit(self, X, y):
        with suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        return self


@pytest.fixture
def python_handler():
    """In the background of a shell SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestBudget:
    def test_is_shared_evenly_and_never_exceeded(self):
        rng = np.random.default_rng(0)
        for n_trials, k in [(50, 2), (50, 29), (50, 41), (3, 5), (1, 1)]:
            budget = shared_budget(n_trials, k, rng)
            assert sum(budget) == n_trials
            assert max(budget) - min(budget) <= 1

    @BOTH
    def test_counts_model_fits(self, baseline):
        problem = toy_problem(2.0, k=3, n=60).problem
        table = fitted(baseline, problem, n_trials=8).trials_
        assert len(table) == 8
        assert sorted(table["source"].value_counts()) == [2, 3, 3]

    @BOTH
    def test_fewer_trials_than_sources(self, baseline):
        """Sources without a trial have no say; nothing breaks."""
        found = fitted(baseline, toy_problem(2.0, k=5, n=60).problem, n_trials=3)
        assert found.trials_["source"].nunique() == 3
        assert -8 <= found.best_params_["theta"] <= 8

    @BOTH
    def test_sources_do_not_try_the_same_points(self, baseline):
        table = fitted(baseline, toy_problem(2.0, k=5, n=60).problem, n_trials=5).trials_
        assert table["param_theta"].nunique() == 5


class TestLearnedInitialisation:
    def test_finds_the_minimum_of_the_summed_losses(self):
        """Half squared losses of constant answers: the sum is least at the mean of all labels."""
        problem = toy_problem(4.0, n=400, random_state=2).problem
        found = fitted(LearnedInitialisation, problem, n_trials=50)
        split = problem.split((0.0, 0.7, 0.3), random_state=0)
        best = np.mean([site.labels.mean() for site in split.validation])
        assert abs(found.best_params_["theta"] - best) < 0.1

    def test_descends_along_the_surrogates_step_by_step(self):
        """Trials left and right of the minimum at 0.5, none near it: the descent gets there."""
        rows = np.array([[0.0], [0.15], [0.3], [0.7], [0.85], [1.0]])
        trials = SourceTrials(
            UnitCube({"theta": FloatDistribution(0, 1)}),
            rows,
            (rows[:, 0] - 0.5) ** 2,
            np.zeros(6, dtype=int),
            pd.DataFrame(),
        )
        gaps = [
            abs(LearnedInitialisation(None, None, n_epochs=n)._choose(trials, None)[0] - 0.5)
            for n in (1, 30, 1000)
        ]
        assert 0.19 < gaps[0] <= 0.2
        assert 0.01 < gaps[1] < 0.19
        assert gaps[2] < 0.01

    def test_the_unit_of_the_loss_does_not_matter(self):
        problem = toy_problem(3.0, n=200).problem
        thetas = [
            fitted(LearnedInitialisation, problem, loss=loss).best_params_["theta"]
            for loss in (lambda y, p: (y - p) ** 2, lambda y, p: 1e6 * (y - p) ** 2)
        ]
        assert thetas[0] == pytest.approx(thetas[1], abs=1e-3)


class TestDistBO:
    def test_learns_which_data_sets_are_alike(self):
        """The best theta depends on p(x) alone, so sources near the target should count."""
        rng = np.random.default_rng(0)
        mus = np.array([0.9, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
        X = [rng.normal(mu, 1, (300, 1)) for mu in mus]
        y = [0.7 * x[:, 0] + 0.3 + rng.standard_normal(300) for x in X]
        problem = ShiftProblem.from_sites(
            list(zip(X[1:], y[1:], strict=True)), X[0], task="regression"
        )
        found = fitted(DistBO, problem, n_trials=60)
        assert found.likeness_.idxmax() == "4"  # mu = 1.0
        assert abs(found.best_params_["theta"] - (0.7 * 0.9 + 0.3)) < 0.4
        li = fitted(LearnedInitialisation, problem, n_trials=60)
        assert abs(li.best_params_["theta"] - 0.3) < 0.2  # the average source

    def test_is_cautious(self):
        """With much caution it goes where trials were, not where nothing is known."""
        problem = toy_problem(1.0, n=200).problem
        found = fitted(DistBO, problem, beta=50.0, n_trials=10, sampler="random")
        tried = found.trials_["param_theta"].to_numpy()
        assert np.min(np.abs(tried - found.best_params_["theta"])) < 0.3


@BOTH
class TestAnyProblem:
    def test_mixed_columns_and_mixed_spaces(self, baseline):
        rng = np.random.default_rng(0)
        n = 240
        frame = pd.DataFrame(
            {
                "site": rng.choice(list("ABCD"), n),
                "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 10, n)),
                "sex": pd.Categorical(rng.choice(["f", "m"], n)),
                "sick": rng.integers(0, 2, n),
            }
        )
        problem = ShiftProblem.from_frame(
            frame, site="site", label="sick", target="A", target_labels="oracle"
        )
        space = {
            "learning_rate": FloatDistribution(0.01, 0.3, log=True),
            "max_leaf_nodes": IntDistribution(2, 8),
            "interaction_cst": CategoricalDistribution([None, "pairwise"]),
            "max_iter": IntDistribution(5, 5),
        }
        model = HistGradientBoostingClassifier(categorical_features="from_dtype")
        found = baseline(model, space, n_trials=6).fit(problem)
        assert found.best_params_.keys() == space.keys()
        assert found.best_params_["max_iter"] == 5
        assert isinstance(found.best_params_["max_leaf_nodes"], int)
        assert found.best_params_["interaction_cst"] in (None, "pairwise")
        answers = found.best_estimator_.predict_proba(problem.target.X)
        assert answers.shape == (len(problem.target), 2)
        assert found.best_estimator_.classes_.tolist() == [0, 1]

    @pytest.mark.slow
    def test_same_seed_same_choice(self, baseline):
        problem = toy_problem(2.0, n=60).problem
        once, again = (fitted(baseline, problem, random_state=3) for _ in range(2))
        assert once.best_params_ == again.best_params_
        assert fitted(baseline, problem, random_state=4).best_params_ != once.best_params_

    def test_clone(self, baseline):
        search = clone(baseline(Ridge(), {"alpha": FloatDistribution(0.1, 10)}, n_trials=6))
        problem = toy_problem(1.0, k=3, n=30).problem
        search.fit(problem)
        assert search.best_estimator_.predict(problem.target.X).shape == (len(problem.target),)
        assert not hasattr(clone(search), "best_params_")

    def test_weights_of_rows_are_refused(self, baseline):
        X, y = np.zeros((8, 1)), np.arange(8.0)
        problem = ShiftProblem.from_sites([(X, y, y + 1)] * 2, X, task="regression")
        with pytest.raises(SettingsError, match=f"{baseline.__name__} counts every row once"):
            baseline(Ridge(), {"alpha": (1.0, 2.0)}).fit(problem)

    def test_an_interrupt_that_a_model_forgets(self, baseline, python_handler):
        with pytest.raises(KeyboardInterrupt):
            baseline(Interrupting(), THETA, loss="squared").fit(toy_problem(1.0, n=60).problem)

    def test_failed_trials_are_paid_for_and_told(self, baseline):
        problem = toy_problem(1.0, n=60).problem
        search = baseline(Failing(), THETA, loss="squared", n_trials=12, sampler="random")
        with pytest.warns(DataWarning, match=r"of 12 trials failed.*theta is too large"):
            found = search.fit(problem)
        failed = found.trials_["failure"].str.contains("theta is too large")
        assert len(found.trials_) == 12
        assert 0 < failed.sum() < 12
        assert (found.trials_.loc[failed, "param_theta"] > 0).all()

    def test_all_failed(self, baseline):
        search = baseline(Failing(), {"theta": FloatDistribution(1, 2)}, loss="squared", n_trials=4)
        with pytest.raises(ProblemError, match=r"all 4 trials failed.*\n.*theta is too large"):
            search.fit(toy_problem(1.0, n=60).problem)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_trials": 0}, "n_trials must be a whole number > 0"),
            ({"sampler": "grid"}, "no sampler 'grid'"),
            ({"loss": "cubic"}, "no loss 'cubic'"),
        ],
    )
    def test_mistakes(self, baseline, options, message):
        with pytest.raises(ProblemError, match=message):
            fitted(baseline, toy_problem(1.0, n=60).problem, **options)

    def test_a_function_is_no_space_here(self, baseline):
        search = baseline(Ridge(), lambda trial: {"alpha": trial.suggest_float("alpha", 1, 2)})
        with pytest.raises(SettingsError, match="needs a mapping"):
            search.fit(toy_problem(1.0, n=60).problem)


def test_mistakes_of_their_own():
    problem = toy_problem(1.0, n=60).problem
    with pytest.raises(SettingsError, match="learning_rate must be a number > 0"):
        fitted(LearnedInitialisation, problem, learning_rate=-1.0)
    with pytest.raises(SettingsError, match="n_epochs must be a whole number"):
        fitted(LearnedInitialisation, problem, n_epochs=0)
    with pytest.raises(SettingsError, match="beta must be"):
        fitted(DistBO, problem, beta=-1)
    for wrong in (2.5, True, None, 0):
        with pytest.raises(SettingsError, match="hidden_units must be"):
            fitted(DistBO, problem, hidden_units=wrong)
    fitted(DistBO, problem, hidden_units=np.int64(3))
