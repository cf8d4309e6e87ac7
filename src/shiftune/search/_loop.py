"""Loop of trials: propose, evaluate, record; in an order that does not depend on timing."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState
from tqdm.auto import tqdm

from shiftune import _interrupts
from shiftune.errors import NoWorkersError, ProblemError, StorageError
from shiftune.evaluate._fits import Predictions, PreparedRows
from shiftune.models._space import check_names
from shiftune.risk._result import RiskEstimate
from shiftune.search._families import Family, FamilyWeights, Plan, family_of, plan_next, sampler_for
from shiftune.search._settings import Settings, sampler_named
from shiftune.search._storage import PredictionStore, candidates, complete_predictions, open_driver
from shiftune.search._trial import (
    DEFAULTS,
    FAILURE,
    MODEL,
    OUT_OF_TIME,
    PREDICTIONS_BYTES,
    REJECTED,
    RISK,
    SECONDS,
    Candidate,
    Fitted,
    Outcome,
    Piece,
    TrialContext,
    TrialEnded,
    combined,
    finished_trials,
    outcome_of,
    reason,
    run_piece,
)
from shiftune.search.gp import VARIANCE_KEY
from shiftune.workers import OutOfTime, WorkerDied, Workers, number_of_workers

logger = logging.getLogger("shiftune")


class Proposed(NamedTuple):
    """A trial under way, with its outcome if the space rejects it."""

    trial: Trial
    candidate: Candidate
    rejected: Outcome | None = None


class Loop:
    """Keep workers busy with trials until enough are finished.

    Results are recorded in the order in which the trials were proposed: the next proposal sees
    the same history whichever trial is faster, and a run with several workers can be repeated bit
    for bit (with any sampler whose proposals depend on its seed and the history alone).

    A driver that was stopped or killed leaves trials without a result. They are evaluated first,
    with the parameters they had. Where several drivers share the study, the history that a proposal
    sees depends on their speed.
    """

    def __init__(
        self,
        settings: Settings,
        context: TrialContext,
        study: optuna.Study,
        predictions: PredictionStore,
    ) -> None:
        self.settings = settings
        self.study = study
        self.predictions = predictions
        self.driver = open_driver(settings.storage, study, join=settings.join)
        self.context = context
        self.stopped = False
        self.under_way: deque[Proposed] = deque()

    def run(self) -> None:
        """Run until the study has enough finished trials or the time is over.

        The first trial of a study is begun in any case.

        An interrupt is raised before a trial is proposed and while one is waited for, never
        while one is recorded.
        """
        settings, study, n_trials = self.settings, self.study, self.settings.n_trials
        earlier = finished_trials(study)
        study.sampler = self.sampler = sampler_named(
            settings.sampler, settings.random_state, len(earlier), self.driver.number
        )
        if len(settings.families) > 1 and not settings.join:
            # The families' shares in the budget depend on them.
            trial_predictions(settings, self.context, study, self.predictions, candidates(earlier))
        prepared = PreparedRows(number_of_workers(settings.n_jobs))
        context = replace(self.context, prepared=prepared, catch=settings.catch)
        self.weights = FamilyWeights(study, context, self.predictions)
        with (
            self.driver.at_work(),
            TrialWorkers(settings, context, n_trials - len(earlier)) as self.workers,
            Progress(n_trials, list(map(outcome_of, earlier)), settings.progress) as progress,
        ):
            end = None if settings.timeout is None else time.monotonic() + settings.timeout
            try:
                while self._has_trials(end, progress):
                    trial, _, rejected = self.under_way[0]
                    try:
                        outcome = rejected or self.workers.result(trial.number)
                    except (StorageError, NoWorkersError):
                        raise  # no fault of the trial, which runs again with the next call
                    except Exception as error:
                        # Of the model, or about an outcome that could not be read.
                        outcome = Outcome(None, reason(error), 0.0)
                        if not isinstance(error, settings.catch):
                            self.under_way.popleft()
                            self._tell(trial, outcome)
                            raise
                    self.under_way.popleft()
                    if self._recorded(trial, outcome):
                        progress.update(outcome)
                        self._call_back(trial)
            except BaseException:
                if settings.storage is None:
                    # Nobody can continue the study: the trials under way end. They have failed
                    # without a reason, so they do not count as finished.
                    while self.under_way:
                        self._tell_study(self.under_way.popleft().trial, state=TrialState.FAIL)
                raise

    def _has_trials(self, end: float | None, progress: Progress) -> bool:
        """Begin trials, or wait for those of other drivers; False when there are no more."""
        while True:
            self._begin_trials(end)
            for others in self.driver.finished_by_others():
                progress.update(others)
            if self.under_way:
                return True
            if self.stopped or self._is_over(end) or not self.driver.wait(self.settings.n_trials):
                return False

    def _begin_trials(self, end: float | None) -> None:
        """Keep the workers busy, as long as there is time and a place for another trial."""
        n_trials = self.settings.n_trials
        while len(self.under_way) < self.workers.look_ahead and self.driver.has_place(n_trials):
            if self.stopped or self._is_over(end):
                return
            _interrupts.check()
            orphan = self.driver.orphan(n_trials)
            if orphan is None:
                proposed = self._ask()
            else:
                if self.workers.n_workers > 1 or self.driver.suspects(orphan):
                    self.workers.start()
                proposed = self._adopt(orphan)
            if proposed is None:
                return
            self.under_way.append(proposed)
            if proposed.rejected is None:
                self.workers.submit(proposed.trial.number, proposed.candidate)

    def _is_over(self, end: float | None) -> bool:
        return end is not None and time.monotonic() >= end and self.driver.has_begun()

    def _ask(self) -> Proposed | None:
        planned = self._plan_next()
        marks: dict[str, Any] = {MODEL: planned.family.name} if planned.family.name else {}
        params = planned.family.first_params() if planned.defaults else None
        if planned.defaults:
            marks[DEFAULTS] = True
        self.study.sampler = sampler_for(planned, self.sampler, self.study)
        trial = self.driver.ask(self.settings.n_trials, params, marks)
        return None if trial is None else self._proposed(trial, planned.family)

    def _adopt(self, orphan: FrozenTrial) -> Proposed:
        if MODEL in orphan.user_attrs:
            family = family_of(self.settings.families, orphan)
            planned = Plan(family, DEFAULTS in orphan.user_attrs)
        else:
            planned = self._plan_next()
        self.study.sampler = sampler_for(planned, self.sampler, self.study)
        return self._proposed(Trial(self.study, orphan._trial_id), planned.family)

    def _plan_next(self) -> Plan:
        timeout, families = self.settings.timeout, self.settings.families
        seconds = None if timeout is None else timeout * self.workers.n_workers
        return plan_next(self.study, families, self.weights, seconds)

    def _proposed(self, trial: Trial, family: Family) -> Proposed:
        """Get the parameters; a combination that a user's function rejects is a failed trial."""
        marks = trial.user_attrs
        family = self.settings.families[marks.get(MODEL, family.name)]
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
            rejected = Outcome(None, f"{REJECTED}: {reason(error)}", 0.0)
            return Proposed(trial, Candidate({}, family.name), rejected)
        try:
            check_names(family.estimator, params)
        except ProblemError as error:
            self._tell(trial, Outcome(None, reason(error), 0.0))
            raise
        return Proposed(trial, Candidate(params, family.name))

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

    def _tell(self, trial: Trial, outcome: Outcome) -> None:
        if outcome.risk is None:
            logger.info("trial %d failed: %s", trial.number, outcome.failure)
            trial.set_user_attr(FAILURE, outcome.failure)
            trial.set_user_attr(SECONDS, outcome.seconds)
            self._tell_study(trial, state=TrialState.FAIL)
            return
        trial.set_user_attr(RISK, outcome.risk.to_record())
        trial.set_user_attr(VARIANCE_KEY, outcome.risk.criterion_variance)
        trial.set_user_attr(SECONDS, outcome.seconds)
        kept = outcome.predictions
        trial.set_user_attr(PREDICTIONS_BYTES, 0 if kept is None else kept.nbytes)
        if kept is not None:  # before the trial is finished: then they are never missing
            self.predictions.put(trial.number, kept)
        self._tell_study(trial, outcome.risk.criterion)
        finished = finished_trials(self.study)
        # Others may be about to record trials whose predictions they have written.
        alone = self.driver.number is None
        among = None if alone else [trial.number for trial in finished]
        self.predictions.keep(candidates(finished), among)

    def _tell_study(self, trial: Trial, value: float | None = None, **options: Any) -> None:
        # A sampler that has tried everything (a grid) stops the study. The trial is stored by then.
        self._unless_stopped(lambda: self.study.tell(trial, value, **options))

    def _call_back(self, trial: Trial) -> None:
        if not self.settings.callbacks:
            return
        (recorded,) = [t for t in self.study.get_trials() if t.number == trial.number]
        for callback in self.settings.callbacks:
            self._unless_stopped(partial(callback, self.study, recorded))

    def _unless_stopped(self, call: Callable[[], object]) -> None:
        """Call a function that may stop the study, which Optuna allows inside its own loop only."""
        try:
            call()
        except RuntimeError as error:
            if "`Study.stop`" not in str(error):
                raise
            self.stopped = True


