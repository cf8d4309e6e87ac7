"""Code that runs in a worker: reading the context, running an item, returning its outcome."""

from __future__ import annotations

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
from typing import Any, Literal, NamedTuple

import cloudpickle
import joblib
import numpy as np

from shiftune.errors import StorageError
from shiftune.workers import memory
from shiftune.workers.time_limit import call_within

Task = Callable[[Any, Any], Any]

CONTEXT_FILE = "context.joblib"
MIN_MAPPED_BYTES = 1_000_000
MAX_MAPPED = 256
MAX_BYTES_IN_PIPE = 2000
# First byte of an outcome, which the driver reads without unpacking the rest.
SUCCESS, FAILURE = b"+", b"-"
# A worker that holds so much more than after its first item is replaced: memory leaks in it.
MAX_GROWTH_BYTES = 300_000_000


def write_context(folder: str, context: Any) -> None:
    """Write the context so that processes that read it share the memory of its large arrays.

    Classes that exist in this process only (those of a notebook, for example) are included, which
    ``joblib.dump`` alone cannot do.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_context(folder, {"age": np.arange(3.0)})
    ...     read_context(folder)
    {'age': array([0., 1., 2.])}
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
    rest, arrays = joblib.load(Path(folder, CONTEXT_FILE), mmap_mode="c")
    for array in arrays:
        # One byte of every page: arrays that are read little by little would look like a leak.
        array[::4096].max()
    return pickle.loads(rest, buffers=arrays)


_contexts: dict[str, Any] = {}
_loading = threading.Lock()


def forget_context(folder: str) -> None:
    """Free the context where workers are threads of the driver's process."""
    _contexts.pop(folder, None)


def run_with_file(folder: str, notice: str, payload: bytes, time_limit: float | None) -> bytes:
    """Run an item with the context of a folder, which each process reads once.

    While the task runs, the file ``notice`` holds the process and the time at which it began: for
    the driver's time limit, and to know which item a dead worker was running. (A future is
    "running" earlier, when its item is still in a queue.)
    """
    path = Path(folder, notice)
    try:
        with _loading:
            if folder not in _contexts:
                _contexts[folder] = read_context(folder)
        context = _contexts[folder]
        # The clock counts from the start of the machine and is the same in all its processes.
        path.write_text(f"{os.getpid()} {time.monotonic()!r}")
    except OSError as error:
        return _pack_error(_no_room(folder, error))
    except Exception as error:
        return _pack_error(error)
    outcome = run(context, payload, time_limit)
    try:
        if len(outcome) > MAX_BYTES_IN_PIPE:
            # A worker that is killed while it writes to a pipe (memory often runs out just then)
            # leaves the driver's thread reading for ever. Up to 4096 bytes are written at once or
            # not at all.
            file = Path(folder, f"{notice}-outcome")
            file.write_bytes(outcome)
            packed: bytes = cloudpickle.dumps(("file", file))
            outcome = outcome[:1] + packed
        path.unlink()
    except OSError as error:
        return _pack_error(_no_room(folder, error))
    return outcome


class Notice(NamedTuple):
    """The process that runs an item, and since when by its monotonic clock."""

    pid: int
    since: float


def read_notice(folder: str, name: str) -> Notice | None:
    """Return the notice of an item that runs, or whose worker died; None before it began."""
    try:
        pid, since = Path(folder, name).read_text().split()
        return Notice(int(pid), float(since))
    except (OSError, ValueError):
        return None


def _no_room(folder: str, error: OSError) -> StorageError:
    """Return an error that ends the whole run: no item could do better."""
    return StorageError(
        f"workers cannot use the temporary folder {folder} ({error.strerror or error}); make room, "
        "or name another place in the environment variable TMPDIR, and run the same again"
    )


def run(context: Any, payload: bytes, time_limit: float | None = None) -> bytes:
    """Run an item and pack its outcome.

    Items and outcomes travel as bytes: what cannot be packed or unpacked is then the error of one
    item. A pool that pickles by itself is broken by an exception class that cannot be unpickled.

    >>> import operator
    >>> unpack(run(10, pack_item(operator.add, 5)))
    15
    """
    try:
        task, item = pickle.loads(payload)
        return _pack("value", call_within(time_limit, task, context, item))
    except BaseException as error:  # sys.exit() in a task must not end the worker
        return _pack_error(error)


def pack_item(task: Task, item: Any) -> bytes:
    """Pack a task and its item for `run`."""
    packed: bytes = cloudpickle.dumps((task, item))
    return packed


def unpack(outcome: bytes) -> Any:
    """Return, or raise, what the task returned or raised."""
    kind, value = pickle.loads(outcome[1:])
    if kind == "file":
        outcome = value.read_bytes()
        value.unlink()
        return unpack(outcome)
    if kind == "error":
        raise value
    return value


def discard(outcome: bytes) -> None:
    """Remove the file of an outcome that nobody wants."""
    if len(outcome) > MAX_BYTES_IN_PIPE:
        return
    kind, value = pickle.loads(outcome[1:])
    if kind == "file":
        value.unlink(missing_ok=True)


def succeeded(outcome: bytes) -> bool:
    """Whether the task returned something.

    >>> import operator
    >>> [succeeded(run(1, pack_item(operator.truediv, each))) for each in (1, 0)]
    [True, False]
    """
    return outcome[:1] == SUCCESS


def _pack(kind: Literal["value", "error"], value: Any) -> bytes:
    packed: bytes = cloudpickle.dumps((kind, value))
    return (SUCCESS if kind == "value" else FAILURE) + packed


def _pack_error(error: BaseException) -> bytes:
    where = "".join(traceback.format_exception(error))
    error.add_note(f"In the worker:\n{where}")
    try:
        packed = _pack("error", error)
        pickle.loads(packed[1:])
    except Exception:
        # Exceptions with a constructor of their own often cannot be unpickled.
        stand_in = RuntimeError(f"{type(error).__name__}: {error}")
        stand_in.add_note(f"In the worker:\n{where}")
        return _pack("error", stand_in)
    return packed


def serve(pipe: Connection, folder: str, time_limit: float | None) -> None:
    """Run items from a pipe, in a process of its own, until the driver closes it, or ends.

    Each outcome comes with whether the process has grown so much that it should be replaced.
    """
    _begin()
    first = None
    with suppress(EOFError, OSError):
        while True:
            name, payload = pipe.recv()
            outcome = run_with_file(folder, name, payload, time_limit)
            first = first or memory.resident_bytes(os.getpid())
            pipe.send((outcome, _has_grown(first)))


def _has_grown(first: int | None) -> bool:
    """Whether memory leaks: the process holds much more than after its first item."""
    for collect in (False, True):
        if collect:
            gc.collect()
        now = memory.resident_bytes(os.getpid())
        if first is None or now is None or now - first < MAX_GROWTH_BYTES:
            return False
    return True


def _begin() -> None:
    """Prepare a worker process: it ignores Ctrl-C, and has a group of its own."""
    with suppress(RuntimeError, ValueError, OSError):  # no stderr
        faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        os.setsid()  # so that what its items start can be ended with it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked while it started
