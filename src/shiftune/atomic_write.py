"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shiftune import interrupts

# How the names of temporary files begin; a process that is killed leaves them behind.
PART = ".part-"


@contextmanager
def atomic_write(path: Path, *, interruptible: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move the file to `path` at the end.

    The temporary file is new and empty, never one that somebody has put there, or linked. An
    interrupt is raised before the file is begun, if the file is `interruptible`.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> with TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "a.txt") as part:
    ...         _ = part.write_text("all of it")
    ...     [p.name for p in Path(folder).iterdir()]
    ['a.txt']
    """
    if interruptible:
        interrupts.check()
    part = path.with_name(f"{PART}{path.name}")
    part.unlink(missing_ok=True)  # of a process that was killed
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
