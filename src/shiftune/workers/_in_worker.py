"""Code that runs in a worker: reading the context, running an item in time, packing its outcome."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import joblib
import numpy as np

from shiftune.errors import StorageError
from shiftune.workers import _deaths

Task = Callable[[Any, Any], Any]

CONTEXT_FILE = "context.joblib"
MIN_MAPPED_BYTES = 1_000_000
MAX_MAPPED = 256
# A worker that holds so much more than after its first item is replaced: memory leaks in it.
MAX_GROWTH_BYTES = 300_000_000
# Between two attempts to stop a task: it needs time to clean up, and is killed after several.
# Several, because code that catches all exceptions may have caught the first.
REPEAT_SECONDS = 1.0
# A task that still runs this long after its time limit, or half the limit if that is longer, is
# killed.
GRACE_SECONDS = 5.0


def serve(pipe: Connection, folder: str, time_limit: float | None) -> None:
    """Run items from a pipe, in a process of its own, until the driver closes it, or ends.

    Answers each item with the time at which it began, for the driver's time limit and to tell a
    worker that died of an item from one that died before it; then with the outcome, and whether
    the process has grown so much that it should be replaced.
    """
    with suppress(RuntimeError, ValueError, OSError):  # no stderr
        faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        os.setsid()  # a group of its own: what its items start can be ended with it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked while it started
        # The pipe ends with this process, even if one that an item has forked (or started by
        # os.system, which inherits) lives on: a worker that is killed in the middle of a large
        # outcome would leave the driver reading.
        os.register_at_fork(after_in_child=pipe.close)
        os.set_inheritable(pipe.fileno(), False)
    context = unreadable = first = None
    try:
        context = read_context(folder)
    except Exception as error:
        unreadable = _failure(error)
    with suppress(EOFError, OSError):
        while True:
            payload = pipe.recv()
            if unreadable is None:
                # The clock counts from the start of the machine, the same in all its processes.
                pipe.send(time.monotonic())
            outcome = unreadable or run(context, payload, time_limit)
            first = first or _deaths.resident_bytes(os.getpid())
            pipe.send((outcome, _has_grown(first)))


def _has_grown(first: int | None) -> bool:
    """Whether memory leaks: the process holds much more than after its first item."""
    for collect in (False, True):
        if collect:
            gc.collect()
        now = _deaths.resident_bytes(os.getpid())
        if first is None or now is None or now - first < MAX_GROWTH_BYTES:
            return False
    return True


def write_context(folder: str, context: Any) -> None:
    """Write the context so that processes that read it share the memory of its large arrays.

    Classes that exist in this process only (those of a notebook, for example) are included, which
    ``joblib.dump`` alone cannot do.
    """
    arrays: list[np.ndarray[Any, Any]] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        # Every mapped array holds a file descriptor; a process may have about 1024 of them.
        raw = buffer.raw()
        if raw.nbytes < MIN_MAPPED_BYTES or len(arrays) == MAX_MAPPED:
            return True
        arrays.append(np.frombuffer(raw, dtype=np.uint8))
        return False

    rest = cloudpickle.dumps(context, protocol=5, buffer_callback=keep_inside)
    path = Path(folder, CONTEXT_FILE)
    path.touch(mode=0o600)
    joblib.dump((rest, arrays), path)


def read_context(folder: str) -> Any:
    """Read what `write_context` wrote; the arrays can be written to, in this process only."""
    try:
        rest, arrays = joblib.load(Path(folder, CONTEXT_FILE), mmap_mode="c")
    except OSError as error:  # no item could do better: this ends the whole run
        raise StorageError(
            f"workers cannot read {folder} ({error.strerror or error}); rerun, if need be "
            "with another place in the environment variable TMPDIR"
        ) from error
    for array in arrays:
        # One byte of every page: arrays that are read little by little would look like a leak.
        array[::4096].max()
    return pickle.loads(rest, buffers=arrays)


class Outcome(NamedTuple):
    """What a task returned, or the exception that it raised.

    Items and outcomes travel as bytes: what cannot be packed or unpacked is then the error of one
    item.
    """

    succeeded: bool
    packed: bytes

    def unpack(self) -> Any:
        value = pickle.loads(self.packed)
        if self.succeeded:
            return value
        raise value


def pack_item(task: Task, item: Any) -> bytes:
    packed: bytes = cloudpickle.dumps((task, item))
    return packed


def run(context: Any, payload: bytes, time_limit: float | None = None) -> Outcome:
    try:
        task, item = pickle.loads(payload)
        value = call_within(time_limit, task, context, item)
        return Outcome(True, cloudpickle.dumps(value))
    except BaseException as error:  # sys.exit() in a task must not end the worker
        return _failure(error)


def _failure(error: BaseException) -> Outcome:
    where = "".join(traceback.format_exception(error))
    error.add_note(f"In the worker:\n{where}")
    try:
        packed = cloudpickle.dumps(error)
        pickle.loads(packed)
    except Exception:
        # Exceptions with a constructor of their own often cannot be unpickled.
        stand_in = RuntimeError(f"{type(error).__name__}: {error}")
        stand_in.add_note(f"In the worker:\n{where}")
        packed = cloudpickle.dumps(stand_in)
    return Outcome(False, packed)


class OutOfTime(Exception):  # noqa: N818 - the fate of an item, not a mistake
    """An item ran longer than the time limit."""


def is_over(limit: float | None, since: float) -> bool:
    """Whether an item has run so long after its time limit that its worker has to be killed."""
    return limit is not None and time.monotonic() - since > limit + max(GRACE_SECONDS, limit / 2)


def call_within(limit: float | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; raise `OutOfTime` in it after so many seconds, and again each second."""
    if limit is None:
        return function(*arguments)
    in_main_thread = threading.current_thread() is threading.main_thread()
    by_signal = in_main_thread and hasattr(signal, "SIGALRM")
    over: list[bool] = []
    value = None
    try:
        value = (_with_alarm if by_signal else _in_thread)(limit, over, function, arguments)
    except BaseException:
        if not over:
            raise
    if over:  # whatever the function made of the exception
        raise OutOfTime(f"the item ran longer than {limit:g} s")
    return value


def _with_alarm(
    limit: float, over: list[bool], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    running = True

    def ring(*_: object) -> None:
        if running:
            over.append(True)
            raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, limit, REPEAT_SECONDS)
            return function(*arguments)
        finally:
            running = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _in_thread(
    limit: float, over: list[bool], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    """Call a function in this thread, into which another one raises the exception.

    Waiting calls of compiled code (`time.sleep`) end first, where a signal would end them.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    lock, ended = threading.Lock(), threading.Event()
    running = True

    def watch() -> None:
        seconds = limit
        while not ended.wait(seconds):
            with lock:
                if running:
                    over.append(True)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(OutOfTime))
            seconds = REPEAT_SECONDS

    try:
        threading.Thread(target=watch, daemon=True).start()
        return function(*arguments)
    finally:
        # Python raises what another thread has set when a call ends or a loop turns: the end of
        # the inner `with` is such a place, so that nothing is left to be raised after it. (To take
        # an exception back would do the same, but Python 3.11 then hangs if it traces calls.)
        while running:
            try:
                with lock:
                    running = False
            except OutOfTime:
                pass
        ended.set()
