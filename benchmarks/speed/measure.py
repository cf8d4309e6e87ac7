"""CPU time, memory and growth, measured side by side in one process."""

from __future__ import annotations

import gc
import time
import tracemalloc
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class Growth:
    """Seconds at several sizes, and the line through their logarithms.

    Attributes
    ----------
    along : str
        What the size is.
    sizes, seconds : lists of numbers
    exponent : float
        Slope of the line: 1 for linear growth, 2 for quadratic.
    misfit : float
        Largest factor by which a time differs from the line.
    """

    along: str
    sizes: list[float]
    seconds: list[float]
    exponent: float
    misfit: float

    @classmethod
    def of(cls, along: str, sizes: Sequence[float], seconds: Sequence[float]) -> Growth:
        """Fit the line by least squares."""
        line = np.polyfit(np.log(sizes), np.log(seconds), 1)
        apart = np.log(seconds) - np.polyval(line, np.log(sizes))
        misfit = float(np.exp(np.abs(apart).max()))
        return cls(along, list(sizes), rounded(seconds), float(line[0]), misfit)


@dataclass(frozen=True)
class Figures:
    """Figures of one row of the table.

    Attributes
    ----------
    ratio : float or None
        CPU seconds, or bytes, over those of `against`; None where a peer is not installed.
    against : str
    growth : tuple of Growth
    details : dict
        What else was measured.
    """

    ratio: float | None
    against: str
    growth: tuple[Growth, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        return asdict(self)


def cpu(task: Callable[[], Any], repeats: int = 1) -> float:
    """Fewest CPU seconds of this process over several runs of a task."""
    found = []
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        task()
        found.append(time.process_time() - start)
    return min(found)


def memory(task: Callable[[], Any]) -> tuple[int, int, Any]:
    """Bytes that a task's result holds, the most it held on the way, and the result."""
    gc.collect()
    tracemalloc.start()
    try:
        result = task()
        gc.collect()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return held, peak, result


def rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.3g}") for value in values]
