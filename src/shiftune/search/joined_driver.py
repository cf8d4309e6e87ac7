"""Driver that shares its study with others: each takes the next trial, and those of the dead."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from shiftune import interrupts
from shiftune.search.heartbeat import Heartbeat
from shiftune.search.records import (
    DEFAULTS,
    DRIVER,
    FAILURE,
    MODEL,
    finished_trials,
    outcome_of,
    was_interrupted,
)
from shiftune.search.tickets import Ticket, Tickets
from shiftune.search.trial import Outcome

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
        interrupts.check()
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
