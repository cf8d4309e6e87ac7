"""Ctrl-C and SIGTERM: noted at once, raised at safe points; a command ends within seconds."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
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


STOPPED = 130
# Signals that end a command at once, and its exit codes; Windows has no SIGHUP.
ENDED = {getattr(signal, name, None): code for name, code in (("SIGTERM", 143), ("SIGHUP", 129))}
# Seconds from Ctrl-C to the end of a process that reaches no safe point, because it is in a long
# computation of compiled code. Nothing is lost: records and files are written as a whole.
GRACE = 3.0

# Folders, and files that are half written, that must not outlive the process, however it ends.
# Whoever makes one adds it, and discards it when it is removed. The lock is held while a folder is
# made and added.
temporary_folders: set[str] = set()
unfinished_files: set[Path] = set()
temporary_folders_lock = threading.Lock()
LOCK_SECONDS = 2.0
# File that marks such a folder, by which the folder of a process that was killed is known.
IN_USE = "in-use"

_message = "stopped"
_loaded = False


def run(load: Callable[[], Callable[[], object]]) -> None:
    """Run the command line that `load` imports; it returns or raises SystemExit."""
    global _loaded
    defer_from_now_on()
    if threading.current_thread() is threading.main_thread():
        _watch()
    try:
        application = load()
        _loaded = True
        application()
        check()
    except BaseException as error:  # an interrupt may come out as any error
        if not noted() and not isinstance(error, KeyboardInterrupt):
            raise
        if not (isinstance(error, SystemExit) and error.code == STOPPED):
            print_stopped()
        sys.exit(STOPPED)


def keeps_results(yes: bool) -> None:
    """Choose the message after Ctrl-C: whether the same command can continue."""
    global _message
    _message = "stopped; rerun the command to continue" if yes else "stopped"


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
    heard = [number for number in ENDED if number and signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, lambda *_: None)  # announced, like any signal with a handler
    if hasattr(os, "register_at_fork"):
        _let_children_be(heard)

    def wait() -> None:
        later = None
        while byte := os.read(announced, 1):
            if byte[0] in ENDED:
                _end(ENDED[byte[0]])
            if byte[0] != signal.SIGINT:
                continue
            if later is not None or not _loaded:
                _end(STOPPED)
            later = threading.Timer(GRACE, _end, (STOPPED,))
            later.daemon = True
            later.start()

    threading.Thread(target=wait, daemon=True).start()


def _let_children_be(heard: list[signal.Signals]) -> None:
    """Give processes that a model forks the usual handlers: their signals are none to this one."""
    mask = threading.local()

    def before() -> None:
        mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, {*heard, signal.SIGINT})

    def after() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask.before)

    def after_in_child() -> None:
        signal.set_wakeup_fd(-1)
        for number in heard:
            signal.signal(number, signal.SIG_DFL)
        defer_no_more()
        temporary_folders.clear()
        after()

    os.register_at_fork(before=before, after_in_parent=after, after_in_child=after_in_child)


def _end(code: int) -> None:
    # Not through sys.stderr, which the main thread may hold.
    with suppress(OSError):
        os.write(2, f"{_message}\n".encode())
    temporary_folders_lock.acquire(timeout=LOCK_SECONDS)  # for good: no other folder is made
    for file in tuple(unfinished_files):
        with suppress(OSError):
            file.unlink()
    for folder in tuple(temporary_folders):
        with suppress(OSError):  # under another name, workers cannot write to it any more
            os.rename(folder, f"{folder}-ending")
            folder = f"{folder}-ending"
        remove_folder(folder)
    os._exit(code)


def remove_folder(folder: str) -> None:
    """Remove a temporary folder, its mark last: if this is cut short, the rest is still known."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != IN_USE:
                with suppress(OSError):
                    os.unlink(entry.path)
    shutil.rmtree(folder, ignore_errors=True)
