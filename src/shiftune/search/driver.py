"""Driver of a search: the process that decides which trial is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self

from optuna.trial import FrozenTrial, Trial, TrialState

from shiftune.search.records import RUNS, finished_trials

if TYPE_CHECKING:
    import optuna

    from shiftune.search.trial import Outcome


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
