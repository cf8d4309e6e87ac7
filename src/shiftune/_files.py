"""Files that are written as a whole, locked files, temporary folders, and text of TOML files."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from shiftune import _interrupts
from shiftune.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# How the names of half-written files begin; a process that is killed leaves them behind.
PART = ".part-"
# How the names of temporary folders begin.
PREFIX = "shiftune-"
# Between two attempts to take a lock that another process holds.
POLL_SECONDS = 0.2


@contextmanager
def atomic_write(path: Path, *, interruptible: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move the file to `path` at the end.

    The temporary file is new and empty, never one that somebody has put there, or linked. An
    interrupt is raised before the file is begun, if the file is `interruptible`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "a.txt") as part:
    ...         _ = part.write_text("all of it")
    ...     [p.name for p in Path(folder).iterdir()]
    ['a.txt']
    """
    if interruptible:
        _interrupts.check()
    part = path.with_name(f"{PART}{path.name}")
    part.unlink(missing_ok=True)  # of a process that was killed
    _interrupts.unfinished_files.add(part)
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
        _interrupts.unfinished_files.discard(part)


# ---------------------------------------------------------------- locks, which end with a process


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Wait until no other process is inside such a block for the same file."""
    lock = take_lock(path)
    try:
        yield
    finally:
        release_lock(lock)


def take_lock(path: Path, *, shared: bool = False, attempts: int | None = None) -> BinaryIO | None:
    """Lock a file as soon as others let it go; None if the system or the file system has no locks.

    BlockingIOError after so many attempts.
    """
    if fcntl is None:
        return None
    while True:
        _interrupts.check()
        file = open(path, "rb+", opener=_never_through_links)  # noqa: SIM115  # kept by the caller
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            attempts = None if attempts is None else attempts - 1
            if attempts == 0:
                raise
            time.sleep(POLL_SECONDS)
            continue
        except OSError:
            file.close()
            path.unlink(missing_ok=True)
            return None
        # Whoever had the lock may have removed the file after it was opened here.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                _held.add(file)
                return file
        file.close()


def release_lock(file: BinaryIO | None) -> None:
    """Release a lock, if there is one, and remove its file if nobody shares it."""
    if file is None:
        return
    with suppress(OSError):  # shared; or the folder is gone, or cannot be written any more
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(file.name)
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
        pass
    return False


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


# ---------------------------------------------------------------- temporary folders with data

_folder_locks: dict[str, BinaryIO] = {}


def make_temporary_folder() -> str:
    """Make a folder that only its owner can read, and remove those of processes that were killed.

    >>> folder = make_temporary_folder()
    >>> remove_temporary_folder(folder)
    >>> Path(folder).exists()
    False
    """
    _remove_leftovers(Path(tempfile.gettempdir()))
    try:
        with _interrupts.temporary_folders_lock:
            folder = tempfile.mkdtemp(prefix=PREFIX)
            _interrupts.temporary_folders.add(folder)
    except OSError as error:
        raise StorageError(
            f"no temporary folder can be made ({error.strerror or error}); make room, or name "
            "another place in the environment variable TMPDIR"
        ) from error
    if fcntl is not None:
        # Under its name the file is locked from the beginning; the lock ends with the process.
        new = Path(folder, f"{_interrupts.IN_USE}-soon")
        with suppress(OSError):  # no locks there: it is not known as a leftover later
            _folder_locks[folder] = file = new.open("ab")
            fcntl.flock(file, fcntl.LOCK_EX)
            new.rename(new.with_name(_interrupts.IN_USE))
    return folder


def remove_temporary_folder(folder: str) -> None:
    """Remove a temporary folder of this process."""
    _interrupts.remove_folder(folder)
    _interrupts.temporary_folders.discard(folder)
    if file := _folder_locks.pop(folder, None):
        file.close()


def _remove_leftovers(place: Path) -> None:
    """Remove this user's folders whose process has ended."""
    if fcntl is None:
        return
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # of others, in use, or gone meanwhile
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _interrupts.IN_USE).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _interrupts.remove_folder(str(folder))


# ---------------------------------------------------------------- TOML, which Python only reads


def toml_lines(entries: Mapping[str, Any]) -> str:
    """Return a line for every entry; values are text, numbers, truth values, lists and mappings.

    >>> print(toml_lines({"label": "ill", "C": {"low": 0.1, "log": True}, "keep": ["a b"]}))
    label = "ill"
    C = { low = 0.1, log = true }
    keep = ["a b"]
    """
    return "\n".join(_toml_entries(entries))


def _toml_entries(entries: Mapping[str, Any]) -> list[str]:
    return [
        f"{name if re.fullmatch('[A-Za-z0-9_-]+', name) else _toml_value(name)} = "
        f"{_toml_value(value)}"
        for name, value in entries.items()
    ]


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_toml_entries(value))} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    # The rest is written as in JSON, except that TOML knows no halves of characters.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
