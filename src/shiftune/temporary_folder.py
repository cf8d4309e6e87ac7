"""Temporary folders with data, which no process leaves behind for good."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from shiftune import entry
from shiftune.entry import IN_USE, remove_folder
from shiftune.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX = "shiftune-"

_locks: dict[str, BinaryIO] = {}


def make_temporary_folder() -> str:
    """Make a folder that only its owner can read, and remove those of processes that were killed.

    >>> folder = make_temporary_folder()
    >>> remove_temporary_folder(folder)
    >>> Path(folder).exists()
    False
    """
    _remove_leftovers(Path(tempfile.gettempdir()))
    try:
        with entry.temporary_folders_lock:
            folder = tempfile.mkdtemp(prefix=PREFIX)
            entry.temporary_folders.add(folder)
    except OSError as error:
        raise StorageError(
            f"no temporary folder can be made ({error.strerror or error}); make room, or name "
            "another place in the environment variable TMPDIR"
        ) from error
    if fcntl is not None:
        # Under its name the file is locked from the beginning; the lock ends with the process.
        new = Path(folder, f"{IN_USE}-soon")
        with suppress(OSError):  # no locks there: it is not known as a leftover later
            _locks[folder] = file = new.open("ab")
            fcntl.flock(file, fcntl.LOCK_EX)
            new.rename(new.with_name(IN_USE))
    return folder


def remove_temporary_folder(folder: str) -> None:
    """Remove a folder."""
    remove_folder(folder)
    entry.temporary_folders.discard(folder)
    if file := _locks.pop(folder, None):
        file.close()


def _remove_leftovers(place: Path) -> None:
    """Remove this user's folders whose process has ended."""
    if fcntl is None:
        return
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # of others, in use, or gone meanwhile
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / IN_USE).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(str(folder))
