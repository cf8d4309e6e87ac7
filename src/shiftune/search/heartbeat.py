"""Heartbeats of the drivers of a study: who is alive, without comparing clocks.

A driver changes its beat every `INTERVAL`, and looks at the others' as often. One whose beat was
the same in `LOOKS` looks is dead, or stopped for so long that its trials are better run elsewhere.
Looks are counted, not seconds: a driver that was suspended with all the others finds them alive.
"""

from __future__ import annotations

import glob
import logging
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol, Self

import optuna

from shiftune.file_lock import is_locked, release_lock, remove_if_free, take_lock

logger = logging.getLogger("shiftune")

INTERVAL = 10.0
LOOKS = 6
# A storage that does not answer keeps a driver from ending for so long.
END_SECONDS = 5.0


class Beats(Protocol):
    """Beats of drivers by their numbers."""

    def start(self, number: int) -> None:
        """Begin to beat, as the driver of this number."""

    def beat(self, count: int) -> None:
        """Change the beat of this driver."""

    def end(self) -> None:
        """Withdraw the beat: this driver has ended."""

    def read(self, numbers: Collection[int] | None = None) -> Mapping[int, object]:
        """Return the beats of some drivers, by default all, that have not ended."""


class StudyBeats:
    """Beats as attributes of a study, for databases."""

    def __init__(self, study: optuna.Study) -> None:
        self.study = study
        self._name = ""

    def start(self, number: int) -> None:
        """Begin to beat."""
        self._name = f"beat {number}"
        self.beat(0)

    def beat(self, count: int) -> None:
        """Write the beat."""
        self.study.set_user_attr(self._name, count)

    def end(self) -> None:
        """Withdraw the beat."""
        self.study.set_user_attr(self._name, None)

    def read(self, numbers: Collection[int] | None = None) -> dict[int, object]:
        """Return the beats of drivers that have not ended."""
        found = {
            int(name.removeprefix("beat ")): count
            for name, count in self.study.user_attrs.items()
            if name.startswith("beat ") and count is not None
        }
        return {n: beat for n, beat in found.items() if numbers is None or n in numbers}


class FileBeats:
    """Beats in files beside a journal, each locked by its driver.

    The operating system releases the lock of a process that has died, so that its trials are taken
    over at once. The beat itself is for processes that stand still, and for machines that are gone,
    whose locks a network file system may keep.
    """

    def __init__(self, journal: Path) -> None:
        self._prefix = f".{journal.name}.driver-"
        self._folder = journal.parent
        self._file: BinaryIO | None = None
        self._number = -1

    def start(self, number: int) -> None:
        """Create the file and lock it."""
        self._number = number
        self._file = take_lock(self._path(number))
        self.beat(0)

    def beat(self, count: int) -> None:
        """Write the beat."""
        if self._file is not None:
            os.pwrite(self._file.fileno(), b"%012d" % count, 0)
            os.fsync(self._file.fileno())

    def end(self) -> None:
        """Remove the file, and those of drivers that have died."""
        if self._file is not None:
            release_lock(self._file, self._path(self._number))
        for _, path in self._paths():
            remove_if_free(path)

    def read(self, numbers: Collection[int] | None = None) -> dict[int, object]:
        """Return the beats of drivers that hold their lock."""
        found: dict[int, object] = {}
        asked = None if numbers is None else [(each, self._path(each)) for each in numbers]
        for number, path in self._paths() if asked is None else asked:
            try:
                if is_locked(path):
                    found[number] = path.read_bytes()
            except FileNotFoundError:  # of a driver that has just ended
                continue
            except OSError:  # nobody knows, and it must not be taken for dead
                found[number] = object()
        return found

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._prefix}{number}"

    def _paths(self) -> list[tuple[int, Path]]:
        found = self._folder.glob(f"{glob.escape(self._prefix)}*")
        return [(int(path.name.removeprefix(self._prefix)), path) for path in found]


class Heartbeat:
    """Beat of this driver, and what it knows about the others'."""

    def __init__(self, beats: Beats) -> None:
        self.beats = beats
        self._looks: dict[int, tuple[object, int]] = {}
        self._ended = threading.Event()

    @contextmanager
    def of(self, number: int) -> Iterator[Self]:
        """Beat in a thread of its own inside the block."""
        self._ended.clear()
        self.beats.start(number)
        thread = threading.Thread(target=self._beat, name="shiftune-heartbeat", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join(END_SECONDS)
            with suppress(Exception):  # nothing that keeps a search from ending
                if not thread.is_alive():
                    self.beats.end()

    def alive(self, numbers: Collection[int]) -> set[int]:
        """Return which of some drivers are alive."""
        beats = self.beats.read(numbers)
        return {number for number, beat in beats.items() if self._unchanged(number, beat) < LOOKS}

    def look(self) -> None:
        """Compare the beats of all drivers with those of the last look."""
        beats = self.beats.read()
        self._looks = {
            number: (beat, self._unchanged(number, beat) + 1) for number, beat in beats.items()
        }

    def _unchanged(self, number: int, beat: object) -> int:
        """Return in how many looks a driver had this beat."""
        last, looks = self._looks.get(number, (None, 0))
        return looks if last == beat else 0

    def _beat(self) -> None:
        count = 0
        while not self._ended.wait(INTERVAL):
            count += 1
            try:
                self.beats.beat(count)
                self.look()
            except Exception as error:  # a database that is away for a moment
                logger.debug("no heartbeat: %s", error)
