"""Driver of a search: the process that decides which trial is next, alone or with others.

Drivers that share a study agree by *claims*, the first of which counts, and know who is alive by
*heartbeats*. Nothing depends on a heartbeat being right: if a driver that only stood still is taken
for dead, its trials are evaluated twice and recorded once.
"""

from __future__ import annotations

import glob
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from shiftune import _interrupts
from shiftune._files import is_locked, release_lock, remove_if_free, take_lock
from shiftune.search._trial import (
    DEFAULTS,
    DRIVER,
    FAILURE,
    MODEL,
    RUNS,
    Outcome,
    finished_trials,
    outcome_of,
    was_interrupted,
)

logger = logging.getLogger("shiftune")

# Between two looks at a study whose remaining trials are others'.
POLL_SECONDS = 1.0
# Owner of trials that a user has put into the queue, or a driver alone has left.
NOBODY = -1
# So many drivers may end with a trial before it is given up. Many, because most are stopped by
# others: a model that crashes ends one driver at most, as the next one runs it in a worker.
MAX_DEATHS = 30
# Seconds between two heartbeats, and how many look the same if a driver is dead.
INTERVAL = 10.0
LOOKS = 6
# A storage that does not answer keeps a driver from ending for so long.
END_SECONDS = 5.0


class OnlyDriver:
    """Driver that has its study alone.

    Trials without a result are left by a driver that was stopped or killed.
    """

    number: int | None = None  # of a driver that shares the study

    def __init__(self, study: optuna.Study) -> None:
        self.study = study
        self._begun = len(finished_trials(study))
        self._orphans = deque(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))

    def at_work(self) -> AbstractContextManager[object]:
        """Be known to others inside the block."""
        return nullcontext()

    def has_begun(self) -> bool:
        """Whether the study has a trial that is finished or under way."""
        return self._begun > 0

    def has_place(self, n_trials: int) -> bool:
        """Whether another trial can be begun, if the study shall have so many."""
        return self._begun < n_trials

    def orphan(self, n_trials: int) -> FrozenTrial | None:
        """Return a trial that nobody runs any more, which is this driver's from now on."""
        if not self._orphans:
            return None
        self._begun += 1
        trial = self._orphans.popleft()
        runs = trial.user_attrs.get(RUNS, 1)
        self.study._storage.set_trial_user_attr(trial._trial_id, RUNS, runs + 1)
        return trial

    def suspects(self, orphan: FrozenTrial) -> bool:
        """Whether an orphan may have ended its drivers, and should run in another process."""
        return RUNS in orphan.user_attrs  # the first one that left it was most probably stopped

    def ask(
        self, n_trials: int, params: Mapping[str, Any] | None, marks: Mapping[str, Any]
    ) -> Trial | None:
        """Begin a new trial, with some parameters given; None if its place is taken."""
        if params is not None:
            self.study.enqueue_trial(dict(params), user_attrs=dict(marks))
        self._begun += 1
        return self.study.ask()

    def was_late(self, trial: Trial) -> bool:
        """Whether another driver has finished a trial of this one."""
        return False

    def recorded(self, trial: Trial) -> None:
        """Note that a trial of this driver is finished."""

    def finished_by_others(self) -> Sequence[Outcome]:
        """Return what other drivers have finished since the last call."""
        return ()

    def wait(self, n_trials: int) -> bool:
        """Wait a moment for other drivers; False if there is nothing to wait for."""
        return False


class Owner(NamedTuple):
    """Driver that runs a trial, and how many have died with it before."""

    driver: int
    deaths: int = 0


