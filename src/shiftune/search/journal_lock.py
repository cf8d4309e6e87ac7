"""Locks of a journal file, which end with the process that holds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from optuna.storages.journal import JournalFileOpenLock

from shiftune.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Optuna's locks are files, which a writer that is killed leaves behind. The next one takes a file
# of the same age for so many seconds to be left; a record is written in milliseconds.
STALE_SECONDS = 5


class JournalLock(JournalFileOpenLock):
    """Lock of the operating system on the journal itself, released when its process ends.

    Where the system or the file system has no such locks, one search at a time is the user's
    promise (Windows: Optuna's lock file).

    Parameters
    ----------
    path : Path
        Of the journal, absolute: a lock must be the same after a change of the working folder.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), grace_period=STALE_SECONDS)
        self._path = path
        self._file: BinaryIO | None = None

    def acquire(self) -> bool:
        """Wait for the lock and take it."""
        if fcntl is None:
            return super().acquire()
        self.release()  # one that an interrupt has kept from being released
        self._file = self._path.open("rb+")
        with suppress(OSError):  # network file systems may have no locks
            fcntl.flock(self._file, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Release the lock."""
        if fcntl is None:
            super().release()
        elif self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


@contextmanager
def only_search(journal: Path) -> Iterator[None]:
    """Refuse a second search on the same journal inside the block.

    The lock is on a file beside the journal, which others may read meanwhile. Without locks of the
    system or the file system nothing is refused; see `JournalLock`.
    """
    if fcntl is None:
        yield
        return
    path = journal.with_name(f".{journal.name}.searching")
    try:
        file = _locked(path)
    except OSError as error:
        raise StorageError(
            f"no file can be written beside the journal {str(journal)!r} ({error.strerror}); give "
            "another storage"
        ) from error
    if file is None:
        raise StorageError(
            f"another search is using the journal {str(journal)!r}; wait until it ends, or give "
            "another storage"
        )
    _held.add(file)
    try:
        yield
    finally:
        with suppress(OSError):  # the folder may be gone, or cannot be written any more
            path.unlink()
        _held.discard(file)
        file.close()


def _locked(path: Path) -> BinaryIO | None:
    """Open a file and lock it; None if another search has locked it."""
    while True:
        file = open(path, "ab", opener=_never_through_links)  # noqa: SIM115  # kept by the caller
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # no locks
            return file
        # Whoever had the lock may have removed the file after it was opened here.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()


def _never_through_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


# A lock lasts until every process that inherited its file has closed it. Workers that a user's
# executor has forked may live longer than the search.
_held: set[BinaryIO] = set()


def _close_inherited() -> None:
    for file in _held:
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
