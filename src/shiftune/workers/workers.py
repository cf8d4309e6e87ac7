"""Items that workers run, and run again when a worker dies."""

from __future__ import annotations

import logging
import math
import sys
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import joblib

from shiftune import interrupts
from shiftune.errors import SettingsError
from shiftune.workers import in_worker
from shiftune.workers.dask_pool import DaskPool
from shiftune.workers.in_worker import OutOfTime
from shiftune.workers.pools import FilePool, LokyPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from shiftune.workers.in_worker import Task
    from shiftune.workers.pools import ExecutorFactory, Pool

__all__ = ["OutOfTime", "WorkerDied", "Workers", "number_of_workers"]

logger = logging.getLogger("shiftune")

MAX_DEATHS = 3
POLL_SECONDS = 0.1


class WorkerDied(RuntimeError):  # noqa: N818 - the fate of an item, not a mistake
    """An item was given up because the workers that ran it died."""


@dataclass(slots=True, eq=False)
class _Item:
    """An item whose result has not been fetched."""

    key: int
    payload: Any
    """Bytes of `in_worker.pack_item`; the caller's object where items run in this process."""

    future: Future[bytes] | None = None
    """None until the item is handed to the pool."""

    outcome: bytes | BaseException | None = None
    attempts: int = 0
    deaths: int = 0
    """Workers that died while the item had been handed over; without neighbours, its own."""

    @property
    def name(self) -> str:
        return f"item-{self.key}-{self.attempts}"


