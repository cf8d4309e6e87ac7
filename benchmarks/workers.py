"""Time to start two workers, and to continue after one of them was killed.

    python benchmarks/workers.py [--rounds 10]

Each figure is a ratio to a bare start of Python that imports the same modules as a worker, timed
beside it in every round, so that machines and busy hours can be compared.

- start: from `Workers(...)` to the first result of both workers;
- restart: from the moment an item kills its worker to the result of that item, which is run again.

CPU seconds of a process that imports what a fit of boosted trees needs are printed last: see
`shiftune.workers._workers.START_SECONDS`.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shiftune.workers import Workers

FOR_A_FIT = "import lightgbm, shiftune.search._loop"
BARE = [sys.executable, "-c", "import shiftune.workers"]


def task(folder: str, item: str) -> float:
    """Wait for the neighbour ("a" for "b"), or kill the worker the first time ("kill")."""
    note = Path(folder, item)
    if item == "kill" and not note.exists():
        note.write_text(repr(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    note.touch()
    neighbour = {"a": "b", "b": "a"}.get(item)
    while neighbour is not None and not Path(folder, neighbour).exists():
        time.sleep(0.005)
    return time.monotonic()


def one_round() -> dict[str, float]:
    began = time.monotonic()
    subprocess.run(BARE, check=True)
    bare = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        with Workers(task, folder, n_jobs=2) as workers:
            for key, item in enumerate("ab"):
                workers.submit(key, item)
            start = max(workers.result(key) for key in range(2)) - began
            workers.submit(2, "kill")
            end = workers.result(2)
            restart = end - float(Path(folder, "kill").read_text())
    return {"bare start": bare, "start": start / bare, "restart": restart / bare}


def cpu_seconds(code: str) -> float:
    """CPU seconds of a new Python that runs some code."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = [one_round() for _ in range(parser.parse_args().rounds)]
    for name in rounds[0]:
        low, _, middle, _, high = statistics.quantiles([r[name] for r in rounds], n=6)
        unit = " s" if name == "bare start" else " x a bare start"
        print(f"{name:10} {middle:5.2f}{unit} (two thirds between {low:.2f} and {high:.2f})")
    imports = statistics.median(cpu_seconds(FOR_A_FIT) for _ in rounds)
    print(f"imports for a fit: {imports:.1f} CPU s")


if __name__ == "__main__":
    main()
