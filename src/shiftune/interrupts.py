"""Deferred Ctrl-C: noted when it comes, raised at the next safe point.

Python raises KeyboardInterrupt wherever the main thread happens to be. In a destructor or a
callback of compiled code it is printed and dropped; between two steps that belong together it
leaves half of them. Inside `deferred` an interrupt (SIGINT) is only noted; `check`, called at the
safe points of a long computation, raises KeyboardInterrupt. A second interrupt does not wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]

_noted = 0
_python_handler: Handler = signal.default_int_handler


@contextmanager
def deferred() -> Iterator[None]:
    """Note interrupts inside the block, and raise KeyboardInterrupt at the next `check`.

    The end of the block is a safe point, too: an interrupt is never lost, even if the block ends
    with another error. Nested blocks share one note. Where no handler can be set (in threads other
    than the main one), or where interrupts are ignored or handled by another language, nothing
    changes.

    >>> try:
    ...     with deferred():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("not yet")
    ...         check()
    ...         print("never")
    ... except KeyboardInterrupt:
    ...     print("now")
    not yet
    now
    """
    global _noted
    if not defer_from_now_on():
        yield
        return
    before = _python_handler
    try:
        try:
            yield
        finally:
            came, _noted = _noted, 0  # one that comes now does not keep the handler from going back
            signal.signal(signal.SIGINT, before)
            came, _noted = came + _noted, 0
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    if came:
        raise KeyboardInterrupt


def defer_from_now_on() -> bool:
    """Note interrupts until the process ends; return whether this call has changed that.

    For command lines, whose end is part of what an interrupt must not disturb.
    """
    global _noted, _python_handler
    if threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    if handler is _note or not callable(handler):
        return False
    _noted, _python_handler = 0, handler
    signal.signal(signal.SIGINT, _note)
    return True


def defer_no_more() -> None:
    """Interrupt as Python does from now on, in a process that was forked."""
    global _noted
    if signal.getsignal(signal.SIGINT) is _note:
        signal.signal(signal.SIGINT, _python_handler)
    _noted = 0


def check() -> None:
    """Raise KeyboardInterrupt if an interrupt was noted: a safe point."""
    if noted() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def noted() -> bool:
    """Whether an interrupt was noted, and has not ended the block of `deferred` yet."""
    return _noted > 0


def _note(number: int, frame: FrameType | None) -> None:
    global _noted
    _noted += 1
    if _noted > 1:
        raise KeyboardInterrupt
