"""How workers die, how Linux reports it, and when an item is given up for it.

An item counts only the deaths of workers that were running it, never those of its neighbours.

- *Its own*: a crash (SIGSEGV, SIGABRT and the like), the end of the process by an exit code, or a
  kill for lack of memory, which the kernel has counted (Linux 4.13). After `MAX_OWN` of them the
  item is given up.
- *From outside*: any other SIGKILL, SIGTERM or SIGHUP. The item runs again, on a new worker. An
  item that kills its own process in this way cannot be told from one whose workers are killed by
  others; so that it ends at all, it is given up after `MAX_KILLS`.
- *Unknown*: clusters do not say how their workers died, or whose. Every item that may have been the
  cause counts one, and runs alone next; then only its own deaths count.
- *Start*: the worker died before it began the item, which counts nothing.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MAX_OWN = 3
MAX_KILLS = 30

# Memory is read from Linux's /proc and control groups; elsewhere nothing is known.
PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

Cause = Literal["crash", "memory", "outside", "unknown", "start"]

_HANGUP, _KILL, _TERMINATE = 1, 9, 15  # Windows has no names for them


class Death(Exception):  # noqa: N818 - the fate of a worker, not a mistake
    """How a worker ended, and by whose fault."""

    def __init__(self, cause: Cause, how: str) -> None:
        super().__init__(cause, how)
        self.cause, self.how = cause, how


def cause_of(exitcode: int | None, *, oom_reported: bool = False) -> Death:
    """Return the death of a worker that was running an item.

    The exit code is that of `multiprocessing.Process`: negative for signals, None if not known.
    """
    if exitcode is None:
        return Death("unknown", "in a way that is not known")
    if exitcode >= 0:
        return Death("crash", f"with exit code {exitcode}")
    try:
        how = f"by signal {signal.Signals(-exitcode).name}"
    except ValueError:
        how = f"by signal {-exitcode}"
    if -exitcode not in (_HANGUP, _KILL, _TERMINATE):
        return Death("crash", how)
    if -exitcode == _KILL and oom_reported:
        return Death("memory", f"{how}, because memory ran out")
    return Death("outside", how)


@dataclass(slots=True)
class Deaths:
    """Deaths of workers that count against one item."""

    own: int = 0
    kills: int = 0
    alone: bool = False
    """Whether the item has to run without neighbours next."""

    def add(self, death: Death) -> None:
        if death.cause == "outside":
            self.kills += 1
        elif death.cause != "start":
            self.own += 1
            self.alone = self.alone or death.cause != "crash"

    @property
    def too_many(self) -> bool:
        return self.own >= MAX_OWN or self.kills >= MAX_KILLS

    def reason(self, death: Death) -> str:
        """Why the item is given up, by the death that was one too many."""
        number = self.own + self.kills
        text = f"{number} workers died that ran it, the last {death.how}."
        if death.cause == "unknown":
            text += " It may need more memory than there is, or crash compiled code."
        elif death.cause == "outside":
            text += " They were killed from outside, or the item kills its own process."
        return text


class Look:
    """Memory and state of a worker process, looked at while it runs an item."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # The kernel counts a kill before the process ends, which can take longer than a look: the
        # count of the look before the last one is what a death is compared with.
        self._kills = self._earlier_kills = oom_kills()
        self._stopped_since: float | None = None
        self.stopped_for = 0.0

    def again(self) -> None:
        if resident_bytes(self._pid) != 0:  # it is not ending
            self._earlier_kills, self._kills = self._kills, oom_kills()
        if not is_stopped(self._pid):
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = time.monotonic()
        else:
            self.stopped_for = time.monotonic() - self._stopped_since

    def cause_of(self, exitcode: int | None) -> Death:
        return cause_of(exitcode, oom_reported=oom_kills() > self._earlier_kills)


def oom_kills() -> int:
    """Processes of this control group that the kernel has killed for lack of memory; 0 if unknown.

    On a machine without control groups: of all users.
    """
    names = ("memory.events", "memory.oom_control")
    for file in [*(group / name for group in _groups() for name in names), PROC / "vmstat"]:
        with suppress(OSError):
            if match := re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE):
                return int(match[1])
    return 0


def resident_bytes(pid: int) -> int | None:
    """Memory that a process holds."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGESIZE")


def is_stopped(pid: int) -> bool:
    """Whether a process is paused by a signal (SIGSTOP)."""
    try:
        # The name, in parentheses, may contain anything.
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


def _groups() -> list[Path]:
    """Folders of this process's control group, in version 2 and version 1 of Linux's layout.

    In a container the group may be mounted as the root.
    """
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            mount = CGROUPS / controllers
            folders += [mount / path.lstrip("/"), mount]
    return folders
