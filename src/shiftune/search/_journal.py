"""Journal of trials: records with checksums, so that damage is found, and locks."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, Self
from zlib import crc32

from optuna.storages.journal import BaseJournalBackend, JournalFileOpenLock

from shiftune._files import atomic_write, is_locked, release_lock, take_patiently
from shiftune.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


# How Optuna's journals begin.
BEGINS = b'{"op_code"'
# Last entry of a record: the CRC-32 of the whole file up to it. Optuna ignores the entry.
CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{8})"}\n\Z')
# What the name of a damaged journal's copy adds to that of the journal.
DAMAGED = ".damaged"


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

    Parameters
    ----------
    path : Path
        Of a file that exists, absolute.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = JournalLock(path)
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
                f"{self._read.records + 1} is damaged; run the same again to go on from there"
            ) from error

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write records."""
        with explained(self._path), self._lock, self._path.open("rb+", buffering=0) as file:
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
                "was in use; run the same again to continue after the last trial in it"
            )
        file.seek(self._read.offset)


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

    Raises
    ------
    Damaged
        At a record that cannot be read, or whose checksum is not that of the lines up to it.
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
        size, checksum = place.offset + len(line), crc32(line, place.checksum)
        place = Place(place.records + 1, size, checksum)
        yield record, place


def repair(path: Path) -> None:
    """Cut off what is damaged in a journal, after a copy of it was set aside.

    A last line that was not written to its end is only cut off: a process that is killed leaves it.
    Files that are no journals stay as they are.
    """
    content = path.read_bytes()
    lines = BytesIO(content).readlines()
    has_seals = any(map(CHECKSUM.search, lines))
    if not has_seals and not content.startswith(BEGINS):
        return
    behind = sure = Place()
    logger = logging.getLogger("shiftune")
    try:
        for line, (_, behind) in zip(lines, checked(lines, Place()), strict=False):
            if CHECKSUM.search(line):
                sure = behind
    except Damaged:
        if not has_seals:  # of another program, which may know more about it
            return
        copy = _free(path.with_name(f"{path.name}{DAMAGED}"))
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


def _free(path: Path) -> Path:
    """Return a path that does not exist yet."""
    number = 1
    found = path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a StorageError that names the journal."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the storage {str(path)!r} cannot be written ({error.strerror or error}); put this "
            "right and run the same again, which continues after the last trial in it, or give "
            "another path"
        ) from error


# Optuna's locks are files, which a writer that is killed leaves behind. The next one takes a file
# of the same age for so many seconds to be left; a record is written in milliseconds.
STALE_SECONDS = 5
# Attempts of a search that joins.
POLLS = 10


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


@contextmanager
def only_search(journal: Path) -> Iterator[None]:
    """Refuse a second search on the same journal inside the block, joined or not.

    The lock is on a file beside the journal, which others may read meanwhile. Without locks of the
    system or the file system nothing is refused; see `JournalLock`.
    """
    if fcntl is None:
        yield
        return
    with _searching(journal, fcntl.LOCK_EX):
        yield


@contextmanager
def joined_search(journal: Path) -> Iterator[None]:
    """Refuse searches on the same journal inside the block, except for those that have joined."""
    if fcntl is None:
        raise StorageError(_NO_LOCKS.format(journal, "this system"))
    with _searching(journal, fcntl.LOCK_SH) as locks:
        if not locks:
            raise StorageError(_NO_LOCKS.format(journal, "the file system"))
        yield


_NO_LOCKS = (
    "several searches cannot join in the journal '{}', because {} has no file locks; put it "
    "elsewhere, or use a database as storage"
)


@contextmanager
def _searching(journal: Path, kind: int) -> Iterator[bool]:
    """Hold a lock as a search; yield whether there are locks at all."""
    path = _search_lock(journal)
    try:
        # A search that has joined looks for a moment whether it is the last one when it ends.
        file, locks = take_patiently(path, kind, POLLS if kind == fcntl.LOCK_SH else 1)
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
        yield locks
    finally:
        release_lock(file, path)


def is_searched(journal: Path) -> bool:
    """Whether any search holds the journal."""
    return is_locked(_search_lock(journal))


def _search_lock(journal: Path) -> Path:
    return journal.with_name(f".{journal.name}.searching")
