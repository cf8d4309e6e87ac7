"""Processes run one search together, and are killed or stopped: no trial lost, none twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from optuna.trial import TrialState

from shiftune.search._storage import load_study
from shiftune.search._trial import DEFAULTS, FAILURE

N_TRIALS, DEATHS = 20, 12
SCRIPT = Path(__file__).with_name("joined_processes.py")


def run(what, folder, storage, *numbers):
    """Return the exit codes of processes that were killed or stopped."""
    command = [sys.executable, str(SCRIPT), what, str(folder), storage, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    codes = Counter(json.loads(done.stdout))
    assert set(codes) <= {0, -signal.SIGKILL}, done.stderr
    return codes


def check_trials(folder, storage, n_trials):
    """Check that all trials are finished, and that each was recorded once."""
    study = load_study(storage)
    trials = study.get_trials()
    if "://" in storage:
        study._storage._backend.engine.dispose()  # type: ignore[attr-defined]
    finished = {
        trial.number: trial
        for trial in trials
        if trial.state is TrialState.COMPLETE or FAILURE in trial.user_attrs
    }
    assert len(finished) == n_trials
    # The others were begun by several at once, as the last trial or the one with the defaults.
    rest = [trial for trial in trials if trial.number not in finished]
    assert all(trial.number >= n_trials or DEFAULTS in trial.user_attrs for trial in rest)
    assert sum(DEFAULTS in trial.user_attrs for trial in finished.values()) == 1
    recorded = Counter(map(int, (folder / "log").read_text().split()))
    # A process may be killed after it has recorded a trial, and before it notes that.
    assert recorded.keys() <= finished.keys()
    assert set(recorded.values()) == {1}
    assert len({path.read_text() for path in folder.glob("risk-*")}) == 1


def check_killed(folder, storage, seed):
    codes = run("kill", folder, storage, N_TRIALS, DEATHS, seed)
    assert codes[-signal.SIGKILL] >= DEATHS / 2
    assert codes[0] >= 3
    check_trials(folder, storage, N_TRIALS)


def check_stopped(folder, storage):
    assert run("stop", folder, storage, 6, 8) == {0: 2}  # in the second trial, of five fits each
    check_trials(folder, storage, 6)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and kills"),
]
STORAGES = pytest.mark.parametrize("storage", ["{}/study.journal", "sqlite:///{}/study.db"])


@STORAGES
def test_killed_at_random(tmp_path, storage):
    check_killed(tmp_path, storage.format(tmp_path), seed=1)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_late_result_does_not_count(tmp_path):
    """Not on SQLite: a process that is stopped while it writes its beat locks the whole file."""
    check_stopped(tmp_path, f"{tmp_path}/study.journal")
