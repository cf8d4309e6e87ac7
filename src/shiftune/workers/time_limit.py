"""Exceptions that end a task after a time limit, as soon as it executes Python code."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from typing import Any

# Between two attempts to stop a task: it needs time to clean up, and is killed after several.
# Several, because code that catches all exceptions may have caught the first.
REPEAT_SECONDS = 1.0


class OutOfTime(Exception):  # noqa: N818 - the fate of an item, not a mistake
    """An item ran longer than the time limit."""


def call_within(limit: float | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; raise `OutOfTime` in it after so many seconds, and again each second.

    >>> call_within(60, pow, 2, 3)
    8
    """
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
    thread = threading.get_ident()
    lock, ended = threading.Lock(), threading.Event()
    running = True

    def watch() -> None:
        seconds = limit
        while not ended.wait(seconds):
            with lock:
                if running:
                    over.append(True)
                    _raise_in(thread, OutOfTime)
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


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
