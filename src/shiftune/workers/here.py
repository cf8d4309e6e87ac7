"""Items that run in the driver's own process, where starting workers does not pay."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

from shiftune.workers.cores import share_of_cores

if TYPE_CHECKING:
    from shiftune.workers.in_worker import Task

# CPU seconds until a new worker has imported what a fit needs: `python benchmarks/workers.py`.
START_SECONDS = 3.0
# So many times as much has to be saved where little is known: of the first items, or by the clock.
TO_BE_SURE = 10


class Here:
    """The driver's process, which runs items one after the other, as a worker would.

    Parameters
    ----------
    n_workers
        Workers that could be started instead.
    n_items
        About how many items there will be.
    warm_up
        Number of first items that are no measure of the others.
    """

    def __init__(self, n_workers: int, n_items: int, warm_up: int = 1) -> None:
        self._n_workers = n_workers
        self._n_items = n_items
        self._warm_up = warm_up
        self._cpu: list[float] = []
        self._clock: list[float] = []
        self._libraries: ThreadpoolController | None = None

    def is_slower(self) -> bool:
        """Whether the items that are left would be done earlier by workers, to be started now.

        With a mean of s CPU seconds so far, n items left take n s seconds here, and n s / W and the
        start of W workers elsewhere. The clock counts less: it is slow on a busy machine, where
        workers start slowly, too. Without it, items that wait for other machines or devices would
        never be shared.

        >>> here = Here(n_workers=2, n_items=100)
        >>> here.is_slower()  # nothing is known yet
        False
        >>> here.run(lambda context, item: None, None, None)
        >>> here.is_slower()
        False
        """
        if not self._cpu:
            return False
        gain = (self._n_items - len(self._cpu)) * (1 - 1 / self._n_workers)
        usual = slice(self._warm_up if len(self._cpu) > self._warm_up else 0, None)
        if gain * fmean(self._clock[usual]) > TO_BE_SURE * START_SECONDS:
            return True
        return usual.start > 0 and gain * fmean(self._cpu[usual]) > START_SECONDS

    def run(self, task: Task, context: Any, item: Any) -> Any:
        """Run an item with a worker's share of the cores, so that it gives the same digits."""
        began, clock = time.process_time(), time.monotonic()
        if self._libraries is None:  # looking for them takes milliseconds
            self._libraries = ThreadpoolController()
        variables = share_of_cores(self._n_workers)
        threads = min(map(int, variables.values()))
        try:
            with _environment(variables), self._libraries.limit(limits=threads):
                return task(context, item)
        finally:
            self._cpu.append(time.process_time() - began)
            self._clock.append(time.monotonic() - clock)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables inside the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
