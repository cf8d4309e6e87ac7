"""JSON files with a format number and a checksum, written completely or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shiftune._files import atomic_write
from shiftune._provenance import check_format
from shiftune.errors import StorageError

# Number of the form of settings.json, best.json and update.json.
FORMAT = 4
CHECKSUM = "checksum"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file; its content has the number `FORMAT`."""
    sealed = {**content, CHECKSUM: _checksum(content)}
    with atomic_write(path) as part:
        part.write_text(json.dumps(sealed, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_json(path: Path, advice: str = "give another folder") -> dict[str, Any]:
    """Read a file as it was written; one that is damaged or was edited is refused."""
    if not path.exists():
        raise StorageError(f"{path.parent} holds no result of shiftune tune (no {path.name})")
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} cannot be read ({error}); {advice}") from error
    if not isinstance(found, dict):
        raise StorageError(f"{path} is damaged; {advice}")
    check_format(found.get("format"), FORMAT, str(path))
    if found.pop(CHECKSUM, None) != _checksum(found):
        raise StorageError(f"{path} is damaged or was edited; {advice}")
    return found


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@contextmanager
def writing_to(folder: Path, advice: str) -> Iterator[None]:
    """Turn errors of the file system into a StorageError that names the folder."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"results cannot be written to {folder} ({error.strerror or error}); {advice}"
        ) from error
