"""Driver of a search: the process that decides which trial is next, alone or with others."""

from __future__ import annotations

import glob
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, Self

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


class Owner(NamedTuple):
    """Driver that runs a trial, the ticket by which it took it over (-1: none), drivers before."""

    driver: int
    ticket: int = -1
    deaths: int = 0


class JoinedDriver:
    """Driver of a study that others may join and leave at any time.

    - *Places.* Trials are numbered in the order in which they are begun. One that has `n_trials`
      before it is withdrawn by the driver that has begun it, so that never more than `n_trials`
      are finished. Trials that were interrupted or withdrawn do not count.
    - *Owners.* A trial belongs to the driver that has begun it, or to the one with the first ticket
      for it after its owner has died. That driver runs it with the parameters it has.
    - *Late results.* A driver that stood still may find that its trial was taken over. The first
      result counts; the storage refuses any other.

    Parameters
    ----------
    study : optuna.Study
    tickets : Tickets
    heartbeat : Heartbeat
    """

    def __init__(self, study: optuna.Study, tickets: Tickets, heartbeat: Heartbeat) -> None:
        self.study = study
        self.number = tickets.add("driver", f"{os.getpid()} at {socket.gethostname()}")
        self._tickets = tickets
        self._heartbeat = heartbeat
        self._known = {trial.number for trial in finished_trials(study)}
        self._running: set[int] = set()

    @contextmanager
    def at_work(self) -> Iterator[Self]:
        """Be known as alive to the others inside the block."""
        with self._heartbeat.of(self.number):
            yield self

    def has_begun(self) -> bool:
        """Whether the study has a trial that is finished or under way."""
        return bool(self._trials())

    def has_place(self, n_trials: int) -> bool:
        """Whether a trial can be begun or taken over."""
        trials = self._trials()
        return len(trials) < n_trials or bool(self._orphans(trials[:n_trials]))

    def orphan(self, n_trials: int) -> FrozenTrial | None:
        """Return a trial of a driver that has died, or one that nobody has begun."""
        trials = self._trials()
        for trial, owner in self._orphans(trials[:n_trials]):
            claimed = self._tickets.claim(_taken_over(trial.number, owner), self.number)
            if claimed.value != self.number:
                continue
            before = trials[: trials.index(trial)]
            if self._state(trial).is_finished():  # its driver was only late
                continue
            with suppress(UpdateFinishedTrialError):  # just now
                if any(_same_defaults(each, trial.user_attrs) for each in before):
                    self._withdraw(trial._trial_id)  # what its driver had no time for
                    continue
                if owner.deaths >= MAX_DEATHS - 1:
                    self._give_up(trial._trial_id)
                    continue
                return self._taken(trial, owner)
        return None

    def _taken(self, trial: FrozenTrial, owner: Owner) -> FrozenTrial:
        if owner.driver != NOBODY:
            logger.info("trial %d is taken over from driver %d", trial.number, owner.driver)
        if trial.state is TrialState.WAITING:
            self.study._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
        self._running.add(trial.number)
        return trial

    def suspects(self, orphan: FrozenTrial) -> bool:
        """Return True: the driver that ran it has died, perhaps of it."""
        return True

    def ask(
        self, n_trials: int, params: Mapping[str, Any] | None, marks: Mapping[str, Any]
    ) -> Trial | None:
        """Begin a new trial; None if others were faster."""
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
        before = [trial for trial in self._trials() if trial.number < number]
        if len(before) >= n_trials or any(_same_defaults(trial, marks) for trial in before):
            self._withdraw(trial_id)
            return None
        self.study._thread_local.cached_all_trials = None  # as Optuna does in `ask`
        self._running.add(number)
        return Trial(self.study, trial_id)

    def was_late(self, trial: Trial) -> bool:
        """Whether another driver has finished a trial that it has taken over."""
        self._running.discard(trial.number)
        return self._state(trial).is_finished()

    def recorded(self, trial: Trial) -> None:
        """Note that a trial is not news."""
        self._running.discard(trial.number)
        self._known.add(trial.number)

    def news(self) -> Sequence[Outcome]:
        """Return what others have finished since the last call."""
        new = [trial for trial in finished_trials(self.study) if trial.number not in self._known]
        self._known |= {trial.number for trial in new}
        return [outcome_of(trial) for trial in new]

    def wait(self, n_trials: int) -> bool:
        """Wait a moment, unless all trials are finished."""
        if len(finished_trials(self.study)) >= n_trials:
            return False
        _interrupts.check()
        time.sleep(POLL_SECONDS)
        return True

    def _state(self, trial: Trial | FrozenTrial) -> TrialState:
        return self.study._storage.get_trial(trial._trial_id).state

    def _withdraw(self, trial_id: int) -> None:
        """End a trial without a reason, so that it does not count."""
        self.study._storage.set_trial_state_values(trial_id, TrialState.FAIL)

    def _give_up(self, trial_id: int) -> None:
        """Record a trial as failed that every driver died with."""
        storage = self.study._storage
        why = f"DriverDied: {MAX_DEATHS} processes that ran it ended without a result"
        storage.set_trial_user_attr(trial_id, FAILURE, why)
        storage.set_trial_state_values(trial_id, TrialState.FAIL)

    def _trials(self) -> list[FrozenTrial]:
        """Return the trials that have a place, in their order."""
        found = self.study.get_trials(deepcopy=False)
        return [trial for trial in found if not was_interrupted(trial)]

    def _orphans(self, trials: Sequence[FrozenTrial]) -> list[tuple[FrozenTrial, Owner]]:
        """Return those of some trials that nobody runs, with their last owners."""
        others = [trial for trial in trials if trial.number not in self._running]
        unfinished = [trial for trial in others if not trial.state.is_finished()]
        if not unfinished:
            return []
        claims = self._claims()
        owned = [(trial, self._owner(trial, claims)) for trial in unfinished]
        alive = self._heartbeat.alive({owner.driver for _, owner in owned}) | {self.number}
        return [(trial, owner) for trial, owner in owned if owner.driver not in alive]

    def _claims(self) -> dict[str, Ticket]:
        """Return the first ticket for everything that was claimed."""
        claims: dict[str, Ticket] = {}
        for ticket in self._tickets:
            claims.setdefault(ticket.what, ticket)
        return claims

    @staticmethod
    def _owner(trial: FrozenTrial, claims: Mapping[str, Ticket]) -> Owner:
        owner = Owner(trial.user_attrs.get(DRIVER, NOBODY))
        while claim := claims.get(_taken_over(trial.number, owner)):
            owner = Owner(claim.value, claim.number, owner.deaths + 1)
        return owner


