"""Processes on this machine, each with a thread of the driver that hands it items."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import Pipe, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from queue import SimpleQueue
from typing import Any

import joblib
from joblib.externals.loky.backend import get_context
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.backend.utils import kill_process_tree

from shiftune import _interrupts
from shiftune._files import make_temporary_folder, remove_temporary_folder
from shiftune.errors import NoWorkersError, StorageError
from shiftune.workers import _in_worker
from shiftune.workers._deaths import Death, Look, cause_of
from shiftune.workers._in_worker import Outcome

LOOK_SECONDS = 0.5
# A worker that somebody has paused for so long is killed, and its item runs elsewhere.
STOPPED_SECONDS = 60.0
# Workers that die in a row before they have begun an item: none will.
MAX_FAILED_STARTS = 5
# Before a worker that could not be started is tried again; longer each time. Memory and processes
# are often short for a moment only.
PAUSE_SECONDS = 0.5
# An idle worker that does not end by itself within this time is killed.
END_SECONDS = 5.0

# Until the end of its input, which is that of the driver, it notes which groups there are.
WATCHDOG = """
trap '' HUP INT TERM
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) left=; for each in $groups; do [ "$each" = "$group" ] || left="$left $each"; done
       groups=$left ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""

_starting = threading.Lock()


def share_of_cores(n_workers: int) -> dict[str, str]:
    """Environment in which each worker uses its share of the cores, or less if already limited."""
    share = max(1, joblib.cpu_count() // n_workers)
    names = ["OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR"]
    # LOKY_MAX_CPU_COUNT is what joblib.cpu_count() returns: LightGBM uses that many threads by
    # default, whatever OMP_NUM_THREADS is, and so does n_jobs=-1 in a model.
    variables = [f"{name}_NUM_THREADS" for name in names]
    variables += ["VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT"]
    env = {}
    for variable in variables:
        wish = os.environ.get(variable, "")
        env[variable] = str(min(share, int(wish)) if wish.isdecimal() and int(wish) else share)
    return env


class ProcessPool:
    """Worker processes; loky's way of starting them works in scripts and notebooks alike.

    A worker that dies takes nothing with it but its item: every process has a pipe of its own, and
    a thread in the driver that starts it, hands it one item after the other and sees it die. (The
    processes of an executor share queues and locks, and die together.)
    """

    def __init__(self, n_workers: int, context: Any, *, time_limit: float | None) -> None:
        self.n_workers = n_workers
        folder = make_temporary_folder()
        try:
            _in_worker.write_context(folder, context)
        except BaseException as error:
            remove_temporary_folder(folder)
            if not isinstance(error, OSError):
                raise
            raise StorageError(
                f"the data for the workers cannot be written to {folder} "
                f"({error.strerror or error}); make room, or name another place in the "
                "environment variable TMPDIR"
            ) from error
        watchdog = _start_watchdog()
        self._workers = [_Worker(folder, time_limit, n_workers, watchdog) for _ in range(n_workers)]
        # From the right: the one that was used last has read the context, those that died have to
        # be started.
        self._idle = deque(self._workers)
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # The one owner of the end, also of a program that ends without close(): multiprocessing
        # waits for its children before other finalizers run, and they wait for the driver.
        self._end = Finalize(
            self, _end_all, args=(self._workers, watchdog, folder), exitpriority=10
        )

    def submit(self, payload: bytes) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        with _interrupts.deferred():
            self._queue.put((future, payload))
            if len(self._threads) < self.n_workers:
                thread = threading.Thread(
                    target=_hand_on, args=(self._queue, self._idle), daemon=True
                )
                self._threads.append(thread)
                thread.start()
        return future

    def end_overdue(self) -> set[Future[Outcome]]:
        return {item for worker in self._workers if (item := worker.end_overdue())}

    def close(self, *, kill: bool) -> None:
        """End the processes and remove the folder; items in the queue have been cancelled."""
        try:
            if kill:
                for worker in self._workers:
                    worker.close(kill=True)
            for _ in self._threads:
                self._queue.put(None)
            for thread in self._threads:
                thread.join()
            for worker in self._workers:
                worker.close(kill=False)
        finally:
            with _interrupts.deferred():  # it is not tried again
                self._end()


def _end_all(workers: list[_Worker], watchdog: subprocess.Popen[bytes] | None, folder: str) -> None:
    """End the workers, and then remove the folder: one that starts reads it."""
    for worker in workers:
        worker.close(kill=True)
    if watchdog is not None:
        watchdog.communicate()  # it kills what is left, and ends
    remove_temporary_folder(folder)


def _hand_on(queue: SimpleQueue[Any], idle: deque[_Worker]) -> None:
    """Hand items to idle workers, in a daemon thread, which a program that ends does not wait for.

    (The threads of `concurrent.futures` run all that is in their queue first.)
    """
    while (submitted := queue.get()) is not None:
        future, payload = submitted
        if not future.set_running_or_notify_cancel():
            continue
        worker = idle.pop()
        try:
            outcome = worker.run(future, payload)
        except BaseException as error:
            idle.appendleft(worker)
            future.set_exception(error)
        else:
            idle.append(worker)
            future.set_result(outcome)


class _Worker:
    """A process, started when it is needed and again after each of its deaths.

    `run` is called by one thread at a time; `end_overdue` and `close` by any.
    """

    def __init__(
        self,
        folder: str,
        time_limit: float | None,
        n_workers: int,
        watchdog: subprocess.Popen[bytes] | None,
    ) -> None:
        self._folder = folder
        self._time_limit = time_limit
        self._env = share_of_cores(n_workers)
        self._watchdog = watchdog
        self._lock = threading.Lock()
        self._process: Any = None
        self._pipe: Connection | None = None
        self._item: Future[Outcome] | None = None
        self._since: float | None = None  # when it began the item
        self._closing = threading.Event()
        self._failed_starts = 0

    def run(self, item: Future[Outcome], payload: bytes) -> Outcome:
        """Run an item and return its outcome, or raise `Death`."""
        if self._failed_starts:
            self._closing.wait(PAUSE_SECONDS * 2**self._failed_starts)
        with self._lock:
            if self._closing.is_set():
                raise Death("outside", "when the pool was closed")
            if self._process is not None and not self._process.is_alive():  # it died idle
                self._end(group=False)
            if self._process is None:
                try:
                    self._start()
                except OSError as error:  # no memory, no process, no file
                    raise self._not_started(f"with {error.strerror or error}") from error
            self._since, self._item = None, item  # in this order, for `end_overdue`
            process, pipe = self._process, self._pipe
        assert pipe is not None
        look = Look(process.pid)
        outcome: Outcome | None = None
        retire = False
        with suppress(EOFError, OSError):  # it died
            pipe.send(payload)
            while outcome is None:
                ready = wait([pipe, process.sentinel], LOOK_SECONDS)
                # A process that the item has started may hold the sentinel open.
                dead = process.sentinel in ready or not (ready or process.is_alive())
                if pipe.poll():  # the outcome of a worker that has died since is good
                    message = pipe.recv()
                    if isinstance(message, float):
                        self._since = message
                    else:
                        outcome, retire = message
                elif dead:
                    break
                else:
                    look.again()
                    if look.stopped_for > STOPPED_SECONDS:
                        _kill(process)
        with self._lock:
            self._item = None
            if outcome is None or retire:
                self._end()
        if outcome is None and self._since is None:
            raise self._not_started(cause_of(process.exitcode).how)
        self._failed_starts = 0
        if outcome is None:
            raise look.cause_of(process.exitcode)
        return outcome

    def _not_started(self, how: str) -> Exception:
        self._failed_starts += 1
        if self._failed_starts < MAX_FAILED_STARTS:
            return Death("start", how)
        return NoWorkersError(
            f"workers cannot be started: {MAX_FAILED_STARTS} of them ended before they had read "
            f"the data, the last {how}. Is there enough memory? If so, rerun; what is "
            "finished is kept"
        )

    def _start(self) -> None:
        if hasattr(signal, "pthread_sigmask"):
            # A terminal sends Ctrl-C to all processes; one that is interrupted while it starts
            # prints a traceback. It inherits the block of the thread that starts it. Each tracker
            # would lift the block if it had to start its own process (Python 3.11, loky 3.4).
            resource_tracker.ensure_running()
            loky_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        ours, theirs = Pipe()
        process = get_context("loky").Process(
            target=_in_worker.serve, args=(theirs, self._folder, self._time_limit), env=self._env
        )
        with _starting:
            process.start()
        theirs.close()
        self._tell_watchdog("+", process.pid)
        self._process, self._pipe = process, ours

    def _tell_watchdog(self, sign: str, group: int) -> None:
        if self._watchdog is not None and self._watchdog.stdin is not None:
            with suppress(OSError, ValueError):  # somebody has ended it
                self._watchdog.stdin.write(f"{sign} {group}\n".encode())

    def end_overdue(self) -> Future[Outcome] | None:
        """Kill the process if it has run an item for far too long, which is returned."""
        item, since = self._item, self._since  # without the lock, held while a process starts
        if item is None or since is None or not _in_worker.is_over(self._time_limit, since):
            return None
        with self._lock:
            if self._item is item:
                _kill(self._process)
        return item

    def close(self, *, kill: bool) -> None:
        """End the process for good; an item that it runs is lost."""
        self._closing.set()
        with self._lock:
            if self._process is None:
                return
            if self._item is None:
                seconds = END_SECONDS if not kill else 0.0
                self._end(seconds, group=self._process.is_alive())
            else:  # its thread sees it die
                _kill(self._process)
                self._process.join()

    def _end(self, seconds: float = 0.0, *, group: bool = True) -> None:
        """Free a process that is idle or dead, after so many seconds to end by itself.

        What its items have left behind ends with it, unless it has been dead for so long that
        another process may have its number.
        """
        process, self._process = self._process, None
        assert self._pipe is not None
        self._pipe.close()
        process.join(seconds)
        if group:
            _kill(process)
        self._tell_watchdog("-", process.pid)
        process.join()


def _kill(process: Any) -> None:
    """Kill a worker and what its items have started."""
    if not hasattr(os, "killpg"):
        kill_process_tree(process)
        return
    with suppress(OSError):  # it has just been started, and has no group yet
        os.killpg(process.pid, signal.SIGKILL)
    if process.exitcode is None:
        with suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)


def _start_watchdog() -> subprocess.Popen[bytes] | None:
    """Start a shell that kills groups of processes when this process has ended, however it did.

    A worker cannot do this itself: while compiled code keeps Python's lock, it sees nothing. And
    what its items have started would outlive it. Without a shell, workers end after their items.
    """
    with suppress(OSError):
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        command = ["/bin/sh", "-c", WATCHDOG]
        return subprocess.Popen(
            command, stdin=pipe, stdout=null, stderr=null, bufsize=0, start_new_session=True
        )
    return None
