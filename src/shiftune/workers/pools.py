"""Places where items run: the interface, and any executor that can read this machine's files."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from shiftune.errors import NoWorkersError, StorageError
from shiftune.temporary_folder import make_temporary_folder, remove_temporary_folder
from shiftune.workers import in_worker, memory
from shiftune.workers.deaths import Death, judge

ExecutorFactory = Callable[[], Executor]

# Workers that die in a row before they have begun an item: none will.
MAX_FAILED_STARTS = 5
# A task that still runs this long after its time limit, or half the limit if that is longer, is
# killed.
GRACE_SECONDS = 5.0
# An executor of the standard library terminates its other processes when one dies. None: not yet.
_ENDED_BY_EXECUTOR = (None, -15)


def no_start(how: str) -> NoWorkersError:
    """Return the error that ends a run whose workers do not start."""
    return NoWorkersError(
        f"workers cannot be started: {MAX_FAILED_STARTS} of them ended before they had read the "
        f"data, the last {how}. Is there enough memory? Run the same again; what is finished is "
        "kept"
    )


def is_over(limit: float | None, since: float) -> bool:
    """Whether an item has run so long after its time limit that its worker has to be killed.

    >>> is_over(60.0, time.monotonic()), is_over(60.0, time.monotonic() - 91)
    (False, True)
    """
    if limit is None:
        return False
    return time.monotonic() - since > limit + max(GRACE_SECONDS, limit / 2)


class Pool(ABC):
    """A place where items run."""

    deaths: tuple[type[BaseException], ...] = ()
    """Exceptions of a future after which the pool has to be rebuilt.

    Beside them, `WorkerLost` is the death of the worker that ran this item, and no other.
    """

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

    @abstractmethod
    def end(self, name: str) -> None:
        """Kill the worker of an item that is overdue; the other items run on, or again."""

    @property
    def cancelling_breaks_it(self) -> bool:
        """Whether ``close(kill=True)`` fails at items that were cancelled before.

        Process pools of the standard library do, before Python 3.12.
        """
        return False

    def rebuild(self, names: list[str]) -> dict[str, Death]:
        """Make the pool usable again, when the futures of these items have all failed.

        Returns how the workers died that were running some of them. The others had not begun, or
        lost their workers by the death of others. A pool without `deaths` is never rebuilt.
        """
        return {}

    @abstractmethod
    def close(self, *, kill: bool) -> None:
        """Free everything; wait for running items unless ``kill``."""


class ContextFile:
    """The context in a file of a temporary folder, which also has notices and large outcomes."""

    def __init__(self, context: Any) -> None:
        self.folder = make_temporary_folder()
        try:
            in_worker.write_context(self.folder, context)
        except OSError as error:
            remove_temporary_folder(self.folder)
            raise StorageError(
                f"the data for the workers cannot be written to {self.folder} "
                f"({error.strerror or error}); make room, or name another place in the "
                "environment variable TMPDIR"
            ) from error
        except BaseException:
            remove_temporary_folder(self.folder)
            raise

    def remove(self) -> None:
        """Remove the folder, and the context where workers are threads of this process."""
        in_worker.forget_context(self.folder)
        remove_temporary_folder(self.folder)


class ExecutorPool(Pool):
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
        Seconds an item may run.
    """

    deaths = (BrokenExecutor,)

    def __init__(
        self, executor: ExecutorFactory, first: Executor, context: Any, *, time_limit: float | None
    ) -> None:
        self._factory = executor
        self._executor = first
        self._time_limit = time_limit
        self._oom_kills = memory.oom_kills()
        self._failed_starts = 0
        self._file = ContextFile(context)

    @property
    def n_workers(self) -> int:
        """Number of items that can run at the same time; 1 if the executor does not have it."""
        # Not public, but loky's, the standard library's and mpi4py's executors all have it.
        return int(getattr(self._executor, "_max_workers", None) or 1)

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item; its name becomes that of a file."""
        future = self._executor.submit(
            in_worker.run_with_file, self._file.folder, name, payload, self._time_limit
        )
        future.add_done_callback(self._note_start)
        return future

    def _note_start(self, future: Future[bytes]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._failed_starts = 0

    def end(self, name: str) -> None:
        """Do nothing: no item is overdue."""

    @property
    def cancelling_breaks_it(self) -> bool:
        """Whether the executor has processes."""
        return bool(self._processes)

    @property
    def _processes(self) -> dict[int, Any]:
        # Executors have no public way to kill their processes before Python 3.14.
        found = getattr(self._executor, "_processes", None)
        return found if isinstance(found, dict) else {}

    def rebuild(self, names: list[str]) -> dict[str, Death]:
        """Replace the executor, which is broken as a whole; the file stays."""
        exitcodes = self._exitcodes()
        died = {}
        kills, before = memory.oom_kills(), self._oom_kills
        for name in names:
            notice = in_worker.read_notice(self._file.folder, name)
            if notice is None:
                continue
            if notice.pid not in exitcodes:
                died[name] = judge(None)
            elif exitcodes[notice.pid] not in _ENDED_BY_EXECUTOR:
                died[name] = judge(exitcodes[notice.pid], oom_reported=kills > before)
        self._oom_kills = kills
        self._failed_starts = 0 if died else self._failed_starts + 1
        self._end(kill=True)
        if self._failed_starts == MAX_FAILED_STARTS:
            raise no_start("in a way that is not known")
        self._executor = self._factory()
        return died

    def _exitcodes(self) -> dict[int, int | None]:
        """Return how processes ended, once one is known that the executor has not ended itself."""
        end = time.monotonic() + 1.0
        while True:
            found = {pid: process.exitcode for pid, process in self._processes.items()}
            known = set(found.values()) - set(_ENDED_BY_EXECUTOR)
            if known or not found or time.monotonic() > end:
                return found
            time.sleep(0.01)

    def close(self, *, kill: bool) -> None:
        """End the executor and remove the file."""
        try:
            self._end(kill=kill)
        finally:
            self._file.remove()

    def _end(self, *, kill: bool) -> None:
        processes = list(self._processes.values())
        self._executor.shutdown(wait=not kill)
        if kill:
            for process in processes:
                process.kill()
            for process in processes:
                process.join(1.0)