def _taken_over(trial: int, owner: Owner) -> str:
    """What a driver claims that takes a trial over."""
    return f"trial {trial} after ticket {owner.ticket}"


def _same_defaults(trial: FrozenTrial, marks: Mapping[str, Any]) -> bool:
    """Whether a trial has the defaults that another one is marked for."""
    found = trial.user_attrs
    return DEFAULTS in marks and DEFAULTS in found and found.get(MODEL) == marks.get(MODEL)


class Driver(Protocol):
    """Which trials a process begins, in a study that it has alone or shares with others."""

    @property
    def number(self) -> int | None:
        """None where no other process may add trials at the same time."""

    @contextmanager
    def at_work(self) -> Iterator[Self]:
        """Be known to others inside the block."""

    def has_begun(self) -> bool:
        """Whether the study has a trial that is finished or under way."""

    def has_place(self, n_trials: int) -> bool:
        """Whether another trial can be begun, if the study shall have so many."""

    def orphan(self, n_trials: int) -> FrozenTrial | None:
        """Return a trial that nobody runs any more, which is this driver's from now on."""

    def suspects(self, orphan: FrozenTrial) -> bool:
        """Whether an orphan may have ended its drivers, and should run in another process."""

    def ask(
        self, n_trials: int, params: Mapping[str, Any] | None, marks: Mapping[str, Any]
    ) -> Trial | None:
        """Begin a new trial, with some parameters given; None if its place is taken."""

    def was_late(self, trial: Trial) -> bool:
        """Whether another driver has finished a trial of this one."""

    def recorded(self, trial: Trial) -> None:
        """Note that a trial of this driver is finished."""

    def news(self) -> Sequence[Outcome]:
        """Return what other drivers have finished since the last call."""

    def wait(self, n_trials: int) -> bool:
        """Wait a moment for other drivers; False if there is nothing to wait for."""


