"""Running the trials of a search: workers, loop, progress, answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from shiftune.evaluate.prepared_rows import PreparedRows
from shiftune.search._storage import candidates, complete_answers, open_driver
from shiftune.search.families import family_of
from shiftune.search.family_weights import FamilyWeights
from shiftune.search.loop import Loop
from shiftune.search.progress import Progress
from shiftune.search.records import finished_trials, outcome_of
from shiftune.search.samplers import sampler_named
from shiftune.search.trial import TrialContext
from shiftune.search.trial_workers import TrialWorkers
from shiftune.workers import number_of_workers

if TYPE_CHECKING:
    from shiftune.evaluate.answers import Answers
    from shiftune.search.search import ShiftSearch


def run_trials(search: ShiftSearch, context: TrialContext) -> None:
    """Add trials to the study of a search until it has enough."""
    study, families, answers = search.study_, search.families_, search.answers_
    driver = open_driver(search.storage, study, join=search.join)
    earlier = finished_trials(study)
    study.sampler = sampler_named(search.sampler, search.random_state, len(earlier), driver.number)
    prepared = PreparedRows(number_of_workers(search.n_jobs))
    context = replace(context, prepared=prepared, catch=search.catch)
    if len(families) > 1 and not search.join:  # the families' shares in the budget depend on them
        trial_answers(search, candidates(earlier))
    with (
        driver.at_work(),
        _workers(search, context, search.n_trials - len(earlier)) as workers,
        Progress(search.n_trials, list(map(outcome_of, earlier)), search.progress) as progress,
    ):
        weights = FamilyWeights(study, context, answers)
        loop = Loop(
            study,
            families,
            workers,
            weights,
            answers,
            driver,
            search.timeout,
            callbacks=search.callbacks or (),
            catch=search.catch,
        )
        try:
            loop.run(search.n_trials, progress)
        except BaseException:
            if search.storage is None:
                loop.abandon()
            raise


def trial_answers(search: ShiftSearch, numbers: Iterable[int]) -> dict[int, Answers]:
    """Return the answers of trials by their numbers; missing ones are computed again."""
    trials = {trial.number: trial for trial in finished_trials(search.study_)}
    items = {
        number: family_of(search.families_, trials[number]).candidate(trials[number])
        for number in numbers
    }
    return complete_answers(
        search.answers_, items, lambda: _workers(search, search.context_, len(items))
    )


def _workers(
    search: ShiftSearch, context: TrialContext, n_trials: int | None = None
) -> TrialWorkers:
    return TrialWorkers(
        context,
        n_jobs=search.n_jobs,
        executor=search.executor,
        time_limit=search.trial_timeout,
        n_trials=n_trials,
    )