def trial_predictions(
    settings: Settings,
    context: TrialContext,
    study: optuna.Study,
    store: PredictionStore,
    numbers: Iterable[int],
) -> dict[int, Predictions]:
    """Return the predictions of trials by their numbers; missing ones are computed again."""
    trials = {trial.number: trial for trial in finished_trials(study)}
    items = {n: family_of(settings.families, trials[n]).candidate(trials[n]) for n in numbers}
    return complete_predictions(store, items, lambda: TrialWorkers(settings, context, len(items)))


# Numbers in a table (rows times columns) from which a single fit may take seconds: workers then
# start at once.
LARGE = 1_000_000


def look_ahead(n_workers: int, n_fits: int) -> int:
    """Return how many trials of so many fits are under way at once.

    So many that every worker has a fit, and one more: every trial under way is one whose result the
    next proposal does not know (`benchmarks/look_ahead.py`).

    >>> look_ahead(1, 5), look_ahead(2, 5), look_ahead(2, 1), look_ahead(40, 5)
    (1, 2, 3, 9)
    """
    return 1 if n_workers == 1 else math.ceil(n_workers / n_fits) + 1


class TrialWorkers:
    """Workers of a search that evaluate trials by their numbers.

    Every fit of a trial is an item of the workers. The first one comes before the others, unless
    workers are idle: they are dropped if it fails. `trial_timeout` is for all fits of a trial, one
    after the other. If there will be about `n_trials`, cheap ones run in this process.
    """

    def __init__(
        self, settings: Settings, context: TrialContext, n_trials: int | None = None
    ) -> None:
        self._context, self._folds = context, context.data.fold_numbers
        self.time_limit = settings.trial_timeout
        is_large = math.prod(context.data.X_train.shape) > LARGE
        self._workers = Workers(
            run_piece,
            context,
            n_jobs=settings.n_jobs,
            executor=settings.executor,
            time_limit=self.time_limit,
            n_items=None if n_trials is None or is_large else n_trials * len(self._folds),
            warm_up=len(self._folds),
        )
        # Fixed for the whole run: what a proposal sees must not depend on timing.
        self.n_workers = max(self._workers.n_workers, 1)
        self.look_ahead = look_ahead(self.n_workers, len(self._folds))

    def start(self) -> None:
        """Start workers now: a trial that may have ended a driver does not run in this process."""
        self._workers.start()

    def submit(self, number: int, candidate: Candidate) -> None:
        """Evaluate a trial as soon as workers are free."""
        first, *others = self._folds
        self._workers.submit((number, first), Piece(candidate, first))
        for fold in others:
            self._workers.submit((number, fold), Piece(candidate, fold), after=(number, first))

    def result(self, number: int) -> Outcome:
        """Wait for a trial; the death of its worker and the end of its time are its failure."""
        pieces: dict[int, Fitted] = {}
        try:
            for fold in self._folds:
                pieces[fold] = self._workers.result((number, fold))
                seconds = sum(piece.seconds for piece in pieces.values())
                if self.time_limit is not None and seconds > self.time_limit:
                    raise OutOfTime
        except Exception as error:
            for fold in self._folds:
                self._workers.drop((number, fold))
            if isinstance(error, TrialEnded):
                return error.outcome
            if isinstance(error, WorkerDied):
                return Outcome(None, f"WorkerDied: {error.why}", 0.0)
            if isinstance(error, OutOfTime):
                failure = f"{OUT_OF_TIME}: it ran longer than trial_timeout"
                return Outcome(None, failure, self.time_limit or 0.0)
            raise
        return combined(self._context, pieces)

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._workers.__exit__(*error)


