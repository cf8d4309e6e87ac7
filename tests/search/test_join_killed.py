"""Three processes at a time run one search, and are killed at random: no trial lost, none twice."""

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

from shiftune.search.records import DEFAULTS, FAILURE
from shiftune.search.storage import _study

N_TRIALS, DEATHS = 20, 12
SCRIPT = Path(__file__).with_name("joined_processes.py")


def check_killed(folder, storage, seed):
    """Kill processes of a search in a storage; check what became of its trials."""
    numbers = map(str, (N_TRIALS, DEATHS, seed))
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), storage, *numbers],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    codes = Counter(json.loads(run.stdout))
    assert set(codes) <= {0, -signal.SIGKILL}, run.stderr
    assert codes[-signal.SIGKILL] >= DEATHS / 2
    assert codes[0] >= 3
    trials = _study(storage).get_trials()
    finished = [
        trial.number
        for trial in trials
        if trial.state is TrialState.COMPLETE or FAILURE in trial.user_attrs
    ]
    assert len(finished) == N_TRIALS
    rest = [trial for trial in trials if trial.number not in finished]
    # Begun by several at once, as the last trial or the one with the defaults.
    assert all(trial.number >= N_TRIALS or DEFAULTS in trial.user_attrs for trial in rest)
    recorded = Counter((folder / "log").read_text().split())
    # A process may be killed after it has recorded a trial, and before it notes that.
    assert recorded.keys() <= set(map(str, finished))
    assert set(recorded.values()) == {1}
    assert len({path.read_text() for path in folder.glob("risk-*")}) == 1
    assert sum(DEFAULTS in trial.user_attrs for trial in trials if trial.number in finished) == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and kills")
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("storage", ["{}/study.journal", "sqlite:///{}/study.db"])
def test_no_trial_is_lost_and_none_counted_twice(tmp_path, storage, seed):
    check_killed(tmp_path, storage.format(tmp_path), seed)
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(".")}
    assert left == set()
