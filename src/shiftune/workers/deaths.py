"""How workers die, and when an item is given up for it.

An item counts only the deaths of workers that were running it, never those of its neighbours.

- *Its own*: a crash (SIGSEGV, SIGABRT and the like), the end of the process by an exit code, or a
  kill for lack of memory. After `MAX_OWN` of them the item is given up. Lack of memory is certain
  if the kernel has counted a kill at that moment; without its count it is assumed if the worker
  held more than was left.
- *From outside*: any other SIGKILL, SIGTERM or SIGHUP. The item runs again, on a new worker. An
  item that kills its own process in this way cannot be told from one whose workers are killed by
  others; so that it ends at all, it is given up after `MAX_KILLS`.
- *Unknown*: executors and clusters do not say how their workers died, or whose. Every item that
  may have been the cause counts one, and runs alone next; then only its own deaths count.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal

MAX_OWN = 3
MAX_KILLS = 30

Cause = Literal["crash", "memory", "perhaps memory", "outside", "unknown", "start"]

_HANGUP, _KILL, _TERMINATE = 1, 9, 15  # Windows has no names for them


@dataclass(frozen=True, slots=True)
class Death:
    """How a worker ended, and by whose fault."""

    cause: Cause
    how: str = ""


class WorkerLost(Exception):  # noqa: N818 - the fate of a worker, not a mistake
    """The worker that was running an item died; its neighbours did not."""

    def __init__(self, death: Death) -> None:
        super().__init__(death.how)
        self.death = death


def judge(
    exitcode: int | None, *, oom_reported: bool = False, short_of_memory: bool = False
) -> Death:
    """Return the death of a worker that was running an item.

    Parameters
    ----------
    exitcode
        As `multiprocessing.Process` has it: negative for signals. None if it is not known.
    oom_reported
        Whether the kernel has counted a kill for lack of memory meanwhile.
    short_of_memory
        Whether the worker held more memory than was left.

    >>> judge(-11)
    Death(cause='crash', how='by signal SIGSEGV')
    >>> judge(-9).cause
    'outside'
    """
    how = _how(exitcode)
    if exitcode is None:
        return Death("unknown", how)
    if -exitcode not in (_HANGUP, _KILL, _TERMINATE):
        return Death("crash", how)
    if -exitcode == _KILL and oom_reported:
        return Death("memory", f"{how}, because memory ran out")
    if -exitcode == _KILL and short_of_memory:
        return Death("perhaps memory", f"{how}; memory may have run out")
    return Death("outside", how)


def _how(exitcode: int | None) -> str:
    if exitcode is None:
        return "in a way that is not known"
    if exitcode >= 0:
        return f"with exit code {exitcode}"
    try:
        return f"by signal {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"by signal {-exitcode}"


@dataclass(slots=True)
class Deaths:
    """Deaths of workers that count against one item."""

    own: int = 0
    kills: int = 0
    alone: bool = False
    """Whether the item has to run without neighbours next."""

    def add(self, death: Death) -> None:
        """Count a death.

        >>> deaths = Deaths()
        >>> deaths.add(Death("outside"))
        >>> deaths.too_many
        False
        """
        if death.cause == "outside":
            self.kills += 1
        elif death.cause != "start":
            self.own += 1
            self.alone = self.alone or death.cause != "crash"

    @property
    def too_many(self) -> bool:
        """Whether the item is given up."""
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
