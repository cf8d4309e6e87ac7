"""Run items elsewhere, and see them through when workers die."""

from __future__ import annotations

import logging
import math
from collections import deque
from concurrent.futures import BrokenExecutor, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import joblib

from shiftune.workers import in_worker
from shiftune.workers.in_worker import OutOfTime
from shiftune.workers.pools import open_pool

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from shiftune.workers.in_worker import Task
    from shiftune.workers.pools import ExecutorFactory, Pool

__all__ = ["OutOfTime", "WorkerDied", "Workers"]

logger = logging.getLogger("shiftune")

MAX_DEATHS = 3
POLL_SECONDS = 0.1


class WorkerDied(RuntimeError):  # noqa: N818 - it is what happened to the item, not a mistake
    """An item was given up because the workers that ran it died."""


@dataclass(slots=True, eq=False)
class _Item:
    """An item without an outcome yet; ``future`` is None until it is handed to the pool."""

    key: int
    payload: bytes
    future: Future[bytes] | None = None
    attempts: int = 0
    deaths: int = 0

    @property
    def name(self) -> str:
        return f"item-{self.key}-{self.attempts}"


class Workers:
    """Run ``task(context, item)`` elsewhere; every worker gets the context once, not per item.

    A worker that dies (killed by the system for its memory, say) costs what was running: there are
    new workers then, and the items without a result are run again, one at a time, so that one that
    kills its worker is told from those beside it. It is given up after three times; its neighbours
    are not.

    Parameters
    ----------
    task
        A function at the top level of a module.
    context
        What all items need: anything that can be pickled. Large arrays in it are shared between
        the processes of a machine. A task that changes its context does so for the items that the
        same worker runs later.
    n_jobs
        Number of processes; -1 for as many as there are cores, -2 for one less, and so on. With
        1, without executor and time limit, the items run in this process, inside `result`.
    executor
        Instead of ``n_jobs``: a callable without arguments that returns a new
        `concurrent.futures.Executor`, for example the method ``get_executor`` of a Dask client.
        It is called again when workers have died. Its workers need to see this machine's temporary
        files, except Dask's, to which the context is sent.
    time_limit
        Seconds that an item may run; then `OutOfTime` is raised inside the task, as soon as it
        executes Python code. With ``n_jobs``, the workers are killed (the other items are run
        again) if the item is still running after ``max(5, time_limit / 2)`` seconds more, which is
        noticed while the driver waits in `result`. With ``executor`` they are not, and where tasks
        run in threads (`ThreadPoolExecutor`, Dask) the limit has no effect at all.

    Notes
    -----
    For one thread only. Keys are the caller's: any integers, each used for one item.

    Examples
    --------
    >>> from operator import mul
    >>> with Workers(mul, 10, n_jobs=2) as workers:
    ...     for key, item in enumerate([1, 2, 3]):
    ...         workers.submit(key, item)
    ...     [workers.result(key) for key in range(3)]
    [10, 20, 30]
    """

    def __init__(
        self,
        task: Task,
        context: Any,
        *,
        n_jobs: int = 1,
        executor: ExecutorFactory | None = None,
        time_limit: float | None = None,
    ) -> None:
        if time_limit is not None and not (0 < time_limit < math.inf):
            raise ValueError(
                f"time_limit must be None or a number of seconds > 0, got {time_limit}"
            )
        if executor is not None and n_jobs != 1:
            raise ValueError(f"give n_jobs or executor, not both; got n_jobs={n_jobs}")
        n_workers = _number_of_workers(n_jobs)
        self._task = task
        self._context = context
        self._items: dict[int, _Item] = {}
        self._local_items: dict[int, Any] = {}
        self._outcomes: dict[int, bytes | BaseException] = {}
        # After a death: the items to be run one at a time. The first one is running, all others
        # (also those submitted in the meantime) wait.
        self._quarantine: deque[_Item] = deque()
        self._closed = False
        self._pool: Pool | None = None
        if n_workers > 1 or executor is not None or time_limit is not None:
            self._pool = open_pool(
                context, n_jobs=n_workers, executor=executor, time_limit=time_limit
            )

    @property
    def capacity(self) -> int:
        """How many items should be in flight to keep all workers busy.

        One more than there are workers: it waits where a worker can take it without the driver.
        A Dask cluster is asked every time, because workers come and go.
        """
        return 1 if self._pool is None else self._pool.n_workers + 1

    def submit(self, key: int, item: Any) -> None:
        """Have an item run."""
        if self._closed:
            raise RuntimeError("these workers are closed")
        if self._knows(key):
            raise ValueError(f"key {key} is in use")
        if self._pool is None:
            self._local_items[key] = item
            return
        self._items[key] = _Item(key, in_worker.pack_item(self._task, item))
        if not self._quarantine:
            self._hand_over(self._items[key], self._pool)

    def result(self, key: int) -> Any:
        """Wait for an item and return what the task returned, once.

        Raises
        ------
        WorkerDied
            If the item was given up.
        OutOfTime
            If it ran longer than the time limit.
        Exception
            Whatever the task raised.
        """
        if self._closed:
            raise RuntimeError("these workers are closed")
        if not self._knows(key):
            raise KeyError(f"no item {key} was submitted, or its result was fetched before")
        if self._pool is None:
            return self._task(self._context, self._local_items.pop(key))
        while key not in self._outcomes:
            self._wait_for(self._quarantine[0] if self._quarantine else self._items[key])
        outcome = self._outcomes.pop(key)
        if isinstance(outcome, BaseException):
            raise outcome
        return in_worker.unpack(outcome)

    def close(self, *, kill: bool = False) -> None:
        """End the workers and remove the temporary file.

        Items that are running are waited for (those that wait are dropped), unless ``kill``.
        """
        if self._closed:
            return
        if self._pool is not None:
            try:
                for item in self._items.values():
                    if item.future is not None:
                        item.future.cancel()
                self._pool.close(kill=kill)
            except BaseException:
                self._pool.close(kill=True)  # Ctrl-C while waiting
                raise
            finally:
                self._closed = True
        self._closed = True
        self._items.clear()
        self._outcomes.clear()
        self._local_items.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close(kill=kind is not None)

    def _knows(self, key: int) -> bool:
        return key in self._items or key in self._outcomes or key in self._local_items

    def _hand_over(self, item: _Item, pool: Pool) -> None:
        item.attempts += 1
        try:
            item.future = pool.submit(item.name, item.payload)
        except BrokenExecutor as error:  # noticed before its own future could say so
            item.future = Future()
            item.future.set_exception(error)

    def _wait_for(self, item: _Item) -> None:
        """Wait for an item that was handed over, a moment only; see to what happens meanwhile."""
        pool = self._pool
        assert pool is not None
        if item.future is None:  # an earlier call was interrupted, or found no new workers
            self._hand_over(item, pool)
        assert item.future is not None
        # Short waits: on Windows an endless one does not hear Ctrl-C.
        wait([item.future], timeout=POLL_SECONDS)
        if item.future.done():
            self._collect(item, pool)
            return
        flying = [i for i in self._items.values() if i.future is not None and not i.future.done()]
        overdue = [i for i in flying if pool.is_overdue(i.name)]
        if overdue:
            self._cut_off(overdue, pool)

    def _collect(self, item: _Item, pool: Pool) -> None:
        assert item.future is not None
        try:
            outcome: bytes | BaseException = item.future.result()
        except pool.deaths as death:
            self._recover(item, death, pool)
            return
        except Exception as error:  # of the pool, about this item
            outcome = error
        self._finish(item, outcome, pool)

    def _finish(self, item: _Item, outcome: bytes | BaseException, pool: Pool) -> None:
        del self._items[item.key]
        self._outcomes[item.key] = outcome
        if self._quarantine and self._quarantine[0] is item:
            self._quarantine.popleft()
            self._resume(pool)

    def _resume(self, pool: Pool) -> None:
        """Hand over what may run now: the next item in quarantine, or all that wait."""
        waiting = [self._quarantine[0]] if self._quarantine else list(self._items.values())
        for item in waiting:
            if item.future is None:
                self._hand_over(item, pool)

    def _recover(self, item: _Item, death: BaseException, pool: Pool) -> None:
        flying = [i for i in self._items.values() if i.future is not None]
        if isinstance(death, BrokenExecutor):
            # The executor is telling all its futures; some may have got a result before.
            wait([i.future for i in flying if i.future is not None], timeout=1.0)
        for i in flying:
            if i is not item and i.future is not None and _has_result(i.future):
                self._outcomes[i.key] = i.future.result()
                del self._items[i.key]
        flying = [i for i in flying if i.key in self._items]
        alone = len(flying) == 1
        given_up = []
        for i in flying:
            # Beside others, an item that was running may have been the one. If it was not, the
            # one death held against it does no harm: it will run alone next and finish.
            i.deaths += alone or pool.was_taken(i.name)
            if alone and isinstance(death, pool.final_deaths):
                i.deaths = MAX_DEATHS
            i.future = None
            if i.deaths >= MAX_DEATHS:
                given_up.append(i)
                del self._items[i.key]
                self._outcomes[i.key] = WorkerDied(
                    f"item {i.key} was given up: every worker that ran it died, the last time "
                    f"with {type(death).__name__}. It may need more memory than there is, or "
                    f"crash compiled code."
                )
        suspects = [i for i in flying if i not in given_up]
        self._quarantine = self._quarantine or deque(suspects)
        while self._quarantine and self._quarantine[0] in given_up:
            self._quarantine.popleft()
        logger.warning(
            "a worker died (%s): new workers; items given up: %s; to be run one at a time: %s",
            type(death).__name__,
            [i.key for i in given_up],
            [i.key for i in self._quarantine],
        )
        pool.rebuild()
        self._resume(pool)

    def _cut_off(self, overdue: list[_Item], pool: Pool) -> None:
        logger.warning(
            "killing the workers: %s did not heed the time limit; the other items are run again",
            [i.key for i in overdue],
        )
        for item in self._items.values():
            if item.future is not None and not _has_result(item.future):
                item.future = None
        for item in overdue:
            if item.future is None:
                del self._items[item.key]
                self._outcomes[item.key] = OutOfTime(
                    f"item {item.key} ran longer than the time limit and was killed"
                )
        if self._quarantine and self._quarantine[0].key not in self._items:
            self._quarantine.popleft()
        pool.rebuild()
        self._resume(pool)


def _number_of_workers(n_jobs: int) -> int:
    """Read ``n_jobs`` as joblib does.

    >>> _number_of_workers(3), _number_of_workers(-10_000)
    (3, 1)
    """
    if n_jobs == 0:
        raise ValueError(
            "n_jobs must be the number of processes, or -1 for as many as there are cores; got 0"
        )
    return n_jobs if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + n_jobs)


def _has_result(future: Future[bytes]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
