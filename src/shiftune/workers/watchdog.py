"""Process that ends workers whose driver has died, whatever they do."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

# Until the end of its input, which is that of the driver, it notes which groups there are.
SCRIPT = """
trap '' HUP INT TERM
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) left=; for each in $groups; do [ "$each" = "$group" ] || left="$left $each"; done
       groups=$left ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class Watchdog:
    """A shell that kills groups of processes when this process has ended, however it did.

    A worker cannot do this itself: while compiled code keeps Python's lock, it sees nothing. And
    what its items have started would outlive it.

    >>> watchdog = Watchdog()
    >>> worker = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    >>> watchdog.add(worker.pid)
    >>> watchdog.close()
    >>> worker.wait()
    -9
    """

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        with suppress(OSError):  # no shell: workers end after their items
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def add(self, group: int) -> None:
        """Watch over a group."""
        self._tell(f"+ {group}\n")

    def discard(self, group: int) -> None:
        """Let a group be."""
        self._tell(f"- {group}\n")

    def _tell(self, line: str) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with suppress(OSError, ValueError):  # somebody has ended it
                os.write(self._shell.stdin.fileno(), line.encode())

    def close(self) -> None:
        """Kill the groups that are left."""
        if self._shell is not None and self._shell.stdin is not None:
            self._shell.stdin.close()
            self._shell.wait()
