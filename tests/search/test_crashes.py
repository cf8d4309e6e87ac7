"""Trials that end the process they run in, again and again."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import optuna
import pytest

from shiftune.search._driver import OnlyDriver
from shiftune.search._storage import trials_in
from shiftune.search._trial import FAILURE

SEARCH = textwrap.dedent(
    """
    import os
    from optuna.distributions import FloatDistribution
    from sklearn.linear_model import Ridge
    from shiftune import ShiftSearch
    from reproduction.toy import toy_problem

    class Crashing(Ridge):
        def fit(self, *args, **options):
            if self.alpha > 1.0:
                os.abort()
            return super().fit(*args, **options)

    if __name__ == "__main__":
        problem = toy_problem(1.0, n=100, random_state=1).problem
        space = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
        ShiftSearch(Crashing(), space, n_trials=6, storage="study.journal").fit(problem)
    """
)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_a_crash_ends_two_drivers_at_most(tmp_path):
    (tmp_path / "search.py").write_text(SEARCH)
    command = [sys.executable, "search.py"]
    codes = [subprocess.run(command, cwd=tmp_path, capture_output=True).returncode for _ in "123"]
    assert codes == [-signal.SIGABRT, -signal.SIGABRT, 0]
    trials = trials_in(tmp_path / "study.journal")
    failures = [trial.user_attrs.get(FAILURE, "") for trial in trials]
    assert len(trials) == 6
    assert [trial.params["alpha"] > 1.0 for trial in trials] == [
        why.startswith("WorkerDied") for why in failures
    ]
    assert any(failures)


def test_the_third_driver_suspects_a_trial():
    study = optuna.create_study()
    study.ask()
    suspected = []
    for _ in range(3):
        driver = OnlyDriver(study)
        orphan = driver.orphan(1)
        suspected.append(driver.suspects(orphan))
    assert suspected == [False, True, True]
