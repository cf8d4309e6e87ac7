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
class Figures:
    """Figures of one row of the table.

    Attributes
    ----------
    ratio : float
        CPU seconds, or bytes, over those of `against`.
    against : str
    exponent : float or None
        Slope of the logarithm of CPU seconds over the logarithm of the size.
    along : str
        What the size is.
    details : dict
        What else was measured, in the order of sizes where there are several.
    """

    ratio: float
    against: str
    exponent: float | None = None
    along: str = ""
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


def growth(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Least-squares slope on logarithmic scales: 1 for linear growth, 2 for quadratic."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


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
