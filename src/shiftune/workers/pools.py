"""Places where items run: loky's processes or any executor (for Dask see ``dask_pool``)."""

from __future__ import annotations

import os
import signal
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor as LokyExecutor
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.backend.utils import kill_process_tree

from shiftune import interrupts
from shiftune.errors import StorageError
from shiftune.temporary_folder import make_temporary_folder, remove_temporary_folder
from shiftune.workers import in_worker
from shiftune.workers.cores import share_of_cores

ExecutorFactory = Callable[[], Executor]

# A task that still runs this long after its time limit, or half the limit if that is longer, is
# killed.
GRACE_SECONDS = 5.0


class Pool(ABC):
    """A place where items run, which can be built anew after its workers have died."""

    deaths: tuple[type[BaseException], ...] = (BrokenExecutor,)
    """Exceptions of a future that mean that workers died, not that the task failed."""

    final_deaths: tuple[type[BaseException], ...] = ()
    """Those of them that come after the pool itself has tried several times."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Number of items that can run at the same time."""

    @abstractmethod
    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item of `in_worker.pack_item`; no name is used twice."""

    def is_overdue(self, name: str) -> bool:
        """Whether the item has exceeded its time so far that its worker has to be killed."""
        return False

    @property
    def kills(self) -> bool:
        """Whether ``close(kill=True)`` ends the items that run or wait in its queue.

        If so, they must not be cancelled before: a process pool whose workers die fails at items
        that were cancelled (before Python 3.12).
        """
        return False

    @abstractmethod
    def rebuild(self) -> None:
        """Replace all workers, running or dead, and drop what they were doing."""

    @abstractmethod
    def close(self, *, kill: bool) -> None:
        """Free everything; wait for running items unless ``kill``."""


class FilePool(Pool):
    """An executor whose workers read the context from a temporary file, once each.

    Its items are never overdue: executors have no public way to kill their workers.

    Parameters
    ----------
    executor
        Returns a new executor; called when the workers of the last one have died.
    first
        The executor to begin with.
    context
        Any picklable object.
    time_limit
        Seconds an item may run. Kept only where tasks run in the main thread of a process.
    """

    def __init__(
        self, executor: ExecutorFactory, first: Executor, context: Any, *, time_limit: float | None
    ) -> None:
        self._factory = executor
        self._executor = first
        self._time_limit = time_limit
        self._folder = make_temporary_folder()
        # Also removes the folder when the program ends without close().
        self._remove = weakref.finalize(self, remove_temporary_folder, self._folder)
        try:
            in_worker.write_context(self._folder, context)
        except OSError as error:
            self._remove()
            raise StorageError(
                f"the data for the workers cannot be written to {self._folder} "
                f"({error.strerror or error}); make room, or name another place in the "
                "environment variable TMPDIR"
            ) from error
        except BaseException:
            self._remove()
            raise

    @property
    def n_workers(self) -> int:
        """Number of items that can run at the same time; 1 if the executor does not have it."""
        # Not public, but loky's, the standard library's and mpi4py's executors all have it.
        return int(getattr(self._executor, "_max_workers", None) or 1)

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item; its name becomes that of a file."""
        return self._executor.submit(
            in_worker.run_with_file, self._folder, name, payload, self._time_limit
        )

    @property
    def kills(self) -> bool:
        """Whether the executor has processes, which can be killed."""
        return bool(self._processes)

    @property
    def _processes(self) -> dict[int, Any]:
        # Executors have no public way to kill their processes before Python 3.14.
        found = getattr(self._executor, "_processes", None)
        return found if isinstance(found, dict) else {}

    def rebuild(self) -> None:
        """Replace the executor; the file stays."""
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
        processes = list(self._processes.values())
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
                env=share_of_cores(n_workers),
                initializer=in_worker.begin,
                initargs=(os.getpid(),),
            )
            return made

        super().__init__(executor, executor(), context, time_limit=time_limit)

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item, in a process that is started if need be."""
        # Submitting may start processes. One whose start is interrupted before loky has its entry
        # would never be ended, and one that is interrupted while it starts prints a traceback.
        with interrupts.deferred(), _blocked_for_children():
            return super().submit(name, payload)

    def is_overdue(self, name: str) -> bool:
        """Whether the item still runs ``max(5, limit / 2)`` seconds after the time limit."""
        limit = self._time_limit
        if limit is None:
            return False
        try:
            since = float(Path(self._folder, name).read_text())
        except (FileNotFoundError, ValueError):  # in the queue, or still reading the context
            return False
        return time.monotonic() - since > limit + max(GRACE_SECONDS, limit / 2)

    def _end(self, *, kill: bool) -> None:
        # Not loky's kill_workers: with items that no worker has taken yet it fails, before or after
        # it has killed them. It knows how to end where workers have died.
        for process in list(self._processes.values()) if kill else []:
            kill_process_tree(process)  # also the processes that tasks have started
        self._executor.shutdown(wait=True)


@contextmanager
def _blocked_for_children() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C, which a terminal sends to all of them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Each would lift the block if it had to start its process inside (Python 3.11, loky 3.4).
    resource_tracker.ensure_running()
    loky_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
