"""`callbacks` and `catch`, as Optuna has them."""

from __future__ import annotations

import pickle

import optuna
import pytest
from reproduction.toy import toy_problem
from sklearn.base import BaseEstimator, RegressorMixin, clone

from shiftune.errors import SearchWarning, SettingsError
from shiftune.search import ShiftSearch


class Failing(RegressorMixin, BaseEstimator):
    """Raises an error of the kind that its parameter names."""

    def __init__(self, kind="none"):
        self.kind = kind

    def fit(self, X, y):
        if self.kind == "value":
            raise ValueError("no convergence today")
        return self

    def predict(self, X):
        return X[:, 0]


@pytest.fixture(scope="module")
def problem():
    return toy_problem(1.0, n=60).problem


def search(kinds=("none",), **options):
    return ShiftSearch(Failing(), {"kind": list(kinds)}, n_trials=4, sampler="random", **options)


class TestCallbacks:
    def test_they_see_every_finished_trial(self, problem):
        seen = []
        found = search(callbacks=[lambda study, trial: seen.append((study, trial))]).fit(problem)
        assert [trial.number for _, trial in seen] == [0, 1, 2, 3]
        assert [trial.value for _, trial in seen] == found.trials_["criterion"].to_list()
        assert all(study is found.study_ for study, _ in seen)

    def test_they_can_stop_the_search(self, problem):
        stop = optuna.study.MaxTrialsCallback(2)
        assert len(search(callbacks=[stop]).fit(problem).trials_) == 2

    def test_their_errors_are_raised(self, problem):
        def broken(study, trial):
            raise RuntimeError("disk full")

        with pytest.raises(RuntimeError, match="disk full"):
            search(callbacks=[broken]).fit(problem)

    def test_copies_share_them_and_files_leave_them_out(self, problem):
        callbacks = [lambda study, trial: None]
        found = search(callbacks=callbacks).fit(problem)
        assert clone(found).callbacks is callbacks
        assert pickle.loads(pickle.dumps(found)).callbacks is None


class TestCatch:
    @pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
    def test_other_errors_are_raised(self, problem, n_jobs):
        with pytest.raises(ValueError, match="no convergence today"):
            search(["value"], catch=(), n_jobs=n_jobs, trial_timeout=1e6).fit(problem)

    def test_the_trial_has_failed_by_then(self, problem):
        raising = search(["value"], catch=KeyError)
        with pytest.raises(ValueError, match="no convergence"):
            raising.fit(problem)
        *_, trial = raising.study_.trials
        assert trial.state is optuna.trial.TrialState.FAIL
        assert "no convergence" in trial.user_attrs["failure"]

    def test_caught_ones_fail_their_trial(self, problem):
        caught = search(["value", "none"], catch=ValueError).set_params(n_trials=9)
        with pytest.warns(SearchWarning, match=r"of 9 trials failed \(the first: ValueError"):
            found = caught.fit(problem)
        assert set(found.trials_["state"]) == {"COMPLETE", "FAIL"}


@pytest.mark.parametrize(
    "wrong", [{"callbacks": print}, {"callbacks": ["print"]}, {"catch": "ValueError"}]
)
def test_what_they_cannot_be(problem, wrong):
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        search(**wrong).fit(problem)
