"""Processes that run one search together, and are killed or stopped; for test_join_killed.py.

All are forked from this one, which has imported what they need.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages._cached_storage import _CachedStorage
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune.search import ShiftSearch, _driver

# Nothing that is tested depends on these: if they are too short, trials are only run twice.
_driver.INTERVAL = 0.1
_driver.POLL_SECONDS = 0.02

AT_ONCE = 3
CHANGES = ("create_new_trial", "set_trial_param", "set_trial_user_attr", "set_trial_state_values")
PROBLEM = toy_problem(1.0, n=60, random_state=1).problem


def note(folder: Path, line: str) -> None:
    descriptor = os.open(folder / "log", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


class Model(Ridge):
    """A model that stops its process in one of its fits."""

    fits_to_stop = -1

    def fit(self, *args, **options):
        Model.fits_to_stop -= 1
        if Model.fits_to_stop == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().fit(*args, **options)


def search(folder: Path, storage: str, n_trials: int) -> ShiftSearch:
    return ShiftSearch(
        Model(),
        {"alpha": FloatDistribution(1e-3, 1e3, log=True)},
        n_trials=n_trials,
        storage=storage,
        join=True,
        predictions_folder=folder / "predictions",
        callbacks=[lambda _, trial: note(folder, str(trial.number))],
        progress=False,
    )


def die_at(change: int, before: bool) -> None:
    """Kill this process at one of its changes of the storage."""
    changes = 0

    def dying(method):
        def changed(*args, **options):
            nonlocal changes
            changes += 1
            if changes == change and before:
                os.kill(os.getpid(), signal.SIGKILL)
            found = method(*args, **options)
            if changes == change:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return changed

    for kind in (JournalStorage, _CachedStorage):
        for name in CHANGES:
            setattr(kind, name, dying(getattr(kind, name)))


def forked(work: Callable[[], ShiftSearch], folder: Path) -> int:
    """Start a process that notes the risk it has found; return its number."""
    child = os.fork()
    if child:
        return child
    try:
        (folder / f"risk-{os.getpid()}").write_text(repr(work().fit(PROBLEM).risk_.value))
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
    os._exit(0)


def kill(folder: Path, storage: str, n_trials: int, deaths: int, seed: int) -> list[int]:
    """Run several processes at a time; return their exit codes.

    Each of the first ones kills itself before or after a change of the storage, drawn with a seed,
    and is replaced by another.
    """
    rng = random.Random(seed)
    running, codes, started = set(), [], 0
    while running or not codes:
        while len(running) < AT_ONCE and started < AT_ONCE + deaths:
            started += 1
            change, before = rng.randint(1, 40), rng.random() < 0.5

            def work(dies=started <= deaths, change=change, before=before) -> ShiftSearch:
                if dies:
                    die_at(change, before)
                return search(folder, storage, n_trials)

            running.add(forked(work, folder))
        ended, status = os.wait()
        running.discard(ended)
        codes.append(os.waitstatus_to_exitcode(status))
    return codes


def stop(folder: Path, storage: str, n_trials: int, fits: int) -> list[int]:
    """Stop a process in a fit, and continue it after another one has finished all trials."""

    def stopping() -> ShiftSearch:
        Model.fits_to_stop = fits
        return search(folder, storage, n_trials)

    first = forked(stopping, folder)
    os.waitpid(first, os.WUNTRACED)
    second = forked(lambda: search(folder, storage, n_trials), folder)
    codes = [os.waitstatus_to_exitcode(os.waitpid(second, 0)[1])]
    os.kill(first, signal.SIGCONT)
    return [*codes, os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, place, storage, *numbers = sys.argv[1:]
    print(json.dumps({"kill": kill, "stop": stop}[what](Path(place), storage, *map(int, numbers))))
