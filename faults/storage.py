"""Faults of the folder that a run writes to, real ones, and their repair."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DISK_BYTES = 64_000_000


@contextmanager
def full(out: Path) -> Iterator[None]:
    """Leave no room on the disk, which is one of the case's own."""
    filler = out.parent / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(b"0")
    yield
    filler.unlink()


@contextmanager
def read_only(out: Path) -> Iterator[None]:
    """Forbid to change the folder and its files, also to root."""
    owner = out.parent.stat()
    out.mkdir(exist_ok=True)
    os.chown(out, owner.st_uid, owner.st_gid)
    root = os.geteuid() == 0
    _run("chattr -R +i" if root else "chmod -R a-w", out)
    try:
        yield
    finally:
        _run("chattr -R -i" if root else "chmod -R u+w", out)


@contextmanager
def moved(out: Path) -> Iterator[None]:
    """Move the folder away, and back over what was written meanwhile."""
    elsewhere = out.with_name("elsewhere")
    with suppress(FileNotFoundError):
        out.rename(elsewhere)
    yield
    if elsewhere.exists():
        shutil.rmtree(out, ignore_errors=True)
        elsewhere.rename(out)


@contextmanager
def removed(out: Path) -> Iterator[None]:
    """Remove the folder, also if predictions of a trial are written to it meanwhile."""
    while out.exists():
        shutil.rmtree(out, ignore_errors=True)
    yield


@contextmanager
def without_journal(out: Path) -> Iterator[None]:
    """Remove the journal."""
    (out / "study.journal").unlink(missing_ok=True)
    yield


@contextmanager
def half_of_the_journal(out: Path) -> Iterator[None]:
    """Cut the journal in the middle."""
    journal = out / "study.journal"
    with suppress(FileNotFoundError):
        os.truncate(journal, journal.stat().st_size // 2)
    yield


@dataclass(frozen=True)
class StorageFault:
    """A fault, its name in the table, and whether trials survive it."""

    name: str
    done: Callable[[Path], AbstractContextManager[None]]
    keeps: bool = True


FAULTS = [
    StorageFault("disk full", full),
    StorageFault("folder read-only", read_only),
    StorageFault("folder moved away", moved),
    StorageFault("folder removed", removed, keeps=False),
    StorageFault("journal removed", without_journal, keeps=False),
    StorageFault("journal cut", half_of_the_journal, keeps=False),
]


@cache
def possible(place: Path) -> list[StorageFault]:
    """Return the faults that can be done in a folder; a disk of its own may need rights."""
    return [fault for fault in FAULTS if _is_possible(fault, place / "possible")]


def _is_possible(fault: StorageFault, folder: Path) -> bool:
    try:
        with disk_for(fault, folder):
            (folder / "out").mkdir(parents=True)
            with fault.done(folder / "out"):
                return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def disk_for(fault: StorageFault, folder: Path) -> AbstractContextManager[None]:
    """Give a folder a small disk of its own, for the fault that fills it."""
    return small_disk(folder, DISK_BYTES) if fault.done is full else nullcontext()


@contextmanager
def small_disk(folder: Path, nbytes: int) -> Iterator[None]:
    """Mount a file system of so many bytes on a folder, which root may do."""
    folder.mkdir(exist_ok=True)
    _run(f"mount -t tmpfs -o size={nbytes} tmpfs", folder)
    try:
        yield
    finally:
        _run("umount --lazy", folder)  # a process that is about to end may still be there


def _run(command: str, folder: Path) -> None:
    subprocess.run([*command.split(), str(folder)], check=True, capture_output=True)
