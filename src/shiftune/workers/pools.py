"""Places where items run: loky's processes or any executor (for Dask see ``dask_pool``)."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import weakref
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import joblib
from joblib.externals.loky import ProcessPoolExecutor as LokyExecutor

from shiftune.workers import in_worker
from shiftune.workers.dask_pool import DaskPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor, Future

    ExecutorFactory = Callable[[], Executor]

logger = logging.getLogger("shiftune")

# A task that has not ended so long after its time limit, or half the limit if that is longer, is
# killed.
GRACE_SECONDS = 5.0


class Pool(Protocol):
    """Runs items and can be built anew after its workers have died."""

    deaths: tuple[type[BaseException], ...]
    """Exceptions of a future that say that workers died, not that the task failed."""

    final_deaths: tuple[type[BaseException], ...]
    """Those of them that come after the pool itself has tried several times."""

    @property
    def n_workers(self) -> int:
        """How many items can run at the same time."""

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item of `in_worker.pack_item`; names are never used twice."""

    def was_taken(self, name: str) -> bool:
        """Whether a worker is known to have begun with the item."""

    def is_overdue(self, name: str) -> bool:
        """Whether the item has been running so long that only killing its worker helps."""

    def rebuild(self) -> None:
        """Drop all workers, running or dead, and what they were doing; have new ones."""

    def close(self, *, kill: bool) -> None:
        """Free everything; wait for running items unless ``kill``."""


class FilePool:
    """An executor whose workers read the context from a temporary file, once each.

    Parameters
    ----------
    executor
        Makes the executor, and makes another one when its workers have died.
    context
        Any picklable object.
    time_limit
        Seconds an item may run. Kept only where tasks run in the main thread of a process.
    """

    deaths: tuple[type[BaseException], ...] = (BrokenExecutor,)
    final_deaths: tuple[type[BaseException], ...] = ()

    def __init__(
        self, executor: ExecutorFactory, context: Any, *, time_limit: float | None
    ) -> None:
        self._factory = executor
        self._time_limit = time_limit
        self._folder = tempfile.mkdtemp(prefix="shiftune-")
        # Also removes the folder when the program ends without close().
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        try:
            in_worker.write_context(self._folder, context)
            self._executor = executor()
        except BaseException:
            self._remove()
            raise
        if time_limit is not None and isinstance(self._executor, ThreadPoolExecutor):
            logger.warning("time_limit has no effect on threads")

    @property
    def n_workers(self) -> int:
        """How many items can run at the same time; 1 if the executor does not say."""
        # Not public, but loky's, the standard library's and mpi4py's executors all have it.
        return int(getattr(self._executor, "_max_workers", None) or 1)

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item; its name becomes that of a file."""
        return self._executor.submit(
            in_worker.run_with_file, self._folder, name, payload, self._time_limit
        )

    def was_taken(self, name: str) -> bool:
        """Whether a worker has begun with the item."""
        return Path(self._folder, name).exists()

    def is_overdue(self, name: str) -> bool:
        """Never: there is no public way to kill the workers of an executor."""
        return False

    def rebuild(self) -> None:
        """Have a new executor; the file stays."""
        self._end(kill=True)
        self._executor = self._factory()

    def close(self, *, kill: bool) -> None:
        """End the executor and remove the file."""
        try:
            self._end(kill=kill)
        finally:
            in_worker.forget_context(self._folder)
            self._remove()

    def _end(self, *, kill: bool) -> None:
        # Executors have no public way to kill their processes before Python 3.14.
        processes = getattr(self._executor, "_processes", None)
        processes = list(processes.values()) if isinstance(processes, dict) else []
        self._executor.shutdown(wait=not kill)
        if kill:
            for process in processes:
                process.kill()
            for process in processes:
                process.join(1.0)


class LokyPool(FilePool):
    """Processes on this machine; loky's start method works in scripts and notebooks alike.

    Parameters
    ----------
    n_workers
        Number of processes. Each may use its share of the cores for BLAS and OpenMP.
    context
        Any picklable object.
    time_limit
        Seconds an item may run.
    """

    def __init__(self, n_workers: int, context: Any, *, time_limit: float | None) -> None:
        def executor() -> Executor:
            made: Executor = LokyExecutor(
                n_workers,
                env=_share_of_cores(n_workers),
                initializer=in_worker.begin,
                initargs=(os.getpid(),),
            )
            return made

        super().__init__(executor, context, time_limit=time_limit)

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item, in a process that is started if need be."""
        # Submitting may start processes; one that is interrupted between its start and its entry
        # in loky's books would never be ended.
        with _interrupts_deferred():
            return super().submit(name, payload)

    def is_overdue(self, name: str) -> bool:
        """Whether the item has not heeded the limit and ``max(5, limit / 2)`` seconds more."""
        limit = self._time_limit
        if limit is None:
            return False
        try:
            since = float(Path(self._folder, name).read_text())
        except (FileNotFoundError, ValueError):  # in a queue; still reading the context
            return False
        return time.monotonic() - since > limit + max(GRACE_SECONDS, limit / 2)

    def _end(self, *, kill: bool) -> None:
        # Loky's own way also ends processes that the tasks have started.
        self._executor.shutdown(wait=True, kill_workers=kill)  # type: ignore[call-arg]


def open_pool(
    context: Any, *, n_jobs: int, executor: ExecutorFactory | None, time_limit: float | None
) -> Pool:
    """Return the pool that fits the arguments of `shiftune.workers.Workers`."""
    if executor is None:
        return LokyPool(n_jobs, context, time_limit=time_limit)
    first: Executor | None = executor()
    # Whoever hands over Dask's executor has imported Dask; nobody else should have to.
    dask = sys.modules.get("distributed.cfexecutor")
    if dask is not None and isinstance(first, dask.ClientExecutor):
        if time_limit is not None:
            logger.warning("time_limit has no effect on Dask's workers, which are threads")
        return DaskPool(executor, first, context)

    def next_executor() -> Executor:
        nonlocal first
        made, first = first or executor(), None
        return made

    return FilePool(next_executor, context, time_limit=time_limit)


def _share_of_cores(n_workers: int) -> dict[str, str]:
    """Environment that gives each of the workers its share of the cores, or less if set so.

    >>> _share_of_cores(10_000)["OMP_NUM_THREADS"]
    '1'
    """
    share = max(1, joblib.cpu_count() // n_workers)
    names = ["OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR"]
    # LOKY_MAX_CPU_COUNT is what joblib.cpu_count() returns: LightGBM asks for that many threads
    # unless told otherwise, whatever OMP_NUM_THREADS says, and so does n_jobs=-1 in a model.
    variables = [f"{name}_NUM_THREADS" for name in names]
    variables += ["VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT"]
    env = {}
    for variable in variables:
        wish = os.environ.get(variable, "")
        env[variable] = str(min(share, int(wish)) if wish.isdecimal() and int(wish) else share)
    return env


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Inside: Ctrl-C waits; afterwards it does what it would have done."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    caught = []
    signal.signal(signal.SIGINT, lambda *_: caught.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        signal.raise_signal(signal.SIGINT)
