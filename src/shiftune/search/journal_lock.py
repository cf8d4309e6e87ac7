"""Lock of a journal file, which ends with the process that holds it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

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
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock and take it."""
        if fcntl is None:
            return super().acquire()
        self._descriptor = os.open(self._path, os.O_RDWR)
        with suppress(OSError):  # network file systems may have no locks
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Release the lock."""
        if fcntl is None:
            super().release()
        elif self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