class OnlyDriver:
    """Driver that has its study alone.

    Trials without a result are left by a driver that was stopped or killed.
    """

    number: int | None = None

    def __init__(self, study: optuna.Study) -> None:
        self.study = study
        self._finished = len(finished_trials(study))
        self._under_way = 0
        self._suspects: set[int] = set()
        self._orphans = deque(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))

    @contextmanager
    def at_work(self) -> Iterator[Self]:
        """Do nothing: there is nobody else."""
        yield self

    def has_begun(self) -> bool:
        """Whether a trial is finished or under way."""
        return self._finished + self._under_way > 0

    def has_place(self, n_trials: int) -> bool:
        """Whether more trials are wanted than are finished and under way."""
        return self._finished + self._under_way < n_trials

    def orphan(self, n_trials: int) -> FrozenTrial | None:
        """Return the next trial of an earlier run without a result."""
        if not self._orphans:
            return None
        self._under_way += 1
        trial = self._orphans.popleft()
        runs = trial.user_attrs.get(RUNS, 1)
        if runs > 1:
            self._suspects.add(trial.number)
        self.study._storage.set_trial_user_attr(trial._trial_id, RUNS, runs + 1)
        return trial

    def suspects(self, orphan: FrozenTrial) -> bool:
        """Whether two drivers have left it: the first was most probably stopped."""
        return orphan.number in self._suspects

    def ask(
        self, n_trials: int, params: Mapping[str, Any] | None, marks: Mapping[str, Any]
    ) -> Trial:
        """Begin a new trial."""
        if params is not None:
            self.study.enqueue_trial(dict(params), user_attrs=dict(marks))
        self._under_way += 1
        return self.study.ask()

    def was_late(self, trial: Trial) -> bool:
        """Whether another driver was faster: there is none."""
        return False

    def recorded(self, trial: Trial) -> None:
        """Count a finished trial."""
        self._under_way -= 1
        self._finished += 1

    def news(self) -> Sequence[Outcome]:
        """Return nothing: there is nobody else."""
        return ()

    def wait(self, n_trials: int) -> bool:
        """Wait for nobody."""
        return False


WHAT, VALUE = "what", "value"


class Ticket(NamedTuple):
    """A claim, with a number that is higher than those of all tickets before it."""

    number: int
    what: str
    value: Any


class Tickets:
    """Claims in an order that all drivers see alike, whichever storage they share.

    They are the trials of a study of their own: trials are what Optuna numbers atomically in every
    storage, and a ticket is never changed.

    Parameters
    ----------
    study : optuna.Study
        For tickets alone.

    Examples
    --------
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> tickets = Tickets(optuna.create_study())
    >>> tickets.claim("trial 3", "first driver").value, tickets.claim("trial 3", "second").value
    ('first driver', 'first driver')
    """

    def __init__(self, study: optuna.Study) -> None:
        self.study = study

    def __iter__(self) -> Iterator[Ticket]:
        for trial in self.study.get_trials(deepcopy=False):
            found = trial.user_attrs
            yield Ticket(trial.number, found[WHAT], found[VALUE])

    def add(self, what: str, value: Any) -> int:
        """Add a ticket; return its number."""
        ticket = optuna.create_trial(value=0.0, user_attrs={WHAT: what, VALUE: value})
        storage = self.study._storage
        number: int = storage.get_trial(
            storage.create_new_trial(self.study._study_id, ticket)
        ).number
        return number

    def claim(self, what: str, value: Any) -> Ticket:
        """Return the first ticket for something, which is ours if nobody was faster."""
        if (found := self._first(what)) is None:
            self.add(what, value)
            found = self._first(what)
        assert found is not None
        return found

    def _first(self, what: str) -> Ticket | None:
        return next((ticket for ticket in self if ticket.what == what), None)


INTERVAL = 10.0
LOOKS = 6
# A storage that does not answer keeps a driver from ending for so long.
END_SECONDS = 5.0


class Beats(Protocol):
    """Beats of drivers by their numbers."""

    def start(self, number: int) -> None:
        """Begin to beat, as the driver of this number."""

    def beat(self, count: int) -> None:
        """Change the beat of this driver."""

    def end(self) -> None:
        """Withdraw the beat: this driver has ended."""

    def read(self, numbers: Collection[int] | None = None) -> Mapping[int, object]:
        """Return the beats of some drivers, by default all, that have not ended."""


