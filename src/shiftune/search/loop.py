"""Loop of trials: propose, evaluate, record; in an order that does not depend on timing."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from shiftune import interrupts
from shiftune.errors import NoWorkersError, ProblemError, StorageError
from shiftune.models.space import check_names
from shiftune.search import race
from shiftune.search._storage import candidates
from shiftune.search.families import Families, Family
from shiftune.search.gp import VARIANCE_KEY
from shiftune.search.records import (
    ANSWERS_BYTES,
    BAR,
    DEFAULTS,
    FAILURE,
    MEAN_LOSS,
    MODEL,
    OUT_OF_TIME,
    PARAMS,
    REJECTED,
    RISK,
    SECONDS,
    finished_trials,
)
from shiftune.search.trial import CATCH, Candidate, Outcome, reason
from shiftune.search.turns import Turn, Turns
from shiftune.workers import OutOfTime, WorkerDied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shiftune.search._driver import Driver
    from shiftune.search._storage import AnswerStore
    from shiftune.search.progress import Progress
    from shiftune.search.trial_workers import TrialWorkers

Callback = Callable[[optuna.Study, optuna.trial.FrozenTrial], object]

logger = logging.getLogger("shiftune")


class Proposed(NamedTuple):
    """A trial under way."""

    trial: Trial
    candidate: Candidate
    rejected: str = ""


class Loop:
    """Keep workers busy with trials until enough are finished.

    Results are recorded in the order in which the trials were proposed: the next proposal sees
    the same history whichever trial is faster, and a run with several workers can be repeated bit
    for bit (with any sampler whose proposals depend on its seed and the history alone).

    A driver that was stopped or killed leaves trials without a result. They are evaluated first,
    with the parameters they had. Where several drivers share the study, the history that a proposal
    sees depends on their speed.

    Parameters
    ----------
    study : optuna.Study
        With the sampler of the search; families that have names get one each.
    families : mapping from names to Family
    workers : TrialWorkers
    weights : function
        Returns weights of the families, from the trials recorded so far; see `next_family`.
    answers : AnswerStore
        It receives the answers of every trial.
    driver : Driver
        Decides which trials this process begins.
    timeout : float, optional
        Seconds after which `run` begins no trial; they limit the families' first trials, by the
        times of the recorded ones.
    races : bool
        Whether trials whose first model is poor are stopped after it (`shiftune.search.race`).
    callbacks : functions of the study and a finished trial
        Called after every trial, in the order of the trials.
    catch : exception class or tuple of them
        Errors of a trial that make it fail; others are raised, once the trial has failed.
    """

    def __init__(
        self,
        study: optuna.Study,
        families: Families,
        workers: TrialWorkers,
        weights: Callable[[], Mapping[str, float]],
        answers: AnswerStore,
        driver: Driver,
        timeout: float | None = None,
        *,
        races: bool = False,
        callbacks: Sequence[Callback] = (),
        catch: type[BaseException] | tuple[type[BaseException], ...] = CATCH,
    ) -> None:
        self.study = study
        self.families = families
        self.workers = workers
        self.answers = answers
        self.driver = driver
        self.timeout = timeout
        self.races = races
        self.callbacks = callbacks
        self.catch = catch
        self.turns = Turns(study, families, weights)
        self.stopped = False
        self.under_way: deque[Proposed] = deque()

    def run(self, n_trials: int, progress: Progress) -> None:
        """Run until the study has `n_trials` finished trials or the time is over.

        The first trial of a study is begun in any case.

        An interrupt is raised before a trial is proposed and while one is waited for, never
        while one is recorded.
        """
        end = None if self.timeout is None else time.monotonic() + self.timeout
        while True:
            self._begin_trials(n_trials, end)
            for others in self.driver.finished_by_others():
                progress.update(others)
            if not self.under_way:
                if self.stopped or self._is_over(end) or not self.driver.wait(n_trials):
                    return
                continue
            outcome = self._outcome(self.under_way[0])
            trial = self.under_way.popleft().trial
            if self._recorded(trial, outcome):
                progress.update(outcome)
                self._call_back(trial)

    def _begin_trials(self, n_trials: int, end: float | None) -> None:
        """Keep the workers busy, as long as there is time and a place for another trial."""
        while len(self.under_way) < self.workers.look_ahead and self.driver.has_place(n_trials):
            if self.stopped or self._is_over(end):
                return
            interrupts.check()
            orphan = self.driver.orphan(n_trials)
            if orphan is None:
                proposed = self._ask(n_trials)
            else:
                if self.workers.n_workers > 1 or self.driver.suspects(orphan):
                    self.workers.start()
                proposed = self._adopt(orphan)
            if proposed is None:
                return
            self.under_way.append(proposed)
            if not proposed.rejected:
                self.workers.submit(proposed.trial.number, self._with_bar(proposed))

    def _is_over(self, end: float | None) -> bool:
        return end is not None and time.monotonic() >= end and self.driver.has_begun()

    def _recorded(self, trial: Trial, outcome: Outcome) -> bool:
        """Record an outcome; False if another driver has taken the trial over and was faster."""
        try:
            self._tell(trial, outcome)
        except (UpdateFinishedTrialError, ValueError):
            if not self.driver.was_late(trial):
                raise
            logger.info("the result of trial %d is dropped: another driver has it", trial.number)
            return False
        self.driver.recorded(trial)
        return True

    def abandon(self) -> None:
        """End the trials under way, of a study that nobody can continue.

        They have failed without a reason, so they do not count as finished.
        """
        while self.under_way:
            self._tell_study(self.under_way.popleft().trial, state=TrialState.FAIL)

    def _ask(self, n_trials: int) -> Proposed | None:
        turn = self._next_turn()
        marks = {MODEL: turn.family.name} if turn.family.name else {}
        self.study.sampler = self.turns.sampler(turn)
        if turn.defaults:
            trial = self.driver.ask(n_trials, turn.family.first_params(), marks | {DEFAULTS: True})
        else:
            trial = self.driver.ask(n_trials, None, marks)
        return None if trial is None else self._proposed(trial, turn.family)

    def _adopt(self, orphan: optuna.trial.FrozenTrial) -> Proposed:
        turn = self.turns.of(orphan) or self._next_turn()
        self.study.sampler = self.turns.sampler(turn)
        return self._proposed(Trial(self.study, orphan._trial_id), turn.family)

    def _next_turn(self) -> Turn:
        return self.turns.next(
            None if self.timeout is None else self.timeout * self.workers.n_workers
        )

    def _proposed(self, trial: Trial, family: Family) -> Proposed:
        """Get the parameters; a combination that a user's function rejects is a failed trial."""
        marks = trial.user_attrs
        family = self.families[marks.get(MODEL, family.name)]
        if family.name and MODEL not in marks:
            trial.set_user_attr(MODEL, family.name)
        if DEFAULTS in marks and not family.first_params():
            return Proposed(trial, Candidate({}, family.name))
        try:
            params = family.suggest(trial)
        except ProblemError:
            raise
        except Exception as error:
            if not callable(family.space):
                raise
            return Proposed(trial, Candidate({}, family.name), reason(error))
        try:
            check_names(family.estimator, params)
        except ProblemError as error:
            self._tell(trial, Outcome(None, reason(error), 0.0))
            raise
        return Proposed(trial, Candidate(params, family.name))

    def _with_bar(self, proposed: Proposed) -> Candidate:
        """Return the candidate with its bar, which stays the same if the trial is run again."""
        trial, candidate = proposed.trial, proposed.candidate
        if self.races and BAR not in trial.user_attrs:
            recorded = self.study.get_trials(deepcopy=False)
            trial.set_user_attr(BAR, race.bar(recorded, candidate.family))
        return candidate._replace(bar=trial.user_attrs.get(BAR))

    def _outcome(self, proposed: Proposed) -> Outcome:
        if proposed.rejected:
            return Outcome(None, f"{REJECTED}: {proposed.rejected}", 0.0)
        try:
            return self.workers.result(proposed.trial.number)
        except WorkerDied as error:
            return Outcome(None, f"WorkerDied: {error.why}", 0.0)
        except OutOfTime:
            limit = self.workers.time_limit or 0.0
            return Outcome(None, f"{OUT_OF_TIME}: it ran longer than trial_timeout", limit)
        except (StorageError, NoWorkersError):
            raise  # no fault of the trial, which runs again with the next call
        except Exception as error:
            # Of the model, or about an outcome that could not be read.
            failed = Outcome(None, reason(error), 0.0)
            if not isinstance(error, self.catch):
                self._tell(self.under_way.popleft().trial, failed)
                raise
            return failed

    def _call_back(self, trial: Trial) -> None:
        if not self.callbacks:
            return
        (recorded,) = [t for t in self.study.get_trials() if t.number == trial.number]
        for callback in self.callbacks:
            self._unless_stopped(partial(callback, self.study, recorded))

    def _tell(self, trial: Trial, outcome: Outcome) -> None:
        if outcome.risk is None and not outcome.failure:
            self._tell_stopped(trial, outcome)
            return
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
        if outcome.params:
            trial.set_user_attr(PARAMS, dict(outcome.params))
        answers = outcome.answers
        trial.set_user_attr(ANSWERS_BYTES, 0 if answers is None else answers.nbytes)
        if answers is not None:  # before the trial is finished: then they are never missing
            self.answers.put(trial.number, answers)
        self._tell_study(trial, outcome.value)
        finished = finished_trials(self.study)
        # Others may be about to record trials whose answers they have written.
        alone = self.driver.number is None
        among = None if alone else [each.number for each in finished]
        self.answers.keep(candidates(finished), among)

    def _tell_stopped(self, trial: Trial, outcome: Outcome) -> None:
        """Record a trial that was stopped after its first model, as Optuna records pruned ones."""
        family = trial.user_attrs.get(MODEL, "")
        recorded = self.study.get_trials(deepcopy=False)
        value, variance = race.expected(recorded, family, outcome.mean_loss)
        trial.set_user_attr(VARIANCE_KEY, variance)
        trial.set_user_attr(MEAN_LOSS, outcome.mean_loss)
        trial.set_user_attr(SECONDS, outcome.seconds)
        trial.report(value, 0)
        self._tell_study(trial, state=TrialState.PRUNED)

    def _tell_study(self, trial: Trial, value: float | None = None, **options: Any) -> None:
        # A sampler that has tried everything (a grid) stops the study. The trial is stored by then.
        self._unless_stopped(lambda: self.study.tell(trial, value, **options))

    def _unless_stopped(self, call: Callable[[], object]) -> None:
        """Call a function that may stop the study, which Optuna allows inside its own loop only."""
        try:
            call()
        except RuntimeError as error:
            if "`Study.stop`" not in str(error):
                raise
            self.stopped = True
