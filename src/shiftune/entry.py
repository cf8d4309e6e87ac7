"""Beginning and end of a command line: Ctrl-C ends it with 130 within seconds, whatever it does.

SIGTERM ends it at once with 143, after temporary folders are removed.

This module imports next to nothing, so that it also handles interrupts during all other imports.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from shiftune import interrupts

if TYPE_CHECKING:
    from collections.abc import Callable

STOPPED, TERMINATED = 130, 143
# Seconds from Ctrl-C to the end of a process that reaches no safe point, because it is in a long
# computation of compiled code. Nothing is lost: records and files are written as a whole.
GRACE = 3.0

# Folders that must not outlive the process, however it ends. Whoever makes one adds it, and
# discards it when it is removed. The lock is held while one is made and added.
temporary_folders: set[str] = set()
temporary_folders_lock = threading.Lock()
LOCK_SECONDS = 2.0

_message = "stopped"
_loaded = False


def run(load: Callable[[], Callable[[], object]]) -> None:
    """Run a command line.

    Parameters
    ----------
    load : function
        Imports and returns the application, which ends with SystemExit or returns.
    """
    global _loaded
    if interrupts.defer_from_now_on():
        _watch()
    try:
        application = load()
        _loaded = True
        application()
        interrupts.check()
    except BaseException as error:  # an interrupt may come out as any error
        if not interrupts.noted() and not isinstance(error, KeyboardInterrupt):
            raise
        if not (isinstance(error, SystemExit) and error.code == STOPPED):
            print_stopped()
        sys.exit(STOPPED)


def keeps_results(yes: bool) -> None:
    """Choose the message after Ctrl-C: whether the same command can continue."""
    global _message
    _message = "stopped; run the same command again to continue" if yes else "stopped"


def print_stopped() -> None:
    """Print the message after Ctrl-C."""
    print(_message, file=sys.stderr)


def _watch() -> None:
    """End the process after `GRACE`, or at a second interrupt, from a thread of its own.

    While modules are imported there is nothing to wait for. Python's handlers run between two
    lines of Python; the byte that announces the signal is written at once.
    """
    if not hasattr(os, "set_blocking"):  # Windows before Python 3.12
        return
    announced, announce = os.pipe()
    os.set_blocking(announce, False)
    signal.set_wakeup_fd(announce, warn_on_full_buffer=False)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: None)  # announced, like any signal with a handler

    def wait() -> None:
        later = None
        while byte := os.read(announced, 1):
            if byte[0] == signal.SIGTERM:
                _end(TERMINATED)
            if byte[0] != signal.SIGINT:
                continue
            if later is not None or not _loaded:
                _end(STOPPED)
            later = threading.Timer(GRACE, _end, (STOPPED,))
            later.daemon = True
            later.start()

    threading.Thread(target=wait, daemon=True).start()


def _end(code: int) -> None:
    # Not through sys.stderr, which the main thread may hold.
    with suppress(OSError):
        os.write(2, f"{_message}\n".encode())
    temporary_folders_lock.acquire(timeout=LOCK_SECONDS)  # for good: no other folder is made
    for folder in tuple(temporary_folders):
        with suppress(OSError):  # under another name, workers cannot write to it any more
            os.rename(folder, f"{folder}-ending")
            folder = f"{folder}-ending"
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)
