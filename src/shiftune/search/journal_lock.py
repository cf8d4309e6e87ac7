"""Locks of a journal file, which end with the process that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from optuna.storages.journal import JournalFileOpenLock

from shiftune.errors import StorageError
from shiftune.file_lock import is_locked, release_lock, take_patiently

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Optuna's locks are files, which a writer that is killed leaves behind. The next one takes a file
# of the same age for so many seconds to be left; a record is written in milliseconds.
STALE_SECONDS = 5
# Attempts of a search that joins.
POLLS = 10


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
    """Refuse a second search on the same journal inside the block, joined or not.

    The lock is on a file beside the journal, which others may read meanwhile. Without locks of the
    system or the file system nothing is refused; see `JournalLock`.
    """
    if fcntl is None:
        yield
        return
    with _searching(journal, fcntl.LOCK_EX):
        yield


@contextmanager
def joined_search(journal: Path) -> Iterator[None]:
    """Refuse searches on the same journal inside the block, except for those that have joined."""
    if fcntl is None:
        raise StorageError(_NO_LOCKS.format(journal, "this system"))
    with _searching(journal, fcntl.LOCK_SH) as locks:
        if not locks:
            raise StorageError(_NO_LOCKS.format(journal, "the file system"))
        yield


_NO_LOCKS = (
    "several searches cannot join in the journal '{}', because {} has no file locks; put it "
    "elsewhere, or use a database as storage"
)


@contextmanager
def _searching(journal: Path, kind: int) -> Iterator[bool]:
    """Hold a lock as a search; yield whether there are locks at all."""
    path = _search_lock(journal)
    try:
        # A search that has joined looks for a moment whether it is the last one when it ends.
        file, locks = take_patiently(path, kind, POLLS if kind == fcntl.LOCK_SH else 1)
    except BlockingIOError as error:
        raise StorageError(
            f"another search is using the journal {str(journal)!r}; wait until it ends, let all "
            "searches join, or give another storage"
        ) from error
    except OSError as error:
        raise StorageError(
            f"no file can be written beside the journal {str(journal)!r} ({error.strerror}); give "
            "another storage"
        ) from error
    try:
        yield locks
    finally:
        release_lock(file, path)


def is_searched(journal: Path) -> bool:
    """Whether any search holds the journal."""
    return is_locked(_search_lock(journal))


def _search_lock(journal: Path) -> Path:
    return journal.with_name(f".{journal.name}.searching")
