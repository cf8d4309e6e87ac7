"""The loop: ask, evaluate somewhere, tell; in an order that does not depend on timing."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import optuna
from optuna.trial import Trial, TrialState

from shiftune.errors import ProblemError
from shiftune.search.gp import VARIANCE_KEY
from shiftune.search.trial import Outcome, described, run_trial
from shiftune.search.workers import OutOfTime, WorkerDied, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shiftune.search.progress import Progress

logger = logging.getLogger("shiftune")

RISK = "risk"
SECONDS = "seconds"
FAILURE = "failure"
FINISHED = (TrialState.COMPLETE, TrialState.FAIL)

SearchSpace = "Mapping[str, BaseDistribution] | Callable[[Trial], Mapping[str, Any]]"


class Asked(NamedTuple):
    """A trial under way."""

    trial: Trial
    params: dict[str, Any]


class Loop:
    """Keep workers busy with trials until enough are finished.

    Trials are told in the order in which they were asked: the next proposal then sees the same
    history whatever trial happened to be faster, and a run with several workers can be repeated
    bit for bit (with any sampler whose proposals depend on its seed and the history alone).

    A driver that was killed leaves trials that are neither finished nor under way. They are
    evaluated first, with the parameters they had.
    """

    def __init__(
        self,
        study: optuna.Study,
        space: Any,
        workers: Workers,
        check: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.study = study
        self.space = space
        self.workers = workers
        self.check = check
        self.interrupted = False

    def run(self, n_trials: int, timeout: float | None, progress: Progress) -> None:
        """Run until the study has `n_trials` finished trials or the time is over."""
        end = None if timeout is None else time.monotonic() + timeout
        orphans = deque(self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
        under_way: deque[Asked] = deque()
        finished = len(self.study.get_trials(deepcopy=False, states=FINISHED))
        try:
            while True:
                while finished + len(under_way) < n_trials and (
                    len(under_way) < self.workers.capacity
                ):
                    if end is not None and time.monotonic() >= end:
                        break
                    asked = self._adopt(orphans.popleft()) if orphans else self._ask()
                    self.workers.submit(asked.trial.number, asked.params)
                    under_way.append(asked)
                if not under_way:
                    return
                outcome = self._outcome(under_way[0].trial.number)
                self._tell(under_way.popleft().trial, outcome)
                finished += 1
                progress.update(outcome.risk)
        except KeyboardInterrupt:
            self.interrupted = True
            logger.warning("stopped by the user after %d finished trials", finished)
            self.workers.close(kill=True)
            if not self._kept():
                for asked in under_way:
                    self._tell(asked.trial, Outcome(None, "stopped by the user", 0.0))

    def _kept(self) -> bool:
        """Whether the storage outlives this process, so that trials under way can go on later."""
        return not isinstance(self.study._storage, optuna.storages.InMemoryStorage)

    def _ask(self) -> Asked:
        if callable(self.space):
            trial = self.study.ask()
            return self._checked(trial, dict(self.space(trial)))
        trial = self.study.ask(fixed_distributions=dict(self.space))
        return self._checked(trial, dict(trial.params))

    def _adopt(self, orphan: optuna.trial.FrozenTrial) -> Asked:
        trial = Trial(self.study, orphan._trial_id)
        if callable(self.space):
            return self._checked(trial, dict(self.space(trial)))
        params = {name: trial._suggest(name, values) for name, values in self.space.items()}
        return self._checked(trial, params)

    def _checked(self, trial: Trial, params: dict[str, Any]) -> Asked:
        try:
            self.check(params)
        except ProblemError as error:
            self._tell(trial, Outcome(None, described(error), 0.0))
            raise
        return Asked(trial, params)

    def _outcome(self, number: int) -> Outcome:
        try:
            result: Outcome = self.workers.result(number)
        except (WorkerDied, OutOfTime) as error:
            return Outcome(None, str(error), 0.0)
        return result

    def _tell(self, trial: Trial, outcome: Outcome) -> None:
        if outcome.risk is None:
            logger.warning("trial %d failed: %s", trial.number, outcome.failure)
            trial.set_user_attr(FAILURE, outcome.failure)
            self.study.tell(trial, state=TrialState.FAIL)
            return
        trial.set_user_attr(RISK, outcome.risk.to_record())
        trial.set_user_attr(VARIANCE_KEY, outcome.risk.variance)
        trial.set_user_attr(SECONDS, outcome.seconds)
        self.study.tell(trial, outcome.risk.value)


__all__ = ["FAILURE", "FINISHED", "RISK", "SECONDS", "Loop", "run_trial"]
