"""Lock of a journal file, which ends with the process that holds it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from optuna.storages.journal import JournalFileOpenLock

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