class Workers:
    """Processes or a cluster that run ``task(context, item)``; each worker gets the context once.

    If a worker dies (killed by the system for its memory, for example), running items are lost.
    New workers are started, and the items without a result run again one at a time, so that an
    item that kills its worker does no harm to its neighbours. After three deaths an item is given
    up; at most one of them can be a neighbour's.

    Parameters
    ----------
    task
        A function at the top level of a module.
    context
        What all items need: anything that can be pickled. Large arrays in it are shared between
        the processes of a machine. A task that changes its context changes it for the items that
        the same worker runs later.
    n_jobs
        Number of processes; -1 for as many as there are cores, -2 for one less, and so on. With
        1, without executor and time limit, the items run in this process, inside `result`.
    executor
        Instead of ``n_jobs``: a callable without arguments that returns a new
        `concurrent.futures.Executor`, for example the method ``get_executor`` of a Dask client.
        It is called again when workers have died. Its workers must be able to read this machine's
        temporary files, except Dask's, which receive the context over the network.
    time_limit
        Seconds that an item may run; then `OutOfTime` is raised inside the task, as soon as it
        executes Python code. With ``n_jobs``, the workers are killed (the other items run again)
        if the item is still running after ``max(5, time_limit / 2)`` seconds more; the driver
        checks this while it waits in `result`. With ``executor`` they are not, and where tasks run
        in threads (`ThreadPoolExecutor`, Dask) the limit has no effect.

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
            raise SettingsError(
                f"time_limit must be None or a number of seconds > 0, got {time_limit}"
            )
        if executor is not None and n_jobs != 1:
            raise SettingsError(f"give n_jobs or executor, not both; got n_jobs={n_jobs}")
        n_workers = number_of_workers(n_jobs)
        self.time_limit = time_limit
        self._task = task
        self._context = context
        self._items: dict[int, _Item] = {}
        self._closed = False
        self._pool: Pool | None = None
        if executor is not None:
            self._pool = _pool_of(executor, context, time_limit)
        elif n_workers > 1 or time_limit is not None:
            self._pool = LokyPool(n_workers, context, time_limit=time_limit)

    @property
    def capacity(self) -> int:
        """Number of items in flight that keeps all workers busy.

        One more than there are workers: a worker can take it without waiting for the driver. The
        size of a Dask cluster is read every time, because workers come and go.
        """
        return 1 if self._pool is None else self._pool.n_workers + 1

    def submit(self, key: int, item: Any) -> None:
        """Run an item as soon as a worker is free."""
        if self._closed:
            raise RuntimeError("these workers are closed")
        if key in self._items:
            raise ValueError(f"key {key} is in use")
        if self._pool is None:
            self._items[key] = _Item(key, item)
        else:
            self._items[key] = _Item(key, in_worker.pack_item(self._task, item))
            self._hand_over(self._pool)

    def result(self, key: int) -> Any:
        """Wait for an item and return, once, what the task returned.

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
        if key not in self._items:
            raise KeyError(f"no item {key} was submitted, or its result was fetched before")
        item = self._items[key]
        if self._pool is None:
            del self._items[key]
            return self._task(self._context, item.payload)
        self._hand_over(self._pool)  # an earlier call may have been interrupted before it did
        while item.outcome is None:
            interrupts.check()
            self._wait_for(item, self._pool)
            self._hand_over(self._pool)
        del self._items[key]
        if isinstance(item.outcome, BaseException):
            raise item.outcome
        return in_worker.unpack(item.outcome)

    def completed(self, items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Run the items; yield the position and the result of each as soon as it is there.

        Without other processes the results come in order.

        >>> from operator import mul
        >>> with Workers(mul, 10, n_jobs=2) as workers:
        ...     sorted(workers.completed([1, 2, 3]))
        [(0, 10), (1, 20), (2, 30)]
        """
        waiting = enumerate(items)
        flying: list[int] = []
        while True:
            for key, item in islice(waiting, max(self.capacity - len(flying), 0)):
                self.submit(key, item)
                flying.append(key)
            if not flying:
                return
            interrupts.check()
            if self._pool is not None:
                wait(self._flying(), timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                self._end_overdue(self._pool)
            for key in [key for key in flying if self._is_ready(key)]:
                flying.remove(key)
                yield key, self.result(key)

    def _is_ready(self, key: int) -> bool:
        """Whether `result` need not wait, or has to see to a worker that died."""
        item = self._items[key]
        if self._pool is None or item.outcome is not None:
            return True
        return item.future is not None and item.future.done()

    def close(self, *, kill: bool = False) -> None:
        """End the workers and remove the temporary file.

        Waits for items that are running (those in the queue are dropped), unless ``kill``.
        """
        if self._closed:
            return
        self._closed = True
        if self._pool is not None:
            try:
                for future in () if kill and self._pool.kills else self._flying():
                    future.cancel()
                self._pool.close(kill=kill)
            except BaseException:
                self._pool.close(kill=True)  # Ctrl-C while waiting
                raise
        self._items.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(kill=kind is not None)

    def _flying(self) -> dict[Future[bytes], _Item]:
        """Return the items that were handed over, by their future."""
        return {
            item.future: item
            for item in self._items.values()
            if item.outcome is None and item.future is not None
        }

    def _hand_over(self, pool: Pool) -> None:
        """Give the pool what may run now: the first item with a death, alone, or else all."""
        waiting = [item for item in self._items.values() if item.outcome is None]
        for item in [item for item in waiting if item.deaths][:1] or waiting:
            if item.future is not None:
                continue
            item.attempts += 1
            try:
                item.future = pool.submit(item.name, item.payload)
            except BrokenExecutor as error:  # no future of the pool has raised it yet
                item.future = Future()
                item.future.set_exception(error)

    def _wait_for(self, item: _Item, pool: Pool) -> None:
        """Wait a moment for an item, or for the one that has to run alone before it."""
        flying = self._flying()
        future = item.future or next(iter(flying))
        # Short waits: on Windows an endless one cannot be interrupted by Ctrl-C.
        wait([future], timeout=POLL_SECONDS)
        if future.done():
            self._collect(future, flying[future], pool)
        else:
            self._end_overdue(pool)

    def _collect(self, future: Future[bytes], item: _Item, pool: Pool) -> None:
        try:
            item.outcome = future.result()
        except pool.deaths as death:
            self._recover(death, pool)
        except Exception as error:  # of the pool, about this item
            item.outcome = error

    def _recover(self, death: BaseException, pool: Pool) -> None:
        if isinstance(death, BrokenExecutor):
            # The executor gives this exception to all its futures that have no result yet.
            wait(self._flying(), timeout=1.0)
        lost = self._take_back()
        final = len(lost) == 1 and isinstance(death, pool.final_deaths)
        for item in lost:
            # Beside others, each may have been the cause. One death more does an innocent item
            # no harm: it runs alone next, and finishes.
            item.deaths += 1
            if final or item.deaths >= MAX_DEATHS:
                item.outcome = WorkerDied(
                    f"item {item.key} was given up: every worker that ran it died, the last time "
                    f"with {type(death).__name__}. It may need more memory than there is, or "
                    f"crash compiled code."
                )
        logger.warning(
            "a worker died (%s): new workers; items given up: %s; to be run one at a time: %s",
            type(death).__name__,
            [item.key for item in lost if item.outcome is not None],
            [i.key for i in self._items.values() if i.deaths and i.outcome is None],
        )
        pool.rebuild()

    def _end_overdue(self, pool: Pool) -> None:
        flying = self._flying()
        overdue = [i for f, i in flying.items() if not f.done() and pool.is_overdue(i.name)]
        if not overdue:
            return
        logger.warning(
            "killing the workers: %s exceeded the time limit; the other items are run again",
            [item.key for item in overdue],
        )
        for item in self._take_back():
            if item in overdue:
                item.outcome = OutOfTime(
                    f"item {item.key} ran longer than the time limit and was killed"
                )
        pool.rebuild()

    def _take_back(self) -> list[_Item]:
        """Keep the results there are; return the other items, as if not handed over."""
        lost = []
        for future, item in self._flying().items():
            if future.done() and not future.cancelled() and future.exception() is None:
                item.outcome = future.result()
            else:
                item.future = None
                lost.append(item)
        return lost


def number_of_workers(n_jobs: int) -> int:
    """Read ``n_jobs`` as joblib does.

    >>> number_of_workers(3), number_of_workers(-10_000)
    (3, 1)
    """
    if n_jobs == 0:
        raise SettingsError(
            "n_jobs must be the number of processes, or -1 for as many as there are cores; got 0"
        )
    return n_jobs if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + n_jobs)


def _pool_of(executor: ExecutorFactory, context: Any, time_limit: float | None) -> Pool:
    """Return the pool for a user's executor."""
    first = executor()
    # Whoever passes Dask's executor has imported Dask; nobody else should have to.
    dask = sys.modules.get("distributed.cfexecutor")
    is_dask = dask is not None and isinstance(first, dask.ClientExecutor)
    if time_limit is not None and (is_dask or isinstance(first, ThreadPoolExecutor)):
        logger.warning("time_limit has no effect on threads, in which this executor runs items")
    if is_dask:
        return DaskPool(executor, first, context)
    return FilePool(executor, first, context, time_limit=time_limit)
