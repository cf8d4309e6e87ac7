"""Processes on this machine, each with a thread of the driver that hands it items."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any

from joblib.externals.loky.backend import get_context
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.backend.utils import kill_process_tree

from shiftune import interrupts
from shiftune.workers import in_worker, memory
from shiftune.workers.cores import share_of_cores
from shiftune.workers.daemons import DaemonThreads
from shiftune.workers.deaths import Death, WorkerLost, judge
from shiftune.workers.in_worker import read_notice
from shiftune.workers.pools import MAX_FAILED_STARTS, ContextFile, Pool, is_over, no_start
from shiftune.workers.watchdog import Watchdog

LOOK_SECONDS = 0.5
# A worker that somebody has paused for so long is killed, and its item runs elsewhere.
STOPPED_SECONDS = 60.0
# Before a worker that could not be started is tried again; longer each time. Memory and processes
# are often short for a moment only.
PAUSE_SECONDS = 0.5
# An idle worker that does not end by itself within this time is killed.
END_SECONDS = 5.0


class ProcessPool(Pool):
    """Worker processes; loky's way of starting them works in scripts and notebooks alike.

    A worker that dies takes nothing with it but its item: every process has a pipe of its own, and
    a thread in the driver that starts it, hands it one item after the other and sees it die. (The
    processes of an executor share queues and locks, and die together.)

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
        self._file = ContextFile(context)
        self._time_limit = time_limit
        self._n_workers = n_workers
        self._watchdog = Watchdog()
        self._workers = [
            _Worker(self._file.folder, time_limit, share_of_cores(n_workers), self._watchdog)
            for _ in range(n_workers)
        ]
        # From the right: the one that was used last has read the context, those that died have to
        # be started.
        self._idle = deque(self._workers)
        self._threads = DaemonThreads[bytes](n_workers)
        # A program that ends without close() waits for its children, and they for it.
        self._end = Finalize(
            self, _end_all, args=(self._workers, self._watchdog, self._file), exitpriority=10
        )

    @property
    def n_workers(self) -> int:
        """Number of processes, once all have been needed."""
        return self._n_workers

    def submit(self, name: str, payload: bytes) -> Future[bytes]:
        """Run an item, in a process that is started if need be."""
        with interrupts.deferred():
            return self._threads.submit(partial(self._run, name, payload))

    def _run(self, name: str, payload: bytes) -> bytes:
        worker = self._idle.pop()
        try:
            outcome = worker.run(name, payload)
        except BaseException:
            self._idle.appendleft(worker)
            raise
        self._idle.append(worker)
        return outcome

    def is_overdue(self, name: str) -> bool:
        """Whether the item still runs ``max(5, limit / 2)`` seconds after the time limit."""
        if self._time_limit is None:
            return False
        notice = read_notice(self._file.folder, name)  # none in the queue, and without context
        return notice is not None and is_over(self._time_limit, notice.since)

    def end(self, name: str) -> None:
        """Kill the process that runs an item."""
        for worker in self._workers:
            worker.kill(name)

    def close(self, *, kill: bool) -> None:
        """End the processes and remove the file."""
        try:
            if kill:
                for worker in self._workers:
                    worker.close(kill=True)
            self._threads.close()
            for worker in self._workers:
                worker.close(kill=False)
        finally:
            with interrupts.deferred():  # it is not tried again
                self._end()


