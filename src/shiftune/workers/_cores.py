"""Cores for each worker, and items that run in the driver's process as a worker would run them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController

from shiftune.errors import SettingsError
from shiftune.workers._in_worker import Task

# CPU seconds until a new worker has imported what a fit needs: `python benchmarks/workers.py`.
START_SECONDS = 3.0
# So many times as much has to be saved where little is known: of the first items, or by the clock.
TO_BE_SURE = 10


def number_of_workers(n_jobs: int) -> int:
    """Read ``n_jobs`` as joblib does."""
    if n_jobs == 0:
        raise SettingsError(
            "n_jobs must be the number of processes, or -1 for as many as there are cores; got 0"
        )
    return n_jobs if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + n_jobs)


def share_of_cores(n_workers: int) -> dict[str, str]:
    """Environment in which each worker uses its share of the cores, or less if already limited."""
    share = max(1, joblib.cpu_count() // n_workers)
    names = ["OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR"]
    # LOKY_MAX_CPU_COUNT is what joblib.cpu_count() returns: LightGBM uses that many threads by
    # default, whatever OMP_NUM_THREADS is, and so does n_jobs=-1 in a model.
    variables = [f"{name}_NUM_THREADS" for name in names]
    variables += ["VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT"]
    env = {}
    for variable in variables:
        wish = os.environ.get(variable, "")
        env[variable] = str(min(share, int(wish)) if wish.isdecimal() and int(wish) else share)
    return env


class Here:
    """The driver's process, which runs items where starting `n_workers` workers does not pay.

    About `n_items` will come, of which the first `warm_up` do not represent the others.
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
