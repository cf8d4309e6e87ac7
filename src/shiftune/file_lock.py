"""Locks on files, which the operating system releases when the process that holds them ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shiftune import interrupts

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Between two attempts to take a lock that another process holds.
POLL_SECONDS = 0.2


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Wait until no other process is inside such a block for the same file."""
    if fcntl is None:
        yield
        return
    file, _ = take_patiently(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        release_lock(file, path)


def take_lock(path: Path) -> BinaryIO:
    """Return a file with a lock on it, which lasts until it is released or its process ends."""
    return _locked(path, fcntl.LOCK_EX)[0]


def release_lock(file: BinaryIO, path: Path) -> None:
    """Release a lock, and remove its file if nobody shares it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shared = False
    except OSError as error:
        shared = isinstance(error, BlockingIOError)
    if not shared:
        with suppress(OSError):  # the folder may be gone, or cannot be written any more
            path.unlink()
    _held.discard(file)
    file.close()


def remove_if_free(path: Path) -> None:
    """Remove a file on which nobody has a lock."""
    with suppress(OSError), path.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            path.unlink()


def is_locked(path: Path) -> bool:
    """Whether there is a lock on a file, shared or not."""
    try:
        with path.open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _locked(path: Path, kind: int) -> tuple[BinaryIO, bool]:
    """Open a file and lock it; return also whether there are locks."""
    while True:
        file = open(path, "rb+", opener=_never_through_links)  # noqa: SIM115  # kept by the caller
        locks = True
        try:
            fcntl.flock(file, kind)
        except BlockingIOError:
            file.close()
            raise
        except OSError:
            locks = False
        # Whoever had the lock may have removed the file after it was opened here.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                _held.add(file)
                return file, locks
        file.close()


def take_patiently(path: Path, kind: int, polls: int | None = None) -> tuple[BinaryIO, bool]:
    """Lock a file as soon as others let it go; BlockingIOError after so many attempts."""
    while True:
        interrupts.check()
        try:
            return _locked(path, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            polls = None if polls is None else polls - 1
            if polls == 0:
                raise
        time.sleep(POLL_SECONDS)


def _never_through_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)


# A lock lasts until every process that inherited its file has closed it. Processes that a model
# has forked may live longer than the search.
_held: set[BinaryIO] = set()


def _close_inherited() -> None:
    for file in _held:
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
