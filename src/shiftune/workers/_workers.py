"""Items that workers run, and run again when a worker dies."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Self

import joblib
from threadpoolctl import ThreadpoolController

from shiftune import _interrupts
from shiftune.errors import SettingsError
from shiftune.workers._dask import DaskPool
from shiftune.workers._deaths import Death, Deaths
from shiftune.workers._in_worker import Outcome, OutOfTime, Task, pack_item
from shiftune.workers._processes import ProcessPool, share_of_cores

logger = logging.getLogger("shiftune")

POLL_SECONDS = 0.1
# CPU seconds until a new worker has imported what a fit needs: `python benchmarks/workers.py`.
START_SECONDS = 3.0
# So many times as much has to be saved where little is known: of the first items, or by the clock.
TO_BE_SURE = 10

# Places where items run, with the same methods: `submit` runs an item of `pack_item`, and its
# future fails with `Death` if the worker died that was to run it; `end_overdue` kills the workers
# of items that run long after the time limit, and returns the futures of these items; `close` ends
# what runs (processes finish their items first unless `kill`, a cluster drops them).
Pool = ProcessPool | DaskPool


def number_of_workers(n_jobs: int) -> int:
    """Read ``n_jobs`` as joblib does."""
    if n_jobs == 0:
        raise SettingsError(
            "n_jobs must be the number of processes, or -1 for as many as there are cores; got 0"
        )
    return n_jobs if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + n_jobs)


class WorkerDied(RuntimeError):  # noqa: N818 - the fate of an item, not a mistake
    """An item was given up because the workers that ran it died."""

    def __init__(self, key: Hashable, why: str) -> None:
        super().__init__(f"item {key} was given up: {why}")
        self.why = why


class Workers:
    """Processes or a cluster that run ``task(context, item)``; each worker gets the context once.

    If a worker dies, another takes its place and the item that it was running; neighbours are not
    disturbed. An item is given up when it has killed three workers itself; workers that are killed
    from outside are not the item's fault (`_deaths.py` has the rules). For one thread only.

    - Processes share the memory of large arrays in the ``context``. A task that changes its context
      changes it for the items that the same worker runs later.
    - ``n_jobs`` is read as joblib does. With 1, without executor and time limit, the items run in
      this process, inside `result`.
    - ``executor``, instead of ``n_jobs``, returns what ``get_executor`` of a Dask client returns.
    - ``time_limit``: seconds after which `OutOfTime` is raised inside the task, as soon as it
      executes Python code. If it still runs ``max(5, time_limit / 2)`` seconds later, its worker is
      killed, or restarted by its nanny on Dask; the driver checks this while it waits in `result`.
    - ``n_items``: about how many items there will be. Processes are then started when it pays: the
      first items run in this process, inside `result`, for as long as the others would take less
      time here than workers take to start. Not with a time limit or an executor. The ``warm_up``
      first items do not represent the others, as they load and prepare things.

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
        executor: Callable[[], Any] | None = None,
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
            self._pool = DaskPool(executor(), context, time_limit=time_limit)
        elif n_items is not None and self.n_jobs > 1 and time_limit is None:
            self._here = Here(self.n_jobs, n_items, warm_up)
        elif self.n_jobs > 1 or time_limit is not None:
            self.start()

    @property
    def n_workers(self) -> int:
        """Number of items that run at the same time, now or once workers are started."""
        return self.n_jobs if self._pool is None else self._pool.n_workers

    def start(self) -> None:
        """Start processes now, also if items would run in this one."""
        if self._pool is None:
            self._pool = ProcessPool(self.n_jobs, self._context, time_limit=self.time_limit)
            self._here = None

    def submit(self, key: Hashable, item: Any, *, after: Hashable = None) -> None:
        """Run an item as soon as a worker is free; keys are the caller's, each for one item.

        With the key of another item in `after`, once that one has succeeded, or earlier if a
        worker would be idle. If it fails, this item is dropped.
        """
        if self._closed:
            raise RuntimeError("these workers are closed")
        self._items.add(key, item, after)
        if self._pool is not None:
            self._hand_over(self._pool)

    def result(self, key: Hashable) -> Any:
        """Wait for an item and return, once, what the task returned, or raise what it raised.

        Or raise `WorkerDied` if it was given up, `OutOfTime` if it ran longer than the time limit.
        """
        if self._closed:
            raise RuntimeError("these workers are closed")
        item = self._items[key]
        if self._here is not None and self._here.is_slower():
            self.start()
        if self._pool is None:
            del self._items[key]
            succeeded = False
            try:
                if self._here is None:
                    value = self._task(self._context, item.payload)
                else:
                    value = self._here.run(self._task, self._context, item.payload)
                succeeded = True
            finally:
                self._items.settle(item, succeeded)
            return value
        self._hand_over(self._pool)  # an earlier call may have been interrupted before it did
        while item.outcome is None:
            if item.dropped:
                raise KeyError(key)
            self._wait(self._pool)
        del self._items[key]
        if isinstance(item.outcome, BaseException):
            raise item.outcome
        return item.outcome.unpack()

    def drop(self, key: Hashable) -> None:
        """Run an item no more, unless a worker has it already, and forget its result."""
        if (item := self._items.get(key)) is not None:
            self._items.drop(item)

    def close(self, *, kill: bool = False) -> None:
        """End the workers, unless ``kill`` after the items that run, if anyone waits for them."""
        if self._closed:
            return
        self._closed = True
        kill = kill or all(item.dropped for item in self._items.flying.values())
        if self._pool is not None:
            try:
                for future in self._items.flying:
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

    def _hand_over(self, pool: Pool) -> None:
        """Give the pool what may run now."""
        for item in self._items.startable(max(pool.n_workers, 1)):
            item.future = pool.submit(pack_item(self._task, item.payload))

    def _wait(self, pool: Pool) -> None:
        """Wait a moment until any item is done, see to those that are, and submit others."""
        _interrupts.check()
        flying = self._items.flying
        # Short waits: on Windows an endless one cannot be interrupted by Ctrl-C.
        done, _ = wait(flying, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            item = flying[future]
            error = future.exception()
            if isinstance(error, Death) and not item.dropped:
                item.future = None
                self._count(item, error)
            else:  # another error is the pool's, about this item
                self._items.finish(item, future.result() if error is None else error)
        ended = pool.end_overdue()
        for future, item in self._items.flying.items():
            if future in ended:
                logger.warning("killing a worker: item %s exceeded the time limit", item.key)
                why = f"item {item.key} ran longer than the time limit and was killed"
                self._items.finish(item, OutOfTime(why))
        self._hand_over(pool)

    def _count(self, item: Item, death: Death) -> None:
        """Count the death of a worker against the item that it was running."""
        item.deaths.add(death)
        given_up = item.deaths.too_many
        fate = "is given up" if given_up else "is run again"
        logger.warning("a worker died %s; item %s %s", death.how, item.key, fate)
        if given_up:
            self._items.finish(item, WorkerDied(item.key, item.deaths.reason(death)))


@dataclass(slots=True, eq=False)
class Item:
    """An item whose result has not been fetched."""

    key: Hashable
    payload: Any
    after: Hashable = None  # without whose success it is not needed; None once that succeeded
    future: Future[Outcome] | None = None  # None until the item is handed to the pool
    outcome: Outcome | BaseException | None = None
    dropped: bool = False
    deaths: Deaths = field(default_factory=Deaths)


class Items(dict[Hashable, Item]):
    """Items by key, in the order in which they were added: which may run now, which wait."""

    def __getitem__(self, key: Hashable) -> Item:
        item = self.get(key)
        if item is None or item.dropped:
            raise KeyError(f"there is no item {key}, or its result was fetched or dropped")
        return item

    def add(self, key: Hashable, item: Any, after: Hashable) -> None:
        """Add an item, after one that is not settled yet."""
        if key in self:
            raise ValueError(f"key {key} is in use")
        if after is not None and self[after].outcome is not None:
            raise ValueError(f"item {after} is done")
        self[key] = Item(key, item, after)

    def drop(self, item: Item) -> None:
        """Remove an item, now or when a worker that has it is done."""
        item.dropped = True
        if item.future is None or item.outcome is not None:
            del self[item.key]

    @property
    def unfinished(self) -> list[Item]:
        return [item for item in self.values() if item.outcome is None]

    @property
    def flying(self) -> dict[Future[Outcome], Item]:
        """The submitted items without an outcome, by their future."""
        return {item.future: item for item in self.unfinished if item.future is not None}

    def startable(self, n_workers: int) -> list[Item]:
        """Return what is to be submitted: an item that has to run alone, or several.

        Up to two per worker, so that none waits for the driver; items after an unfinished one only
        where a worker is idle.
        """
        flying = len(self.flying)
        alone = [item for item in self.unfinished if item.deaths.alone][:1]
        if alone and flying:
            return []
        waiting = alone or sorted(self.unfinished, key=lambda item: item.after is not None)
        startable: list[Item] = []
        for item in waiting:
            most = n_workers if item.after is not None else 2 * n_workers
            if item.future is None and flying + len(startable) < most:
                startable.append(item)
        return startable

    def finish(self, item: Item, outcome: Outcome | BaseException) -> None:
        """Keep an outcome, unless nobody wants it."""
        item.outcome = outcome
        if item.dropped:
            del self[item.key]
        self.settle(item, isinstance(outcome, Outcome) and outcome.succeeded)

    def settle(self, item: Item, succeeded: bool) -> None:
        """Release the items that wait for one that has succeeded; drop them if it has failed."""
        for other in [waiting for waiting in self.values() if waiting.after == item.key]:
            other.after = None
            if not succeeded:
                self.drop(other)


class Here:
    """The driver's process, which runs items where starting `n_workers` workers does not pay.

    About `n_items` will come, of which the first `warm_up` do not represent the others.
    """

    def __init__(self, n_workers: int, n_items: int, warm_up: int = 1) -> None:
        self._n_workers = n_workers
        self._n_items = n_items
        self._warm_up = warm_up
        self._cpu: list[float] = []
        self._clock: list[float] = []
        self._libraries: ThreadpoolController | None = None

    def is_slower(self) -> bool:
        """Whether the items that are left would be done earlier by workers, to be started now.

        With a mean of s CPU seconds so far, n items left take n s seconds here, and n s / W and the
        start of W workers elsewhere. The clock counts less: it is slow on a busy machine, where
        workers start slowly, too. Without it, items that wait for other machines or devices would
        never be shared.
        """
        if not self._cpu:
            return False
        gain = (self._n_items - len(self._cpu)) * (1 - 1 / self._n_workers)
        usual = slice(self._warm_up if len(self._cpu) > self._warm_up else 0, None)
        if gain * fmean(self._clock[usual]) > TO_BE_SURE * START_SECONDS:
            return True
        return usual.start > 0 and gain * fmean(self._cpu[usual]) > START_SECONDS

    def run(self, task: Task, context: Any, item: Any) -> Any:
        """Run an item with a worker's share of the cores, so that it gives the same digits."""
        began, clock = time.process_time(), time.monotonic()
        if self._libraries is None:  # looking for them takes milliseconds
            self._libraries = ThreadpoolController()
        variables = share_of_cores(self._n_workers)
        threads = min(map(int, variables.values()))
        try:
            with _environment(variables), self._libraries.limit(limits=threads):
                return task(context, item)
        finally:
            self._cpu.append(time.process_time() - began)
            self._clock.append(time.monotonic() - clock)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
