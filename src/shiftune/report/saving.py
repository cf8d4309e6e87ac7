"""Files that are written for people: completely, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from shiftune._files import atomic_write
from shiftune.errors import StorageError


def save_text(text: str, path: str | os.PathLike[str], what: str) -> Path:
    """Write a file of text; `what` names it in errors."""
    where = file_path(path)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(where) as part:
            part.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise StorageError(
            f"{what} {str(where)!r} cannot be written ({error.strerror}); give another path"
        ) from error
    return where


def file_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file, or refuse that of a folder."""
    where = Path(path)
    if where.is_dir():
        raise StorageError(f"{str(where)!r} is a folder; give the path of a file, such as r.html")
    return where