class _Worker:
    """A process, started when it is needed and again after each of its deaths.

    `run` is called by one thread at a time; `kill` and `close` by any.
    """

    def __init__(
        self, folder: str, time_limit: float | None, env: dict[str, str], watchdog: Watchdog
    ) -> None:
        self._folder = folder
        self._watchdog = watchdog
        self._time_limit = time_limit
        self._env = env
        self._lock = threading.Lock()
        self._process: Any = None
        self._pipe: Connection | None = None
        self._item: str | None = None
        self._closing = threading.Event()
        self._failed_starts = 0

    def run(self, name: str, payload: bytes) -> bytes:
        """Run an item and return its outcome, or raise `WorkerLost`."""
        if self._failed_starts:
            self._closing.wait(PAUSE_SECONDS * 2**self._failed_starts)
        with self._lock:
            if self._closing.is_set():
                raise WorkerLost(Death("outside", "when the pool was closed"))
            if self._process is not None and not self._process.is_alive():  # it died idle
                self._end(group=False)
            if self._process is None:
                try:
                    self._start()
                except OSError as error:  # no memory, no process, no file
                    raise self._not_started(f"with {error.strerror or error}") from error
            self._item = name
            process, pipe = self._process, self._pipe
        assert pipe is not None
        look = _Look(process.pid)
        outcome: bytes | None = None
        retire = False
        try:
            pipe.send((name, payload))
            while not wait([pipe, process.sentinel], LOOK_SECONDS):
                # A process that the item has started may hold the pipe open.
                if not process.is_alive():
                    break
                look.again()
                if look.stopped_for > STOPPED_SECONDS:
                    _kill(process)
            if pipe.poll():  # the outcome of a worker that has died since is good
                outcome, retire = pipe.recv()
        except (EOFError, OSError):  # it died
            pass
        with self._lock:
            self._item = None
            if outcome is None or retire:
                self._end()
        if outcome is None:
            raise self._lost(name, process.exitcode, look)
        self._failed_starts = 0
        return outcome

    def _lost(self, name: str, exitcode: int | None, look: _Look) -> Exception:
        if read_notice(self._folder, name) is not None:
            self._failed_starts = 0
            return WorkerLost(look.judge(exitcode))
        return self._not_started(judge(exitcode).how)

    def _not_started(self, how: str) -> Exception:
        self._failed_starts += 1
        if self._failed_starts < MAX_FAILED_STARTS:
            return WorkerLost(Death("start", how))
        return no_start(how)

    def _start(self) -> None:
        _block_interrupts()
        ours, theirs = Pipe()
        process = get_context("loky").Process(
            target=in_worker.serve,
            args=(theirs, self._folder, self._time_limit),
            env=self._env,
        )
        with _starting:
            process.start()
        theirs.close()
        self._watchdog.add(process.pid)
        self._process, self._pipe = process, ours

    def kill(self, name: str) -> None:
        """Kill the process if it runs this item."""
        with self._lock:
            if self._item == name and self._process is not None:
                _kill(self._process)

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
        self._watchdog.discard(process.pid)
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


_starting = threading.Lock()


def _end_all(workers: list[_Worker], watchdog: Watchdog, file: ContextFile) -> None:
    """End the workers, and then remove their folder: they would write into it again."""
    for worker in workers:
        worker.close(kill=True)
    watchdog.close()
    file.remove()


class _Look:
    """Memory and state of a worker process, looked at while it runs an item."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # The kernel counts a kill before the process ends, which can take longer than a look: the
        # count of the look before the last one is what a death is compared with.
        self._kills = self._earlier_kills = memory.oom_kills()
        self._short = False
        self._stopped_since: float | None = None
        self.stopped_for = 0.0

    def again(self) -> None:
        """Look, while it lives."""
        held, free = memory.resident_bytes(self._pid), memory.free_bytes()
        if held != 0:  # it is not ending
            self._earlier_kills, self._kills = self._kills, memory.oom_kills()
            self._short = held is not None and free is not None and held > free
        if not memory.is_stopped(self._pid):
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = time.monotonic()
        else:
            self.stopped_for = time.monotonic() - self._stopped_since

    def judge(self, exitcode: int | None) -> Death:
        """Judge its death."""
        reported = memory.oom_kills() > self._earlier_kills
        return judge(exitcode, oom_reported=reported, short_of_memory=self._short)


def _block_interrupts() -> None:
    """Start processes that do not hear Ctrl-C, which a terminal sends to all of them.

    One that is interrupted while it starts prints a traceback. They inherit the block of the
    thread that starts them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return
    # Each would lift the block if it had to start its process inside (Python 3.11, loky 3.4).
    resource_tracker.ensure_running()
    loky_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
