"""Ctrl-C that waits until what must not be cut in two is done."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def defer_sigint() -> Iterator[None]:
    """Let an interrupt (SIGINT) wait for the end of the block.

    Optuna's journal holds a lock file while it writes. An interrupt that arrives while the lock is
    being released ends in an error about that file instead of a KeyboardInterrupt, or leaves the
    lock behind. A second interrupt does not wait: whatever hangs can be left.

    Signals come to the main thread only; elsewhere there is nothing to hold up.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if in_main_thread else None
    if handler is None or isinstance(handler, int):  # another language's, ignored or the default
        yield
        return
    came: list[tuple[int, FrameType | None]] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if came:
            handler(number, frame)
        came.append((number, frame))

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
