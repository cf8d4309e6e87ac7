"""Run a command, and measure its time and memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Usage(NamedTuple):
    """Seconds, CPU seconds of the command and its children, and its largest resident set."""

    seconds: float
    cpu: float
    mebibytes: float

    def __str__(self) -> str:
        return " | ".join(f"{value:.0f}" for value in self)


def measured(args: Sequence[str | Path], **options: Any) -> Usage:
    """Run a command with one thread per process; an error ends this script."""
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, args)), env=os.environ | ONE_THREAD, **options)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, args))} ended with {process.returncode}")
    seconds = time.perf_counter() - start
    return Usage(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