class JoinedDriver:
    """Driver of a study that others may join and leave at any time; methods as in `OnlyDriver`.

    - *Places.* Trials are numbered in the order in which they are begun. One that has `n_trials`
      before it is withdrawn by the driver that has begun it, so that never more than `n_trials`
      are finished. Trials that were interrupted or withdrawn do not count.
    - *Owners.* A trial belongs to the driver that has begun it, or to the one with the first claim
      to it after its owner has died. That driver runs it with the parameters it has.
    - *Late results.* A driver that stood still may find that its trial was taken over. The first
      result counts; the storage refuses any other.
    """

    def __init__(self, study: optuna.Study, claims: Claims, heartbeat: Heartbeat) -> None:
        self.study = study
        self.number = claims.add("driver", f"{os.getpid()} at {socket.gethostname()}")
        self._claims = claims
        self._heartbeat = heartbeat
        self._reported = {trial.number for trial in finished_trials(study)}
        self._running: set[int] = set()

    def at_work(self) -> AbstractContextManager[object]:
        return self._heartbeat.of(self.number)

    def has_begun(self) -> bool:
        return bool(self._trials())

    def has_place(self, n_trials: int) -> bool:
        trials = self._trials()
        return len(trials) < n_trials or bool(self._orphans(trials[:n_trials]))

    def orphan(self, n_trials: int) -> FrozenTrial | None:
        """Return a trial of a driver that has died, or one that nobody has begun."""
        trials = self._trials()
        for trial, owner in self._orphans(trials[:n_trials]):
            if self._claims.claim(_next_of(trial, owner), self.number) != self.number:
                continue
            if self._state(trial).is_finished():  # its driver was only late
                continue
            with suppress(UpdateFinishedTrialError):  # just now
                if _repeats_defaults(trial.user_attrs, trials, trial.number):
                    self._withdraw(trial._trial_id)  # what its driver had no time for
                elif owner.deaths >= MAX_DEATHS - 1:
                    why = f"DriverDied: {MAX_DEATHS} processes that ran it ended without a result"
                    self.study._storage.set_trial_user_attr(trial._trial_id, FAILURE, why)
                    self._withdraw(trial._trial_id)
                else:
                    if owner.driver != NOBODY:
                        logger.info(
                            "trial %d is taken over from driver %d", trial.number, owner.driver
                        )
                    if trial.state is TrialState.WAITING:
                        state = TrialState.RUNNING
                        self.study._storage.set_trial_state_values(trial._trial_id, state)
                    self._running.add(trial.number)
                    return trial
        return None

    def suspects(self, orphan: FrozenTrial) -> bool:
        return True  # the driver that ran it has died, perhaps of it

    def ask(
        self, n_trials: int, params: Mapping[str, Any] | None, marks: Mapping[str, Any]
    ) -> Trial | None:
        if len(self._trials()) >= n_trials:
            return None
        # Created as a whole: there is no moment at which it has no owner.
        new = optuna.create_trial(
            state=TrialState.RUNNING,
            user_attrs={**marks, DRIVER: self.number},
            system_attrs={} if params is None else {"fixed_params": dict(params)},
        )
        storage = self.study._storage
        trial_id = storage.create_new_trial(self.study._study_id, new)
        number = storage.get_trial(trial_id).number
        trials = self._trials()
        n_before = sum(trial.number < number for trial in trials)
        if n_before >= n_trials or _repeats_defaults(marks, trials, number):
            self._withdraw(trial_id)
            return None
        self.study._thread_local.cached_all_trials = None  # as Optuna does in `ask`
        self._running.add(number)
        return Trial(self.study, trial_id)

    def was_late(self, trial: Trial) -> bool:
        self._running.discard(trial.number)
        return self._state(trial).is_finished()

    def recorded(self, trial: Trial) -> None:
        self._running.discard(trial.number)
        self._reported.add(trial.number)

    def finished_by_others(self) -> Sequence[Outcome]:
        new = [t for t in finished_trials(self.study) if t.number not in self._reported]
        self._reported |= {trial.number for trial in new}
        return [outcome_of(trial) for trial in new]

    def wait(self, n_trials: int) -> bool:
        if len(finished_trials(self.study)) >= n_trials:
            return False
        _interrupts.check()
        time.sleep(POLL_SECONDS)
        return True

    def _state(self, trial: Trial | FrozenTrial) -> TrialState:
        return self.study._storage.get_trial(trial._trial_id).state

    def _withdraw(self, trial_id: int) -> None:
        """End a trial, which does not count unless it has a reason to fail."""
        self.study._storage.set_trial_state_values(trial_id, TrialState.FAIL)

    def _trials(self) -> list[FrozenTrial]:
        """Return the trials that have a place, in their order."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if not was_interrupted(trial)]

    def _orphans(self, trials: Sequence[FrozenTrial]) -> list[tuple[FrozenTrial, Owner]]:
        """Return those of some trials that nobody runs, with their last owners."""
        others = [trial for trial in trials if trial.number not in self._running]
        unfinished = [trial for trial in others if not trial.state.is_finished()]
        if not unfinished:
            return []
        claimed = self._claims.first()
        owners = {}
        for trial in unfinished:
            owner = Owner(trial.user_attrs.get(DRIVER, NOBODY))
            while (successor := claimed.get(_next_of(trial, owner))) is not None:
                owner = Owner(successor, owner.deaths + 1)
            owners[trial.number] = owner
        alive = self._heartbeat.alive({owner.driver for owner in owners.values()}) | {self.number}
        owned = [(trial, owners[trial.number]) for trial in unfinished]
        return [(trial, owner) for trial, owner in owned if owner.driver not in alive]


Driver = OnlyDriver | JoinedDriver


def _next_of(trial: FrozenTrial, owner: Owner) -> str:
    """Return what a driver claims that takes a trial over from its owner."""
    return f"trial {trial.number} after {owner.deaths + 1} deaths"


def _repeats_defaults(marks: Mapping[str, Any], trials: Sequence[FrozenTrial], number: int) -> bool:
    """Whether an earlier trial has the defaults of the family that a trial is marked for."""
    defaults = [t for t in trials if t.number < number and DEFAULTS in t.user_attrs]
    families = [trial.user_attrs.get(MODEL) for trial in defaults]
    return DEFAULTS in marks and marks.get(MODEL) in families


class Claims:
    """Claims of drivers, in an order that all see alike, whichever storage they share.

    They are the trials of a study of their own: trials are what Optuna numbers atomically in every
    storage, and a claim is never changed.

    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> claims = Claims(optuna.create_study())
    >>> claims.claim("trial 3", "first driver"), claims.claim("trial 3", "second driver")
    ('first driver', 'first driver')
    """

    def __init__(self, study: optuna.Study) -> None:
        self.study = study

    def add(self, what: str, value: Any) -> int:
        """Add a claim to something; return its number."""
        new = optuna.create_trial(value=0.0, user_attrs={"what": what, "value": value})
        storage = self.study._storage
        trial_id = storage.create_new_trial(self.study._study_id, new)
        number: int = storage.get_trial(trial_id).number
        return number

    def first(self) -> dict[str, Any]:
        """Return the value of the first claim to everything that was claimed."""
        values: dict[str, Any] = {}
        for trial in self.study.get_trials(deepcopy=False):
            values.setdefault(trial.user_attrs["what"], trial.user_attrs["value"])
        return values

    def claim(self, what: str, value: Any) -> Any:
        """Return the value of the first claim, which is ours if nobody was faster."""
        if what not in self.first():
            self.add(what, value)
        return self.first()[what]


class Heartbeat:
    """Heartbeat of this driver, and what it knows about the others', without comparing clocks.

    A driver changes its heartbeat every `INTERVAL`, and looks at the others' as often. One whose
    heartbeat was the same in `LOOKS` looks is dead, or stopped for so long that its trials are
    better run elsewhere. Looks are counted, not seconds: a driver that was suspended with all the
    others finds them alive.
    """

    def __init__(self, heartbeats: StudyHeartbeats | FileHeartbeats) -> None:
        self.heartbeats = heartbeats
        self._looks: dict[int, tuple[object, int]] = {}
        self._ended = threading.Event()

    @contextmanager
    def of(self, number: int) -> Iterator[None]:
        """Beat in a thread of its own inside the block."""
        self._ended.clear()
        self.heartbeats.start(number)
        thread = threading.Thread(target=self._beat, name="shiftune-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(END_SECONDS)
            with suppress(Exception):  # nothing that keeps a search from ending
                if not thread.is_alive():
                    self.heartbeats.end()

    def alive(self, numbers: Collection[int]) -> set[int]:
        """Return which of some drivers are alive."""
        latest = self.heartbeats.read(numbers)
        return {number for number, last in latest.items() if self._unchanged(number, last) < LOOKS}

    def look(self) -> None:
        """Compare the heartbeats of all drivers with those of the last look."""
        latest = self.heartbeats.read()
        self._looks = {
            number: (last, self._unchanged(number, last) + 1) for number, last in latest.items()
        }

    def _unchanged(self, number: int, latest: object) -> int:
        """Return in how many looks a driver had this heartbeat."""
        last, looks = self._looks.get(number, (None, 0))
        return looks if last == latest else 0

    def _beat(self) -> None:
        count = 0
        while not self._ended.wait(INTERVAL):
            count += 1
            try:
                self.heartbeats.beat(count)
                self.look()
            except Exception as error:  # a database that is away for a moment
                logger.debug("no heartbeat: %s", error)


class StudyHeartbeats:
    """Heartbeats as attributes of a study, for databases; None of a driver that has ended."""

    def __init__(self, study: optuna.Study) -> None:
        self.study = study
        self._name = ""

    def start(self, number: int) -> None:
        """Begin to beat, as the driver of this number."""
        self._name = f"beat {number}"
        self.beat(0)

    def beat(self, count: int) -> None:
        """Change the heartbeat of this driver."""
        self.study.set_user_attr(self._name, count)

    def end(self) -> None:
        """Withdraw the heartbeat: this driver has ended."""
        self.study.set_user_attr(self._name, None)

    def read(self, numbers: Collection[int] | None = None) -> dict[int, object]:
        """Return the heartbeats of some drivers, by default all, that have not ended."""
        counts = {
            int(name.removeprefix("beat ")): count
            for name, count in self.study.user_attrs.items()
            if name.startswith("beat ") and count is not None
        }
        return {n: count for n, count in counts.items() if numbers is None or n in numbers}


class FileHeartbeats:
    """Heartbeats in files beside a journal, each locked by its driver.

    The operating system releases the lock of a process that has died, so that its trials are taken
    over at once. The heartbeat is for processes that stand still, and for machines that are gone,
    whose locks a network file system may keep.
    """

    def __init__(self, journal: Path) -> None:
        self._prefix = f".{journal.name}.driver-"
        self._folder = journal.parent
        self._file: BinaryIO | None = None

    def start(self, number: int) -> None:
        self._file = take_lock(self._path(number))
        self.beat(0)

    def beat(self, count: int) -> None:
        assert self._file is not None  # nobody joins where there are no locks
        os.pwrite(self._file.fileno(), b"%012d" % count, 0)
        os.fsync(self._file.fileno())

    def end(self) -> None:
        """Remove the file, and those of drivers that have died."""
        release_lock(self._file)
        for path in self._paths():
            remove_if_free(path)

    def read(self, numbers: Collection[int] | None = None) -> dict[int, object]:
        """Return the heartbeats of drivers that hold their lock."""
        latest: dict[int, object] = {}
        for path in self._paths() if numbers is None else map(self._path, numbers):
            number = int(path.name.removeprefix(self._prefix))
            try:
                if is_locked(path):
                    latest[number] = path.read_bytes()
            except FileNotFoundError:  # of a driver that has just ended
                continue
            except OSError:  # nobody knows, and it must not be taken for dead
                latest[number] = object()
        return latest

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._prefix}{number}"

    def _paths(self) -> list[Path]:
        return list(self._folder.glob(f"{glob.escape(self._prefix)}*"))
