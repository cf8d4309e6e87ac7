"""Journal of trials: records with checksums, so that damage is found, and two locks.

The lock of a record is on the journal itself, so that others may read between two records. The lock
of a search, on a file beside it, refuses a second search, unless all have joined. Both end with the
process that holds them.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple
from zlib import crc32

from optuna.storages.journal import BaseJournalBackend, JournalFileOpenLock

from shiftune._files import atomic_write, is_locked, release_lock, take_lock
from shiftune.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("shiftune")

# How Optuna's journals begin.
BEGINS = b'{"op_code"'
# Last entry of a record: the CRC-32 of the whole file up to it. Optuna ignores the entry.
CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{8})"}\n\Z')
# What the name of a damaged journal's copy adds to that of the journal.
DAMAGED = ".damaged"
# Optuna's locks are files, which a writer that is killed leaves behind. The next one takes a file
# of the same age for so many seconds to be left; a record is written in milliseconds.
STALE_SECONDS = 5
# A search that joins tries so often: one that ends looks for a moment whether it is the last.
ATTEMPTS = 10


class Place(NamedTuple):
    """Place between two records: how many come before it, their bytes, and the CRC-32 of these."""

    records: int = 0
    offset: int = 0
    checksum: int = 0


class Damaged(Exception):  # noqa: N818 - a state of the file, which `StorageError` reports
    """A record is not what was written, or one before it is."""


class JournalFile(BaseJournalBackend):
    """Optuna's form of a journal, one record of JSON per line, with checksums of our own.

    Every checksum covers all that comes before it, so that records that were changed, lost or
    swapped are noticed at the next one. Records without a checksum, which optuna-dashboard may add,
    are read as well. A record that cannot be written is taken back as a whole.

    The path is absolute: the file must be the same after a change of the working folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = Place()
        self._size = 0  # that the file has at least

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the records from a number on, counted from 0."""
        if log_number_from != self._read.records:
            self._read = Place()
        with explained(self._path), self._path.open("rb") as file:
            self._seek_unread(file)
            lines = file.readlines()
        try:
            for record, place in checked(lines, self._read):
                self._read, self._size = place, max(self._size, place.offset)
                if place.records > log_number_from:
                    yield record
        except Damaged as error:
            raise StorageError(
                f"the storage {str(self._path)!r} cannot be opened as a journal of trials: record "
                f"{self._read.records + 1} is damaged; rerun to continue from there"
            ) from error

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write records."""
        path = self._path
        with explained(path), record_lock(path), path.open("rb+", buffering=0) as file:
            self._seek_unread(file)
            unread = file.read()
            # Half a line is of a process that was killed.
            unread = unread[: unread.rfind(b"\n") + 1]
            end = self._read.offset + len(unread)
            lines = sealed(logs, crc32(unread, self._read.checksum))
            try:
                file.truncate(end)
                file.seek(end)
                while lines:
                    lines = lines[file.write(lines) :]
                os.fsync(file.fileno())
                self._size = file.tell()
            except BaseException:
                with suppress(OSError):
                    file.truncate(end)
                raise

    def _seek_unread(self, file: IO[bytes]) -> None:
        if os.fstat(file.fileno()).st_size < self._size:
            raise StorageError(
                f"the storage {str(self._path)!r} was cut or replaced by another program while it "
                "was in use; rerun to continue after its last trial"
            )
        file.seek(self._read.offset)


def open_journal(path: Path) -> JournalFile:
    """Open a journal, which is created if it is new, and repaired if it is damaged."""
    with explained(path):
        path.open("a").close()
        with record_lock(path):  # a line that another process is writing is not torn
            repair(path)
    return JournalFile(path)


