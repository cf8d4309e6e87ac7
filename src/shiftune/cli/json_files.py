"""JSON files with a format number, written completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shiftune.atomic_write import atomic_write
from shiftune.errors import StorageError
from shiftune.resuming import check_format

# Number of the form of settings.json, best.json and update.json.
FORMAT = 2


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file; its content has the number `FORMAT`."""
    with atomic_write(path) as part:
        part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_json(path: Path, needed: Collection[str]) -> dict[str, Any]:
    """Read a file that must have some entries."""
    if not path.exists():
        raise StorageError(f"{path.parent} holds no result of shiftune tune (no {path.name})")
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read ({error}); give another folder") from error
    if not isinstance(found, dict):
        raise StorageError(f"{path} is damaged; give another folder")
    check_format(found.get("format"), FORMAT, str(path))
    if not set(needed) <= found.keys():
        raise StorageError(f"{path} is damaged; give another folder")
    return found


@contextmanager
def writing_to(folder: Path, advice: str) -> Iterator[None]:
    """Turn errors of the file system into a StorageError that names the folder."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"results cannot be written to {folder} ({error.strerror or error}); {advice}"
        ) from error
