"""Items that workers run, and run again when a worker dies."""

from __future__ import annotations

import logging
import math
import sys
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from itertools import islice
from typing import TYPE_CHECKING, Any

from shiftune import _interrupts
from shiftune.errors import SettingsError
from shiftune.workers import in_worker
from shiftune.workers.cores import number_of_workers
from shiftune.workers.dask_pool import DaskPool
from shiftune.workers.deaths import WorkerLost
from shiftune.workers.here import Here
from shiftune.workers.items import Item, Items
from shiftune.workers.pools import ExecutorPool
from shiftune.workers.processes import ProcessPool
from shiftune.workers.time_limit import OutOfTime

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator
    from typing import Self

    from shiftune.workers.deaths import Death
    from shiftune.workers.in_worker import Task
    from shiftune.workers.pools import ExecutorFactory, Pool

__all__ = ["OutOfTime", "WorkerDied", "Workers"]

logger = logging.getLogger("shiftune")

POLL_SECONDS = 0.1


class WorkerDied(RuntimeError):  # noqa: N818 - the fate of an item, not a mistake
    """An item was given up because the workers that ran it died."""

    def __init__(self, key: Hashable, why: str) -> None:
        super().__init__(f"item {key} was given up: {why}")
        self.why = why


class Workers:
    """Processes or a cluster that run ``task(context, item)``; each worker gets the context once.

    If a worker dies, another takes its place and the item that it was running; neighbours are not
    disturbed. An item is given up when it has killed three workers itself; workers that are killed
    from outside are no fault of the item (`shiftune.workers.deaths` has the rules). One whose
    worker was killed for lack of memory runs alone next.

    A pool gets at most two items per worker at a time; the others wait here, where they can still
    be dropped.

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
        executes Python code. If the item is still running after ``max(5, time_limit / 2)`` seconds
        more, its worker is killed, with ``n_jobs``, or restarted by its nanny, on Dask (whose other
        items run again); the driver checks this while it waits in `result`. Other executors have no
        way to end a worker.
    n_items
        About how many items there will be. With it, ``n_jobs`` processes are started when it pays:
        the first items run in this process, inside `result`, for as long as the others would take
        less time here than workers take to start. Not with a time limit or an executor.
    warm_up
        Number of first items that are no measure of the others, as they load and prepare things.

    Notes
    -----
    For one thread only. Keys are the caller's: anything hashable, each used for one item.

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
        n_items: int | None = None,
        warm_up: int = 1,
    ) -> None:
        if time_limit is not None and not (0 < time_limit < math.inf):
            raise SettingsError(
                f"time_limit must be None or a number of seconds > 0, got {time_limit}"
            )
        if executor is not None and n_jobs != 1:
            raise SettingsError(f"give n_jobs or executor, not both; got n_jobs={n_jobs}")
        self.n_jobs = number_of_workers(n_jobs)
        self.time_limit = time_limit
        self._task = task
        self._context = context
        self._items = Items()
        self._closed = False
        self._pool: Pool | None = None
        self._here: Here | None = None
        if executor is not None:
            self._pool = _pool_of(executor, context, time_limit)
        elif n_items is not None and self.n_jobs > 1 and time_limit is None:
            self._here = Here(self.n_jobs, n_items, warm_up)
        elif self.n_jobs > 1 or time_limit is not None:
            self.start()

    @property
    def n_workers(self) -> int:
        """Number of items that run at the same time, now or once workers are started.

        The size of a Dask cluster is read every time, because workers come and go.
        """
        return self.n_jobs if self._pool is None else self._pool.n_workers

    def start(self) -> None:
        """Start processes now, also if items would run in this one."""
        if self._pool is None:
            self._pool = ProcessPool(self.n_jobs, self._context, time_limit=self.time_limit)
            self._here = None

    def submit(self, key: Hashable, item: Any, *, after: Hashable = None) -> None:
        """Run an item as soon as a worker is free.

        With the key of another item in `after`, once that one has succeeded, or earlier if a
        worker would be idle. If it fails, this item is dropped.
        """
        if self._closed:
            raise RuntimeError("these workers are closed")
        self._items.add(key, item, after)
        if self._pool is not None:
            self._hand_over(self._pool)

    def result(self, key: Hashable) -> Any:
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
        item = self._items[key]
        if self._here is not None and self._here.is_slower():
            self.start()
        if self._pool is None:
            return self._run_here(item)
        self._hand_over(self._pool)  # an earlier call may have been interrupted before it did
        while item.outcome is None:
            if item.dropped:
                raise KeyError(key)
            _interrupts.check()
            self._wait(self._pool)
            self._hand_over(self._pool)
        self._items.pop(key)
        if isinstance(item.outcome, BaseException):
            raise item.outcome
        return in_worker.unpack(item.outcome)

    def drop(self, key: Hashable) -> None:
        """Run an item no more, unless a worker has it already, and forget its result.

        Items that were dropped before are left alone.
        """
        if key in self._items:
            self._items.drop(self._items[key])

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
            # One more than there are workers: one can take it without waiting for the driver.
            for key, item in islice(waiting, max(self.n_workers + 1 - len(flying), 0)):
                self.submit(key, item)
                flying.append(key)
            if not flying:
                return
            _interrupts.check()
            if self._pool is not None:
                self._wait(self._pool)
                self._hand_over(self._pool)
            for key in [key for key in flying if self._is_ready(key)]:
                flying.remove(key)
                yield key, self.result(key)

    def _is_ready(self, key: Hashable) -> bool:
        """Whether `result` need not wait."""
        return self._pool is None or self._items[key].outcome is not None

    def close(self, *, kill: bool = False) -> None:
        """End the workers and remove the temporary file.

        Waits for items that are running (those in the queue are dropped), unless ``kill``, or
        unless nobody wants their results.
        """
        if self._closed:
            return
        self._closed = True
        kill = kill or all(item.dropped for item in self._items.flying.values())
        if self._pool is not None:
            try:
                for future in (
                    () if kill and self._pool.cancelling_breaks_it else self._items.flying
                ):
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

    def _run_here(self, item: Item) -> Any:
        self._items.pop(item.key)
        try:
            if self._here is None:
                value = self._task(self._context, item.payload)
            else:
                value = self._here.run(self._task, self._context, item.payload)
        except BaseException:
            self._items.settle(item, succeeded=False)
            raise
        self._items.settle(item, succeeded=True)
        return value

    def _hand_over(self, pool: Pool) -> None:
        """Give the pool what may run now."""
        for item in self._items.startable(max(pool.n_workers, 1)):
            item.attempts += 1
            try:
                item.future = pool.submit(item.name, in_worker.pack_item(self._task, item.payload))
            except BrokenExecutor as error:  # no future of the pool has raised it yet
                item.future = Future()
                item.future.set_exception(error)

    def _wait(self, pool: Pool) -> None:
        """Wait a moment until any item is done, and see to those that are."""
        flying = self._items.flying
        # Short waits: on Windows an endless one cannot be interrupted by Ctrl-C.
        done, _ = wait(flying, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            if flying[future].future is future:  # not taken back, when workers died
                self._collect(future, flying[future], pool)
        self._end_overdue(pool)

    def _collect(self, future: Future[bytes], item: Item, pool: Pool) -> None:
        outcome: bytes | BaseException
        try:
            outcome = future.result()
        except WorkerLost as lost:
            for wanted in self._items.take_back([item]):
                self._count(wanted, lost.death)
            return
        except pool.deaths:
            self._rebuild(pool)
            return
        except Exception as error:  # of the pool, about this item
            outcome = error
        self._items.finish(item, outcome)

    def _rebuild(self, pool: Pool) -> None:
        """Make a pool usable again that has lost several items, or all."""
        # An executor breaks all its futures that have no result yet, one after the other.
        wait(self._items.flying, timeout=1.0)
        lost = self._items.take_back(self._items.flying.values())
        died = pool.rebuild([item.name for item in lost])
        for item in lost:
            if item.name in died and not item.dropped:
                self._count(item, died[item.name])

    def _count(self, item: Item, death: Death) -> None:
        """Count the death of a worker against the item that it was running."""
        item.deaths.add(death)
        given_up = item.deaths.too_many
        logger.warning(
            "a worker died %s; item %s %s",
            death.how,
            item.key,
            "is given up" if given_up else "is run again",
        )
        if given_up:
            self._items.finish(item, WorkerDied(item.key, item.deaths.reason(death)))

    def _end_overdue(self, pool: Pool) -> None:
        for future, item in self._items.flying.items():
            if not future.done() and pool.is_overdue(item.name):
                logger.warning("killing a worker: item %s exceeded the time limit", item.key)
                why = f"item {item.key} ran longer than the time limit and was killed"
                self._items.finish(item, OutOfTime(why))
                pool.end(item.name)


def _pool_of(executor: ExecutorFactory, context: Any, time_limit: float | None) -> Pool:
    """Return the pool for a user's executor."""
    first = executor()
    # Whoever passes Dask's executor has imported Dask; nobody else should have to.
    dask = sys.modules.get("distributed.cfexecutor")
    is_dask = dask is not None and isinstance(first, dask.ClientExecutor)
    if is_dask:
        return DaskPool(executor, first, context, time_limit=time_limit)
    return ExecutorPool(executor, first, context, time_limit=time_limit)
