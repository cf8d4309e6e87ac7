"""Ctrl-C during a search: always KeyboardInterrupt, never a loss of what was judged."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from contextlib import suppress

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune import _interrupts
from shiftune.errors import ProblemError
from shiftune.predictor import _selection
from shiftune.ratio import ClassifierRatio
from shiftune.search import ShiftSearch
from shiftune.search._search import NotFitted

ALPHA = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
FITS = 2  # models of a trial: one without each of the two sources


@pytest.fixture(scope="module")
def toy():
    return toy_problem(1.0, n=100, random_state=1)


@pytest.fixture(autouse=True)
def python_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    Interrupting.calls = 0
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not _interrupts.noted()
    signal.signal(signal.SIGINT, before)


class Interrupting(Ridge):
    """Ctrl-C comes during its call number `at`, where what it raises is caught and forgotten."""

    calls = 0
    at = 0

    def fit(self, *args, **options):
        type(self).calls += 1
        if self.calls == self.at:
            with suppress(BaseException):
                signal.raise_signal(signal.SIGINT)
        return super().fit(*args, **options)


def at(call, monkeypatch):
    monkeypatch.setattr(Interrupting, "at", call)
    return Interrupting()


def make(model, **options):
    return ShiftSearch(model, ALPHA, **{"n_trials": 6, "progress": False, **options})


def stopped(search, problem):
    with pytest.raises(KeyboardInterrupt):
        search.fit(problem)
    return search


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_finished_trials_are_kept_and_can_be_refitted(toy, monkeypatch, trials):
    whole = make(Interrupting()).fit(toy.problem)
    Interrupting.calls = 0
    search = stopped(make(at(FITS * trials + 1, monkeypatch)), toy.problem)
    assert not hasattr(search, "best_estimator_")
    assert len(search.trials_) == trials
    assert (search.trials_["state"] == "COMPLETE").all()
    assert search.problem_ is toy.problem
    with pytest.raises(NotFitted, match=rf"stopped after {trials} trials?; refit\(\)"):
        search.predict(toy.problem.target.X)
    params = search.trials_["param_alpha"]
    np.testing.assert_array_equal(params, whole.trials_["param_alpha"][:trials])
    search.refit()
    assert search.best_index_ == search.trials_["criterion"].idxmin()
    assert search.best_estimator_.alpha == params[search.best_index_]
    assert search.predict(toy.problem.target.X).shape == (len(toy.problem.target),)


def test_no_trial_is_left_under_way_in_memory(toy, monkeypatch):
    search = stopped(make(at(FITS + 1, monkeypatch)), toy.problem)
    states = [trial.state.name for trial in search.study_.trials]
    assert states == ["COMPLETE", "FAIL"]
    assert len(search.trials_) == 1


def test_before_the_first_trial_is_finished(toy, monkeypatch):
    search = stopped(make(at(1, monkeypatch)), toy.problem)
    assert search.trials_.empty
    with pytest.raises(ProblemError, match="no trial was finished"):
        search.refit()


def test_while_the_winner_is_refitted(toy, monkeypatch):
    search = stopped(make(at(6 * FITS + 1, monkeypatch)), toy.problem)
    assert len(search.trials_) == 6
    assert search.refit().best_estimator_.alpha == search.best_params_["alpha"]


class InterruptingRatio(ClassifierRatio):
    """Ctrl-C comes while the ratio is fitted, where what it raises is caught and forgotten."""

    armed = True

    def fit(self, *args):
        if type(self).armed:
            with suppress(BaseException):
                signal.raise_signal(signal.SIGINT)
        return super().fit(*args)


@pytest.mark.parametrize("earlier", [0, 3])
def test_while_the_ratio_is_fitted(toy, monkeypatch, tmp_path, earlier):
    settings = {
        "risk": "unbiased",
        "ratio": InterruptingRatio(),
        "storage": tmp_path / "study.journal",
    }
    if earlier:
        with monkeypatch.context() as patched:
            patched.setattr(InterruptingRatio, "armed", False)
            make(Ridge(), **settings, n_trials=earlier).fit(toy.problem)
    search = stopped(make(Ridge(), **settings), toy.problem)
    assert len(search.trials_) == earlier
    monkeypatch.setattr(InterruptingRatio, "armed", False)
    if earlier:
        assert search.refit().result_.context.data.weights is not None
        assert search.default_risk().value > 0
    else:
        with pytest.raises(ProblemError, match="no trial was finished"):
            search.refit()
    assert len(make(Ridge(), **settings).fit(toy.problem).trials_) == 6


def test_an_earlier_fit_does_not_show_through(toy, monkeypatch):
    search = make(Interrupting(), n_trials=2).fit(toy.problem)
    search.estimator = at(2 * FITS + 2, monkeypatch)
    stopped(search, toy.problem)
    assert not hasattr(search, "risk_")


def test_refit_needs_trials():
    with pytest.raises(NotFitted, match="call fit first"):
        make(Ridge()).refit()


def test_a_journal_goes_on_as_if_nothing_had_been(toy, monkeypatch, tmp_path):
    whole = make(Interrupting()).fit(toy.problem)
    for call in (1, FITS + 1, FITS, FITS + 2):
        Interrupting.calls = 0
        stopped(make(at(call, monkeypatch), storage=tmp_path / "study.journal"), toy.problem)
    monkeypatch.setattr(Interrupting, "at", 0)
    search = make(Interrupting(), storage=tmp_path / "study.journal").fit(toy.problem)
    np.testing.assert_array_equal(search.trials_["param_alpha"], whole.trials_["param_alpha"])
    np.testing.assert_array_equal(search.trials_["risk"], whole.trials_["risk"])


class Calling(Ridge):
    """In a worker: sends Ctrl-C, once, to the driver, when some trials are finished."""

    def __init__(self, folder="", driver=0, alpha=1.0):
        super().__init__(alpha=alpha)
        self.folder = folder
        self.driver = driver

    def fit(self, *args, **options):
        descriptor, _ = tempfile.mkstemp(dir=self.folder)
        os.close(descriptor)
        if len(os.listdir(self.folder)) >= 5 * FITS:
            with suppress(FileExistsError), open(os.path.join(self.folder, "sent"), "x"):
                os.kill(self.driver, signal.SIGINT)
        return super().fit(*args, **options)


@pytest.mark.xdist_group("search")
@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_with_worker_processes(toy, tmp_path, kept):
    calls = tmp_path / "calls"
    calls.mkdir()
    storage = tmp_path / "study.journal" if kept else None
    settings = {"n_jobs": 2, "trial_timeout": 1e6, "storage": storage, "n_trials": 100}
    search = stopped(make(Calling(str(calls), os.getpid()), **settings), toy.problem)
    under_way = [t for t in search.study_.trials if t.state is optuna.trial.TrialState.RUNNING]
    assert kept == bool(under_way)
    judged = len(search.trials_)
    assert judged < 100
    if kept:
        whole = make(Ridge(), n_jobs=2).fit(toy.problem)
        settings["n_trials"] = max(6, judged)
        search = make(Calling(str(calls), os.getpid()), **settings).fit(toy.problem)
        params = search.trials_["param_alpha"][:6]
        np.testing.assert_array_equal(params, whole.trials_["param_alpha"][: len(params)])


def test_in_another_thread(toy):
    found = []
    thread = threading.Thread(target=lambda: found.append(make(Ridge()).fit(toy.problem)))
    thread.start()
    thread.join()
    assert len(found[0].trials_) == 6


def test_where_interrupts_are_ignored(toy, monkeypatch):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert len(make(at(3, monkeypatch)).fit(toy.problem).trials_) == 6
    finally:
        assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.SIG_IGN


def test_an_interrupt_while_members_are_chosen(toy, monkeypatch):
    def interrupted(*args):
        signal.raise_signal(signal.SIGINT)
        return candidates(*args)

    candidates = _selection.Candidates
    monkeypatch.setattr(_selection, "Candidates", interrupted)
    judged = []
    nested = candidates.nested_predictions
    monkeypatch.setattr(
        candidates, "nested_predictions", lambda *args: judged.append(0) or nested(*args)
    )
    search = stopped(make(Ridge()), toy.problem)
    assert not judged
    assert len(search.trials_) == 6
    monkeypatch.setattr(_selection, "Candidates", candidates)
    assert search.refit().predict(toy.problem.target.X).shape == (len(toy.problem.target),)