class StudyBeats:
    """Beats as attributes of a study, for databases."""

    def __init__(self, study: optuna.Study) -> None:
        self.study = study
        self._name = ""

    def start(self, number: int) -> None:
        """Begin to beat."""
        self._name = f"beat {number}"
        self.beat(0)

    def beat(self, count: int) -> None:
        """Write the beat."""
        self.study.set_user_attr(self._name, count)

    def end(self) -> None:
        """Withdraw the beat."""
        self.study.set_user_attr(self._name, None)

    def read(self, numbers: Collection[int] | None = None) -> dict[int, object]:
        """Return the beats of drivers that have not ended."""
        found = {
            int(name.removeprefix("beat ")): count
            for name, count in self.study.user_attrs.items()
            if name.startswith("beat ") and count is not None
        }
        return {n: beat for n, beat in found.items() if numbers is None or n in numbers}


class FileBeats:
    """Beats in files beside a journal, each locked by its driver.

    The operating system releases the lock of a process that has died, so that its trials are taken
    over at once. The beat itself is for processes that stand still, and for machines that are gone,
    whose locks a network file system may keep.
    """

    def __init__(self, journal: Path) -> None:
        self._prefix = f".{journal.name}.driver-"
        self._folder = journal.parent
        self._file: BinaryIO | None = None
        self._number = -1

    def start(self, number: int) -> None:
        """Create the file and lock it."""
        self._number = number
        self._file = take_lock(self._path(number))
        self.beat(0)

    def beat(self, count: int) -> None:
        """Write the beat."""
        if self._file is not None:
            os.pwrite(self._file.fileno(), b"%012d" % count, 0)
            os.fsync(self._file.fileno())

    def end(self) -> None:
        """Remove the file, and those of drivers that have died."""
        if self._file is not None:
            release_lock(self._file, self._path(self._number))
        for _, path in self._paths():
            remove_if_free(path)

    def read(self, numbers: Collection[int] | None = None) -> dict[int, object]:
        """Return the beats of drivers that hold their lock."""
        found: dict[int, object] = {}
        asked = None if numbers is None else [(each, self._path(each)) for each in numbers]
        for number, path in self._paths() if asked is None else asked:
            try:
                if is_locked(path):
                    found[number] = path.read_bytes()
            except FileNotFoundError:  # of a driver that has just ended
                continue
            except OSError:  # nobody knows, and it must not be taken for dead
                found[number] = object()
        return found

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._prefix}{number}"

    def _paths(self) -> list[tuple[int, Path]]:
        found = self._folder.glob(f"{glob.escape(self._prefix)}*")
        return [(int(path.name.removeprefix(self._prefix)), path) for path in found]


class Heartbeat:
    """Beat of this driver, and what it knows about the others'."""

    def __init__(self, beats: Beats) -> None:
        self.beats = beats
        self._looks: dict[int, tuple[object, int]] = {}
        self._ended = threading.Event()

    @contextmanager
    def of(self, number: int) -> Iterator[Self]:
        """Beat in a thread of its own inside the block."""
        self._ended.clear()
        self.beats.start(number)
        thread = threading.Thread(target=self._beat, name="shiftune-heartbeat", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join(END_SECONDS)
            with suppress(Exception):  # nothing that keeps a search from ending
                if not thread.is_alive():
                    self.beats.end()

    def alive(self, numbers: Collection[int]) -> set[int]:
        """Return which of some drivers are alive."""
        beats = self.beats.read(numbers)
        return {number for number, beat in beats.items() if self._unchanged(number, beat) < LOOKS}

    def look(self) -> None:
        """Compare the beats of all drivers with those of the last look."""
        beats = self.beats.read()
        self._looks = {
            number: (beat, self._unchanged(number, beat) + 1) for number, beat in beats.items()
        }

    def _unchanged(self, number: int, beat: object) -> int:
        """Return in how many looks a driver had this beat."""
        last, looks = self._looks.get(number, (None, 0))
        return looks if last == beat else 0

    def _beat(self) -> None:
        count = 0
        while not self._ended.wait(INTERVAL):
            count += 1
            try:
                self.beats.beat(count)
                self.look()
            except Exception as error:  # a database that is away for a moment
                logger.debug("no heartbeat: %s", error)
