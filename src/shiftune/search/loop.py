"""Loop of trials: propose, evaluate, record; in an order that does not depend on timing."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import optuna
from optuna.trial import Trial, TrialState

from shiftune import interrupts
from shiftune.errors import ProblemError
from shiftune.search.answer_store import candidates
from shiftune.search.gp import VARIANCE_KEY
from shiftune.search.records import (
    ANSWERS_BYTES,
    FAILURE,
    MEAN_LOSS,
    RISK,
    SECONDS,
    finished_trials,
)
from shiftune.search.trial import Outcome, reason
from shiftune.workers import OutOfTime, WorkerDied, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shiftune.search.answer_store import AnswerStore
    from shiftune.search.progress import Progress

logger = logging.getLogger("shiftune")


class Proposed(NamedTuple):
    """A trial under way."""

    trial: Trial
    params: dict[str, Any]
    rejected: str = ""


class Loop:
    """Keep workers busy with trials until enough are finished.

    Results are recorded in the order in which the trials were proposed: the next proposal sees
    the same history whichever trial is faster, and a run with several workers can be repeated bit
    for bit (with any sampler whose proposals depend on its seed and the history alone).

    A driver that was stopped or killed leaves trials without a result. They are evaluated first,
    with the parameters they had.
    """

    def __init__(
        self,
        study: optuna.Study,
        space: Any,
        workers: Workers,
        check: Callable[[Mapping[str, Any]], None],
        answers: AnswerStore,
    ) -> None:
        self.study = study
        self.space = space
        self.workers = workers
        self.check = check
        self.answers = answers
        self.exhausted = False
        self.under_way: deque[Proposed] = deque()
        # Fixed for the whole run: what a proposal sees must not depend on timing. More than there
        # are workers, so that one slow trial does not leave the others without work.
        workers_at_start = max(workers.capacity - 1, 0)
        self.look_ahead = 2 * workers_at_start if workers_at_start > 1 else workers.capacity

    def run(self, n_trials: int, timeout: float | None, progress: Progress) -> None:
        """Run until the study has `n_trials` finished trials or the time is over.

        An interrupt is raised before a trial is proposed and while one is waited for, never
        while one is recorded.
        """
        end = None if timeout is None else time.monotonic() + timeout
        orphans = deque(self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
        finished = len(finished_trials(self.study))
        while True:
            while finished + len(self.under_way) < n_trials and (
                len(self.under_way) < self.look_ahead
            ):
                if self.exhausted:
                    break
                if end is not None and time.monotonic() >= end:
                    break
                interrupts.check()
                proposed = self._adopt(orphans.popleft()) if orphans else self._ask()
                self.under_way.append(proposed)
                if not proposed.rejected:
                    self.workers.submit(proposed.trial.number, proposed.params)
            if not self.under_way:
                return
            outcome = self._outcome(self.under_way[0])
            self._tell(self.under_way.popleft().trial, outcome)
            finished += 1
            progress.update(outcome.risk)

    def abandon(self) -> None:
        """End the trials under way, of a study that nobody can continue.

        They have failed without a reason, so they do not count as finished.
        """
        while self.under_way:
            self._tell_study(self.under_way.popleft().trial, state=TrialState.FAIL)

    def _ask(self) -> Proposed:
        if callable(self.space):
            return self._defined_by_run(self.study.ask())
        trial = self.study.ask(fixed_distributions=dict(self.space))
        return self._checked(trial, dict(trial.params))

    def _adopt(self, orphan: optuna.trial.FrozenTrial) -> Proposed:
        trial = Trial(self.study, orphan._trial_id)
        if callable(self.space):
            return self._defined_by_run(trial)
        params = {name: trial._suggest(name, values) for name, values in self.space.items()}
        return self._checked(trial, params)

    def _defined_by_run(self, trial: Trial) -> Proposed:
        """Ask the user's function; a combination that it rejects is a trial that failed."""
        try:
            return self._checked(trial, dict(self.space(trial)))
        except ProblemError:
            raise
        except Exception as error:
            return Proposed(trial, {}, reason(error))

    def _checked(self, trial: Trial, params: dict[str, Any]) -> Proposed:
        try:
            self.check(params)
        except ProblemError as error:
            self._tell(trial, Outcome(None, reason(error), 0.0))
            raise
        return Proposed(trial, params)

    def _outcome(self, proposed: Proposed) -> Outcome:
        if proposed.rejected:
            return Outcome(None, f"rejected by the space: {proposed.rejected}", 0.0)
        try:
            result: Outcome = self.workers.result(proposed.trial.number)
        except WorkerDied:
            why = "every worker that ran it died; it may need more memory than there is"
            return Outcome(None, f"WorkerDied: {why}", 0.0)
        except OutOfTime:
            return Outcome(None, "OutOfTime: it ran longer than trial_timeout", 0.0)
        except Exception as error:  # for example, an outcome that could not be read
            return Outcome(None, reason(error), 0.0)
        return result

    def _tell(self, trial: Trial, outcome: Outcome) -> None:
        if outcome.risk is None:
            logger.info("trial %d failed: %s", trial.number, outcome.failure)
            trial.set_user_attr(FAILURE, outcome.failure)
            trial.set_user_attr(SECONDS, outcome.seconds)
            self._tell_study(trial, state=TrialState.FAIL)
            return
        trial.set_user_attr(RISK, outcome.risk.to_record())
        trial.set_user_attr(VARIANCE_KEY, outcome.risk.row_variance)
        trial.set_user_attr(MEAN_LOSS, outcome.mean_loss)
        trial.set_user_attr(SECONDS, outcome.seconds)
        answers = outcome.answers
        trial.set_user_attr(ANSWERS_BYTES, 0 if answers is None else answers.nbytes)
        if answers is not None:  # before the trial is finished: then they are never missing
            self.answers.put(trial.number, answers)
        self._tell_study(trial, outcome.risk.value)
        self.answers.keep(candidates(finished_trials(self.study)))

    def _tell_study(self, trial: Trial, value: float | None = None, **options: Any) -> None:
        try:
            self.study.tell(trial, value, **options)
        except RuntimeError as error:
            # A sampler that has tried everything (a grid) stops the study, which Optuna allows
            # inside its own loop only. The trial is stored by then.
            if "stop" not in str(error).lower():
                raise
            self.exhausted = True
