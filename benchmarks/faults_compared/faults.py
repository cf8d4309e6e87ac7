"""Faults, each done to a running search of one system, and what is counted afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.storage import small_disk

HERE = Path(__file__).parent
TRIALS, SECONDS = 12, 0.5
# A search that has not ended by then hangs.
PATIENCE = 300.0
# Orphans are counted so long after the driver's death.
GRACE = 10.0
# An evaluation that ended less than this before the fault may still have been on its way.
ON_ITS_WAY = 0.5


@dataclass
class Run:
    """Searches of one system in one folder, and the file in which their objective takes notes."""

    system: str
    python: str
    folder: Path
    notes: Path
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, **more: str) -> subprocess.Popen[str]:
        """Start the search, or continue it."""
        environment = os.environ | more
        environment |= {"EVALUATIONS": str(self.notes), "FAULTS_RUN": self.token}
        given = [self.system, str(self.folder), str(TRIALS), str(SECONDS)]
        process = subprocess.Popen(
            [self.python, str(HERE / "drivers.py"), *given],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def events(self) -> list[tuple[str, float, int, float]]:
        """Notes of the objective: what, parameter, process, time."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        rows = [line.split() for line in lines]
        return [(what, float(x), int(pid), float(at)) for what, x, pid, at in rows]

    def wait_for_begin(self) -> None:
        """Wait until an evaluation has begun."""
        self.wait_for(1, 0.0, what="begin")

    def wait_for(self, number: int, delay: float, what: str = "end") -> None:
        """Wait until so many evaluations have ended, and a moment more."""
        latest = time.monotonic() + PATIENCE
        while sum(each == what for each, *_ in self.events()) < number:
            if time.monotonic() > latest or all(p.poll() is not None for p in self.started):
                break
            time.sleep(0.02)
        time.sleep(delay)

    def evaluating(self) -> list[tuple[float, int]]:
        """Parameters and processes of evaluations that have begun and not ended."""
        events = self.events()
        running = Counter(x for what, x, *_ in events if what == "begin")
        running.subtract(x for what, x, *_ in events if what == "end")
        return [(x, pid) for what, x, pid, _ in events if what == "begin" and running[x] > 0]

    def processes(self) -> list[int]:
        """Processes that the searches have started and that are alive."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if self.token in (entry / "environ").read_bytes().decode(errors="replace"):
                    state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                    found += [int(entry.name)] if state != "Z" else []
            except (OSError, ValueError):
                continue
        return found

    def end_all(self) -> None:
        """End what is left."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a search; return how it ended and what the system holds."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"end": "hang", "complete": [], "others": 0}
    last = out.strip().splitlines()[-1:] or [""]
    held = json.loads(last[0]) if last[0].startswith("{") else {"complete": [], "others": 0}
    end = "done" if last[0].startswith("{") else "traceback" if "Traceback" in err else "message"
    return {"end": end, **held, "words": err.strip()[-300:] if end != "done" else ""}


def counted(run: Run, before: list[tuple[str, float, int, float]], fault_at: float) -> Any:
    """Count what was known before the fault and is not kept, and what was done twice."""

    def count(held: dict[str, Any]) -> dict[str, Any]:
        kept = held["complete"]
        known = {x for what, x, _, at in before if what == "end" and at < fault_at - ON_ITS_WAY}
        ends = Counter(x for what, x, *_ in run.events() if what == "end")
        return {
            "end": held["end"],
            "known": len(known),
            "lost": len(known - set(kept)),
            "twice": len(kept) - len(set(kept)),
            "evaluated_again": sum(n - 1 for n in ends.values()),
            "complete": len(kept),
            "left_open": held["others"],
            "evaluations": sum(ends.values()),
            "words": held.get("words", ""),
        }

    return count


def driver_killed(run: Run, ends: int, delay: float) -> dict[str, Any]:
    """SIGKILL of the driver; the same command again."""
    driver = run.start()
    run.wait_for(ends, delay)
    before, at = run.events(), time.time()
    driver.kill()
    driver.wait()
    time.sleep(GRACE)
    orphans = len(run.processes())
    run.end_all()
    found = counted(run, before, at)(finished(run.start()))
    return {**found, "orphans": orphans}


def worker_killed(run: Run, ends: int, delay: float) -> dict[str, Any]:
    """SIGKILL of a process that evaluates a trial; the search goes on by itself.

    Optuna's workers are processes that optimise the same study.
    """
    alone = {"ONE": "1"} if run.system.startswith("optuna") else {}
    drivers = [run.start(**alone)]
    if alone:
        run.wait_for_begin()
        drivers.append(run.start(**alone))
    run.wait_for(ends, delay)
    latest = time.monotonic() + PATIENCE
    while not (running := run.evaluating()) and time.monotonic() < latest:
        time.sleep(0.02)
    before, at = run.events(), time.time()
    x, pid = running[-1] if running else (-1.0, 0)
    if pid:
        os.kill(pid, signal.SIGKILL)
    ended = [finished(driver) for driver in drivers if driver.pid != pid]
    found = counted(run, before, at)(ended[0])
    kept = any(e == "end" and each == x for e, each, *_ in run.events())
    return {**found, "hit": bool(pid), "given_up": bool(pid) and not kept}


def two_drivers(run: Run, ends: int, delay: float) -> dict[str, Any]:
    """The same command twice, the second while the first evaluates its first trials."""
    drivers = [run.start()]
    run.wait_for_begin()
    drivers.append(run.start())
    held = [finished(driver) for driver in drivers]
    last = max(held, key=lambda each: len(each["complete"]))
    found = counted(run, run.events(), time.time() + ON_ITS_WAY)(last)
    return {**found, "end": " and ".join(sorted(each["end"] for each in held))}


def disk_full(run: Run, ends: int, delay: float) -> dict[str, Any]:
    """The folder's file system is full until the search ends; there is room again; once more."""
    driver = run.start()
    run.wait_for(ends, delay)
    filler = run.folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                continue
        except OSError:
            pass
    before, at = run.events(), time.time()
    first = finished(driver)
    run.end_all()
    filler.unlink()
    found = counted(run, before, at)(finished(run.start()))
    return {**found, "first_end": first["end"], "first_words": first.get("words", "")}


FAULTS = {
    "driver killed": driver_killed,
    "worker killed": worker_killed,
    "two drivers": two_drivers,
    "disk full": disk_full,
}


@contextmanager
def new_folder(*, small: bool) -> Iterator[Path]:
    """Yield a folder, on a disk of 8 MB if it shall be small."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with small_disk(folder, 8_000_000) if small else nullcontext():
            yield folder
