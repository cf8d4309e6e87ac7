"""Workers that evaluate trials, whose fits they share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shiftune.evaluate.plan import independent_fits
from shiftune.search.trial import Fitted, Outcome, Piece, TrialEnded, combined, run_piece
from shiftune.workers import OutOfTime, Workers

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from shiftune.evaluate.plan import Fit
    from shiftune.search.trial import Candidate, TrialContext

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
    """Workers that evaluate trials by their numbers.

    Where the fits of the plan are independent, each of them is an item of the workers; otherwise a
    whole trial is. The first fit of a trial comes before its others, unless workers are idle: they
    are dropped if it fails.

    Parameters
    ----------
    context : TrialContext
    n_jobs, executor : see `Workers`
    time_limit : float, optional
        Seconds that all fits of a trial may take, one after the other.
    n_trials : int, optional
        About how many trials there will be: cheap ones then run in this process.
    """

    def __init__(
        self,
        context: TrialContext,
        *,
        n_jobs: int = 1,
        executor: Any = None,
        time_limit: float | None = None,
        n_trials: int | None = None,
    ) -> None:
        self._context = context
        self._fits: list[Fit | None] = [*independent_fits(context.plan, context.data)] or [None]
        is_large = math.prod(context.data.X_train.shape) > LARGE
        self._workers = Workers(
            run_piece,
            context,
            n_jobs=n_jobs,
            executor=executor,
            time_limit=time_limit,
            n_items=None if n_trials is None or is_large else n_trials * len(self._fits),
            warm_up=len(self._fits),
        )
        # Fixed for the whole run: what a proposal sees must not depend on timing.
        self.n_workers = max(self._workers.n_workers, 1)
        self.look_ahead = look_ahead(self.n_workers, len(self._fits))
        self.time_limit = time_limit

    def start(self) -> None:
        """Start workers now: a trial that may have ended a driver does not run in this process."""
        self._workers.start()

    def submit(self, number: int, candidate: Candidate) -> None:
        """Evaluate a trial as soon as workers are free."""
        first, *others = self._fits
        self._workers.submit((number, first), Piece(candidate, first))
        for fit in others:
            self._workers.submit((number, fit), Piece(candidate, fit), after=(number, first))

    def result(self, number: int) -> Outcome:
        """Wait for a trial; raises what `Workers.result` raises."""
        found: dict[Any, Any] = {}
        try:
            for fit in self._fits:
                found[fit] = self._workers.result((number, fit))
                self._check_time(found.values())
        except Exception as error:
            for fit in self._fits:
                self._workers.drop((number, fit))
            if isinstance(error, TrialEnded):
                return error.outcome
            raise
        if None in found:
            whole: Outcome = found[None]
            return whole
        return combined(self._context, found)

    def _check_time(self, found: Collection[Outcome | Fitted]) -> None:
        seconds = sum(each.seconds for each in found)
        if self.time_limit is not None and seconds > self.time_limit:
            raise OutOfTime(f"{len(found)} of {len(self._fits)} fits took {seconds:.3g} s")

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._workers.__exit__(*error)