def sealed(logs: Iterable[dict[str, Any]], checksum: int) -> bytes:
    r"""Return the lines of some records, after a file with a checksum.

    >>> sealed([{"op_code": 0}], 0)
    b'{"op_code":0,"checksum":"b7bbe9d1"}\n'
    """
    lines = b""
    for log in logs:
        body = json.dumps(log, separators=(",", ":")).encode()[:-1]
        line = body + b',"checksum":"%08x"}\n' % crc32(body, checksum)
        lines, checksum = lines + line, crc32(line, checksum)
    return lines


def checked(lines: Iterable[bytes], place: Place) -> Iterator[tuple[dict[str, Any], Place]]:
    """Yield every record and the place behind it; a last line that is being written is left out.

    Raises `Damaged` at a record that cannot be read, or whose checksum is not that of the lines up
    to it.
    """
    for line in lines:
        if not line.endswith(b"\n"):
            return
        seal = CHECKSUM.search(line)
        if seal and int(seal[1], 16) != crc32(line[: seal.start()], place.checksum):
            raise Damaged
        try:
            record = json.loads(line)
        except ValueError as error:
            raise Damaged from error
        place = Place(place.records + 1, place.offset + len(line), crc32(line, place.checksum))
        yield record, place


def repair(path: Path) -> None:
    """Cut off what is damaged in a journal, after a copy of it was set aside.

    A last line that was not written to its end is only cut off: a process that is killed leaves it.
    Files that are not journals stay as they are.
    """
    content = path.read_bytes()
    lines = BytesIO(content).readlines()
    has_seals = any(map(CHECKSUM.search, lines))
    if not has_seals and not content.startswith(BEGINS):
        return
    behind = sure = Place()
    try:
        for line, (_, behind) in zip(lines, checked(lines, Place()), strict=False):
            if CHECKSUM.search(line):
                sure = behind
    except Damaged:
        if not has_seals:  # of another program, which may know more about it
            return
        endings = itertools.chain([DAMAGED], (f"{DAMAGED}-{n}" for n in itertools.count(2)))
        copies = (path.with_name(path.name + ending) for ending in endings)
        copy = next(copy for copy in copies if not os.path.lexists(copy))
        with atomic_write(copy, interruptible=False) as part:
            part.write_bytes(content)
        os.truncate(path, sure.offset)
        logger.warning(
            "%s is damaged after record %d; a copy of it is %s, and the trials from there on run "
            "again",
            path,
            sure.records,
            copy.name,
        )
        return
    if behind.offset < len(content):
        os.truncate(path, behind.offset)
        logger.warning("the last record of %s was not written to its end and is dropped", path)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a StorageError that names the journal."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the storage {str(path)!r} cannot be written ({error.strerror or error}); fix "
            "this, then rerun to continue after its last trial, or give another path"
        ) from error


@contextmanager
def record_lock(journal: Path) -> Iterator[None]:
    """Wait for the lock of a record, and hold it inside the block.

    Where the file system has no locks, one search at a time is the user's promise.
    """
    if fcntl is None:
        lock = JournalFileOpenLock(str(journal), grace_period=STALE_SECONDS)
        lock.acquire()
        try:
            yield
        finally:
            lock.release()
        return
    with journal.open("rb+") as file:
        with suppress(OSError):  # network file systems may have none
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def search_lock(journal: Path, *, join: bool) -> Iterator[None]:
    """Refuse a second search on the journal inside the block, unless both `join`.

    Without locks of the system or the file system nothing is refused, and nobody can join.
    """
    attempts = ATTEMPTS if join else 1
    try:
        lock = take_lock(_search_lock_path(journal), shared=join, attempts=attempts)
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
        if join and lock is None:
            raise StorageError(
                f"several searches cannot join in the journal {str(journal)!r}, because there are "
                "no file locks; put it elsewhere, or use a database as storage"
            )
        yield
    finally:
        release_lock(lock)


def is_searched(journal: Path) -> bool:
    """Whether any search holds the journal."""
    return is_locked(_search_lock_path(journal))


def _search_lock_path(journal: Path) -> Path:
    return journal.with_name(f".{journal.name}.searching")