# Formats of the line, from the fullest to the barest; the first that fits the terminal is shown.
# None is tqdm's own, which has the rate too.
LAYOUTS = (
    None,
    "{n_fmt}/{total_fmt} [{remaining} left{postfix}]",
    "{n_fmt}/{total_fmt}{postfix}",
    "{n_fmt}/{total_fmt}",
)


class Progress:
    """Bar with the number of trials, the best risk with its interval, and the failures.

    Narrow terminals show fewer parts, none of them cut: the bar and the rate are dropped first,
    then the time. `total` counts all trials, also the `earlier` ones of a run that is
    continued; with None in `show`, the bar is shown on terminals and in notebooks only.
    """

    def __init__(self, total: int, earlier: Sequence[Outcome], show: bool | None) -> None:
        visible = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
        self._bar = tqdm(total=total, initial=len(earlier), disable=not visible, unit="trial")
        self._best: RiskEstimate | None = None
        self._failed = 0
        for outcome in earlier:
            self._note(outcome)

    def update(self, outcome: Outcome) -> None:
        """Count a trial."""
        self._note(outcome)
        if not self._bar.disable:
            self._lay_out()
        self._bar.update()

    def text(self) -> str:
        """Text beside the bar.

        >>> Progress(5, [], False).text()
        'no result yet'
        """
        text = "no result yet"
        if self._best is not None:
            low, high = self._best.interval()
            text = f"best {self._best.value:.4g} ({low:.4g} to {high:.4g})"
        return text + (f", {self._failed} failed" if self._failed else "")

    def _lay_out(self) -> None:
        """Choose the fullest layout that fits the terminal; longer lines would fill the screen."""
        now = self._bar.format_dict | {"n": self._bar.n + 1, "ncols": None}  # a bar of 10 columns
        text = self.text()
        for layout in LAYOUTS:
            line = tqdm.format_meter(**now | {"bar_format": layout, "postfix": text})
            # A notebook has no width in columns.
            if not isinstance(self._bar.ncols, int) or len(line) <= self._bar.ncols:
                break
        self._bar.bar_format = layout
        self._bar.set_postfix_str(text, refresh=False)

    def _note(self, outcome: Outcome) -> None:
        self._failed += bool(outcome.failure)
        risk = outcome.risk
        if risk is not None and (self._best is None or risk.criterion < self._best.criterion):
            self._best = risk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
