"""Circumstances that a search does not expect: clocks, locks, memory, users."""

from __future__ import annotations

import datetime
import errno
import fcntl
import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GROUPS = Path("/sys/fs/cgroup/memory")
GROUP_BYTES, ADDRESS_BYTES = 1_500_000_000, 12_000_000_000
NOBODY = 65534
# Another user, who may read all files, as Python's may be root's.
AS_NOBODY = [
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
]


def jumping_clock(folder: Path) -> None:
    """Let the time of day jump by up to a year, back and forth, whenever it is read."""
    rng, true = random.Random(0), time.time

    def now() -> float:
        return true() + rng.uniform(-1, 1) * 365 * 86_400

    class Jumping(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime.datetime:
            return cls.fromtimestamp(now(), tz)

    time.time = now
    datetime.datetime = Jumping  # type: ignore[misc]


def no_locks(folder: Path) -> None:
    """Let the file system of the results have no locks; that of temporary files has."""
    true, elsewhere = fcntl.flock, str(folder / "tmp")

    def flock(file: Any, operation: int) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        if not os.readlink(f"/proc/self/fd/{descriptor}").startswith(elsewhere):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        true(file, operation)

    fcntl.flock = flock


def few_addresses(folder: Path) -> None:
    """Limit the addresses of every process: memory ends with an exception."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))


def little_memory(folder: Path) -> None:
    """Limit the memory of all processes together: the kernel kills the largest."""
    group = memory_group(folder)
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(GROUP_BYTES))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def memory_group(folder: Path) -> Path:
    """Return the control group of a case."""
    return GROUPS / f"shiftune-{folder.name}"


def another_user(folder: Path) -> None:
    """Nothing: the command runs as this user from its start."""


AROUND: dict[str, Callable[[Path], None]] = {
    "a clock that jumps": jumping_clock,
    "no file locks": no_locks,
    "few addresses": few_addresses,
    "little memory": little_memory,
    "another user": another_user,
}
