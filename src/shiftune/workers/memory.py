"""Memory of this machine: what is free, what a process holds, whom the kernel has killed for it.

All of it is read from Linux's ``/proc`` and control groups; elsewhere nothing is known.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def oom_kills() -> int:
    """Processes of this control group that the kernel has killed for lack of memory; 0 if unknown.

    On a machine without control groups: of all users.
    """
    for file in [*_group_files("memory.events", "memory.oom_control"), PROC / "vmstat"]:
        count = _entry(file, "oom_kill")
        if count is not None:
            return count
    return 0


def free_bytes() -> int | None:
    """Memory that a process of this control group can still get."""
    free = []
    available = _entry(PROC / "meminfo", "MemAvailable:")
    if available is not None:
        free.append(available * 1024)
    for limit_file, used_file, cache in [
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ]:
        for limit, used, stat in zip(
            _group_files(limit_file),
            _group_files(used_file),
            _group_files("memory.stat"),
            strict=True,
        ):
            with suppress(OSError, ValueError):  # "max": no limit
                held = int(used.read_text()) - (_entry(stat, cache) or 0)
                free.append(int(limit.read_text()) - held)
    return min(free, default=None)


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


def _group_files(*names: str) -> list[Path]:
    """Return files of this process's control group, in version 2 and version 1 of Linux's layout.

    In a container the group may be mounted as the root.
    """
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            mount = CGROUPS / controllers
            for folder in (mount / path.lstrip("/"), mount):
                files += [folder / name for name in names]
    return files


def _entry(file: Path, name: str) -> int | None:
    """Return the number after a name at the beginning of a line."""
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == name:
                return int(words[1])
    return None
