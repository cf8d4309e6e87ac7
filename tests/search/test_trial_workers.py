"""Trials whose fits several workers share."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.search._loop import TrialWorkers
from shiftune.search._trial import Candidate, Fitted, run_trial


class Noted(Ridge):
    """Notes every fit in a folder; fails if there are as many rows as in `fails_at`."""

    def __init__(self, folder="", fails_at=0, alpha=1.0):
        super().__init__(alpha=alpha)
        self.folder, self.fails_at = folder, fails_at

    def fit(self, X, y, sample_weight=None):
        Path(self.folder, f"{len(y)}-{len(os.listdir(self.folder))}").touch()
        if len(y) == self.fails_at:
            raise ValueError("no convergence")
        return super().fit(X, y, sample_weight)


@pytest.fixture(scope="module")
def problem():
    """Three sites of 60, 50 and 40 rows: the fits have 90, 100 and 110."""
    rng = np.random.default_rng(1)
    sites = {name: rng.normal(size=(n, 3)) for name, n in zip("BCD", (60, 50, 40), strict=True)}
    return ShiftProblem.from_sites(
        {name: (X, X[:, 0] + rng.normal(size=len(X))) for name, X in sites.items()},
        rng.normal(size=(50, 3)),
    )


@pytest.fixture(scope="module")
def context(problem):
    def of(model, **given):
        options = {"n_trials": 1, "sampler": "random", "progress": False, "final": "best"}
        return ShiftSearch(model, {"alpha": [1.0]}, **options, **given).fit(problem).result_.context

    return of


def settings(n_jobs=1):
    return SimpleNamespace(n_jobs=n_jobs, executor=None, trial_timeout=None)


@pytest.mark.parametrize("risk", ["adjusted", pytest.param("naive", marks=pytest.mark.slow)])
def test_shared_fits_give_the_same_trial(context, risk):
    own = context(Ridge(), risk=risk)
    assert len(own.data.fold_numbers) == (3 if risk == "adjusted" else 1)
    whole = run_trial(own, Candidate({"alpha": 3.0}))
    with TrialWorkers(settings(n_jobs=2), own) as workers:
        for number in range(3):
            workers.submit(number, Candidate({"alpha": 3.0}))
        for number in range(3):
            shared = workers.result(number)
            assert shared.risk.value == whole.risk.value
            assert shared.risk.criterion == whole.risk.criterion
            np.testing.assert_array_equal(shared.predictions, whole.predictions)


def fits_of(folder):
    return sorted(int(name.split("-")[0]) for name in os.listdir(folder))


def test_a_failed_first_fit_spares_the_others(context, tmp_path):
    own = context(Noted(str(tmp_path)))
    rows = own.data.trains(0).sum()
    assert fits_of(tmp_path) == [90, 100, 110, 150]  # the last is the final model
    for name in os.listdir(tmp_path):
        (tmp_path / name).unlink()
    with TrialWorkers(settings(), own) as workers:
        workers.submit(0, Candidate({"fails_at": int(rows)}))
        workers.submit(1, Candidate({}))
        failed = workers.result(0)
        assert failed.failure.startswith("ValueError: no convergence")
        assert fits_of(tmp_path) == [rows]
        assert not workers.result(1).failure


def test_a_failed_later_fit_is_the_failure_of_the_trial(context, tmp_path):
    own = context(Noted(str(tmp_path)))
    last = int(own.data.trains(2).sum())
    with TrialWorkers(settings(n_jobs=2), own) as workers:
        workers.submit(0, Candidate({"fails_at": last}))
        workers.submit(1, Candidate({}))
        assert workers.result(0).failure.startswith("ValueError: no convergence")
        assert not workers.result(1).failure


def test_the_time_of_a_trial_is_that_of_all_its_fits(context, monkeypatch):
    """The fits that are left when it is over are dropped."""
    own, fetched = context(Ridge()), []

    def took_two_seconds(workers, key):
        fetched.append(workers._items.pop(key))
        return Fitted(None, 2.0)

    monkeypatch.setattr("shiftune.workers.Workers.result", took_two_seconds)
    with TrialWorkers(settings(), own) as workers:
        workers.time_limit = 3.0
        workers.submit(0, Candidate({}))
        outcome = workers.result(0)
        assert outcome.failure == "OutOfTime: it ran longer than trial_timeout"
        assert outcome.seconds == 3.0
        assert len(fetched) == 2
        assert not workers._workers._items.unfinished


def test_large_tables_start_workers_at_once(context, monkeypatch):
    started = []
    monkeypatch.setattr("shiftune.workers.Workers.start", lambda self: started.append(True))
    TrialWorkers(settings(n_jobs=2), context(Ridge()), n_trials=5)
    assert not started
    monkeypatch.setattr("shiftune.search._loop.LARGE", 10)
    TrialWorkers(settings(n_jobs=2), context(Ridge()), n_trials=5)
    assert started
