"""Cases: one fault at a moment that is drawn, and a comparison with a search without faults."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import psutil

from faults import notebook
from faults.around import GROUPS, memory_group
from faults.damage import DAMAGES
from faults.driver import HANGING, N_TRIALS, Driver
from faults.started import Started, orphans, temporary_folders
from faults.storage import disk_for, possible
from shiftune.errors import ProblemError

# Models of the trials whose workers are killed; those of other packages where they are installed.
MODELS = ["ridge", *(name for name in ("xgboost", "catboost") if find_spec(name))]
AFTER_THE_END = "after its end"
# Exit code of a command that has met a fault and said so.
SENTENCE = 2
SIGNALS = {"SIGKILL": -9, "SIGTERM": 143, "SIGINT": 130}


@dataclass
class Record:
    """What became of a case; all counts but `seconds` should be 0."""

    row: str
    what: str
    phase: str = ""
    same: bool = False
    """Whether it ended with the same trials and result as without the fault."""

    lost: int = 0
    twice: int = 0
    orphans: int = 0
    tracebacks: int = 0
    hangs: int = 0
    temporary: int = 0
    seconds: float = 0.0
    """From the fault, or the signal, to the end of the driver."""

    notes: list[str] = field(default_factory=list)


@dataclass
class Reference:
    """A search without faults."""

    result: str
    seconds: float


class Cases:
    """Cases in folders of their own below one.

    Parameters
    ----------
    folder
        Emptied after each case, but for those that failed.
    cluster
        File of a Dask scheduler, or "".
    """

    def __init__(self, folder: Path, cluster: str) -> None:
        self.folder = folder
        self.cluster = cluster
        self._references: dict[Driver, Reference] = {}
        self._journal = b""

    def driver_stopped(self, rng: random.Random, number: int) -> Record:
        """Send a signal to a driver, and start it again until its end."""
        name = list(SIGNALS)[number % 3]
        driver = self._any_driver(rng)
        # Each tenth of the time has its turn, so that all phases have.
        moment = (7 * (number // 3) % 10 + rng.random()) / 10 * self.reference(driver).seconds
        record = Record(f"driver stopped by {name}", f"{driver.name}, after {moment:.2f} s")
        folder = self._new(driver)
        started = Started(driver, folder)
        started.wait_until(moment)
        self._stop(record, driver, started, name)
        return record

    def stopped_in_hang(self, rng: random.Random, number: int) -> Record:
        """Send a signal to a driver whose workers hang in compiled code, and start it again."""
        name = list(SIGNALS)[number % 3]
        driver = Driver(jobs=2, fault="hang")
        after = 3 * rng.random()
        what = f"{driver.name}, {after:.2f} s after both hang"
        record = Record(f"driver stopped by {name} while trials hang in C", what)
        folder = self._new(driver)
        started = Started(driver, folder)
        while len(list(folder.glob(f"{HANGING}-*"))) < driver.jobs and not started.has_ended():
            time.sleep(0.01)
        started.wait_until(time.monotonic() - started.since + after)
        self._stop(record, driver, started, name)
        return record

    def _stop(self, record: Record, driver: Driver, started: Started, name: str) -> None:
        """Send a signal to a driver, see what it leaves, and start it again."""
        folder = started.folder
        record.phase = AFTER_THE_END if started.has_ended() else _phase(driver, folder)
        at = time.monotonic()
        started.send(getattr(signal, name))
        record.hangs += not started.wait()
        record.seconds = time.monotonic() - at
        self._check_code(record, started, 0, SIGNALS[name], -getattr(signal, name))
        record.orphans = orphans(folder)
        # A script has no handler of ours for SIGTERM; its folders go at the next start.
        if name == "SIGINT" or (name == "SIGTERM" and driver.way != "script"):
            record.temporary += temporary_folders(folder)
        kept = driver.finished(folder)
        again = Started(driver, folder)
        record.hangs += not again.wait()
        self._compare(record, driver, folder, again, kept)

    def _any_driver(self, rng: random.Random) -> Driver:
        way = rng.choice(["cold command"] + 3 * ["command"] + 5 * ["script"])
        place = rng.choice(["absolute", "relative"])
        if way != "script":
            return Driver(way, jobs=rng.choice([1, 2]), place=place)
        if self.cluster and rng.random() < 0.25:
            return Driver(way, cluster=self.cluster, place=place)
        storage = rng.choice(["journal", "sqlite"])
        return Driver(way, storage, rng.choice([1, 2]), place)

    def workers_signalled(self, rng: random.Random, number: int) -> Record:
        """Kill or pause workers of a search, several times."""
        name = ["SIGKILL", "SIGSTOP"][number % 2]
        driver = Driver(jobs=2, model=MODELS[number // 2 % len(MODELS)])
        row = "workers killed" if name == "SIGKILL" else "workers paused"
        row += f", {driver.model}" if driver.model != "ridge" else ""
        times = rng.randint(1, 5)
        record = Record(row, f"{driver.name}, {times} times")
        seconds = self.reference(driver).seconds
        folder = self._new(driver)
        started = Started(driver, folder)
        at = time.monotonic()
        for _ in range(times):
            time.sleep(rng.random() * seconds / times)
            workers = started.workers()
            if workers:
                with suppress(psutil.Error):
                    rng.choice(workers).send_signal(getattr(signal, name))
        record.hangs += not started.wait()
        record.seconds = time.monotonic() - at
        record.orphans = orphans(folder)
        self._compare(record, driver, folder, started, {})
        return record

    def faulty_model(self, rng: random.Random, number: int) -> Record:
        """Run trials that hang, crash, leak or start processes."""
        fault = ["hang", "crash", "exit", "leak", "fork"][number % 5]
        driver = Driver(jobs=2, fault=fault)
        row = {"hang": "hang in C", "crash": "crash", "exit": "exit", "fork": "start processes"}
        record = Record(f"trials that {row.get(fault, fault)}", driver.name)
        folder = self._new(driver)
        started = Started(driver, folder)
        at = time.monotonic()
        record.hangs += not started.wait()
        record.seconds = time.monotonic() - at
        record.orphans = orphans(folder)
        self._compare(record, driver, folder, started, {})
        return record

    def odd_surroundings(self, rng: random.Random, number: int) -> Record:
        """Kill a driver whose clock jumps or has no locks, or let trials eat memory."""
        kinds = ["a clock that jumps", "no file locks", "few addresses", "little memory"]
        around = kinds[number % len(kinds)]
        if around == "little memory" and not os.access(GROUPS, os.W_OK):
            around = "few addresses"
        eats = around in ("few addresses", "little memory")
        driver = Driver(jobs=2, around=around, fault="memory" if eats else "")
        row = (
            f"trials that eat memory, {around}" if eats else f"driver stopped by SIGKILL, {around}"
        )
        record = Record(row, driver.name)
        moment = rng.random() * self.reference(driver).seconds
        folder = self._new(driver)
        started = Started(driver, folder)
        if not eats:
            started.wait_until(moment)
            self._stop(record, driver, started, "SIGKILL")
            return record
        at = time.monotonic()
        record.hangs += not started.wait()
        record.seconds = time.monotonic() - at
        record.orphans = orphans(folder)
        with suppress(OSError):
            memory_group(folder).rmdir()
        self._compare(record, driver, folder, started, {})
        return record

    def joining_without_locks(self, rng: random.Random, number: int) -> Record:
        """Join where the file system has no locks, which is refused."""
        driver = Driver(join=True, around="no file locks")
        record = Record("joining without file locks, refused", driver.name)
        folder = self._new(driver)
        started = Started(driver, folder)
        record.hangs += not started.wait()
        record.same = "StorageError: several searches cannot join" in started.last_line
        self._keep_or_remove(record, folder)
        return record

    def many_trials(self, rng: random.Random, number: int) -> Record:
        """Stop a driver of 5,000 trials, and start it again."""
        name = list(SIGNALS)[number % 3]
        driver = Driver(n_trials=5_000)
        moment = rng.random() * self.reference(driver).seconds
        record = Record(f"driver of 5,000 trials stopped by {name}", f"after {moment:.0f} s")
        folder = self._new(driver)
        started = Started(driver, folder)
        started.wait_until(moment)
        self._stop(record, driver, started, name)
        return record

    def notebook(self, rng: random.Random, number: int) -> Record:
        """Interrupt, restart or kill the kernel of a notebook, and run its cell again."""
        kind = ["interrupted", "restarted", "killed"][number % 3]
        driver = Driver(jobs=2)
        reference = self.reference(driver)
        moment = rng.random() * reference.seconds
        record = Record(f"kernel of a notebook {kind}", f"after {moment:.2f} s")
        folder = self._new(driver)
        notebook.run(record, folder, kind, moment)
        record.orphans = orphans(folder)
        record.temporary = temporary_folders(folder)
        record.same = driver.result(folder) == reference.result
        self._keep_or_remove(record, folder)
        return record

    def several_drivers(self, rng: random.Random, number: int) -> Record:
        """Kill one of several drivers of the same study; the others do its part."""
        storage, count = ["journal", "sqlite"][number % 2], 2 + number // 2 % 2
        driver = Driver(storage=storage, join=True)
        record = Record(f"one of {count} drivers killed, {storage}", driver.name)
        folder = self._new(driver)
        started = [Started(driver, folder) for _ in range(count)]
        time.sleep(rng.random() * 2 * self.reference(Driver(storage=storage)).seconds)
        record.phase = _phase(driver, folder)
        started[0].send(signal.SIGKILL)
        at = time.monotonic()
        record.hangs += sum(not each.wait() for each in started)
        record.seconds = time.monotonic() - at
        record.orphans = orphans(folder)
        record.tracebacks = sum(each.has_traceback for each in started)
        finished = len(driver.finished(folder))
        record.lost, record.twice = max(N_TRIALS - finished, 0), max(finished - N_TRIALS, 0)
        results = {path.read_text() for path in folder.glob("*-result.txt")}
        ended = all(each.code == 0 for each in started[1:])
        record.same = ended and len(results) == 1 and finished == N_TRIALS
        self._keep_or_remove(record, folder)
        return record

    def storage_fault(self, rng: random.Random, number: int) -> Record:
        """Fill the disk or take the folder away from a command, and run it again afterwards."""
        faults = possible(self.folder)
        fault = faults[number % len(faults)]
        driver = Driver("command", jobs=rng.choice([1, 2]))
        row = f"{fault.name}, at a command"
        if number // len(faults) % 2 and os.geteuid() == 0 and which("setpriv"):
            driver = replace(driver, way="cold command", around="another user")
            row += " of another user"
        moment = rng.random() * self.reference(driver).seconds
        record = Record(row, f"{driver.name}, after {moment:.2f} s")
        folder = self._name()
        with disk_for(fault, folder):
            driver.prepare(folder)
            started = Started(driver, folder)
            started.wait_until(moment)
            ended = started.has_ended()
            record.phase = AFTER_THE_END if ended else _phase(driver, folder)
            kept = driver.finished(folder) if fault.keeps else {}
            with fault.done(folder / "out"):
                at = time.monotonic()
                record.hangs += not started.wait()
                record.seconds = time.monotonic() - at
                record.orphans = orphans(folder)
                record.temporary += temporary_folders(folder)
            self._check_code(record, started, 0, SENTENCE)
            again = Started(driver, folder)
            record.hangs += not again.wait()
            self._compare(record, driver, folder, again, kept)
        with suppress(OSError):  # where a disk was
            folder.rmdir()
        return record

    def damaged_file(self, rng: random.Random, number: int) -> Record:
        """Repeat a command whose result has a damaged file, then with the file as it was."""
        name = ["settings.json", "best.json"][number % 2]
        damage = DAMAGES[number // 2 % len(DAMAGES)]
        driver = Driver("command")
        record = Record(f"{name} damaged", f"{damage.__name__.replace('_', ' ')}, {driver.name}")
        self.reference(driver)
        folder = self._new(driver)
        record.hangs += not Started(driver, folder).wait()
        kept = driver.finished(folder)
        path = folder / "out" / name
        content = path.read_bytes()
        path.write_bytes(damage(content, rng.randrange(1 << 30)))
        started = Started(driver, folder)
        at = time.monotonic()
        record.hangs += not started.wait()
        record.seconds = time.monotonic() - at
        self._check_code(record, started, 0, SENTENCE)
        if started.code == SENTENCE:
            path.write_bytes(content)
        again = Started(driver, folder)
        record.hangs += not again.wait()
        self._compare(record, driver, folder, again, kept)
        return record

    @staticmethod
    def _check_code(record: Record, started: Started, *expected: int) -> None:
        """Count an exit code that was not expected as a traceback."""
        record.tracebacks += started.has_traceback or started.code not in expected
        if started.code:
            record.notes.append(f"exit code {started.code}: {started.last_line}")

    def damaged_journal(self, rng: random.Random, number: int) -> Record:
        """Continue with a journal that was damaged between two runs."""
        driver = Driver()
        reference = self.reference(driver)
        damage = DAMAGES[number % len(DAMAGES)]
        record = Record(f"journal {damage.__name__.replace('_', ' ')}", driver.name)
        folder = self._new(driver)
        (folder / "study.journal").write_bytes(damage(self._journal, rng.randrange(1 << 30)))
        at = time.monotonic()
        here = Path.cwd()
        try:
            driver.run_script(folder)
        except ProblemError as error:
            record.notes.append(f"{type(error).__name__}: {error}")
        except Exception as error:
            record.tracebacks += 1
            record.notes.append(repr(error))
        finally:
            os.chdir(here)
        record.seconds = time.monotonic() - at
        record.same = driver.result(folder) == reference.result
        record.lost = max(N_TRIALS - len(driver.finished(folder)), 0)
        self._keep_or_remove(record, folder)
        return record

    def reference(self, driver: Driver) -> Reference:
        """Run a search without faults, once for all cases like it."""
        fault = "raise" if driver.fault in ("hang", "crash", "exit", "memory") else ""
        like = replace(driver, place="absolute", fault=fault, join=False, around="")
        if driver.fault and not fault:
            like = Driver(jobs=2, fault="none")
        if like not in self._references:
            folder = self._new(like)
            started = Started(like, folder)
            assert started.wait(), f"{like.name} hangs without faults"
            seconds = time.monotonic() - started.since
            result = like.result(folder)
            assert result is not None, started.errors.read_text()
            if like == Driver():
                self._journal = (folder / "study.journal").read_bytes()
            self._references[like] = Reference(result, seconds)
            _remove(folder)
        return self._references[like]

    def _name(self) -> Path:
        return self.folder / f"case-{time.monotonic_ns()}"

    def _new(self, driver: Driver) -> Path:
        folder = self._name()
        driver.prepare(folder)
        return folder

    def _compare(
        self, record: Record, driver: Driver, folder: Path, last: Started, kept: dict[int, str]
    ) -> None:
        """Compare trials and result with those of a search without faults."""
        now = driver.finished(folder)
        record.lost += sum(now.get(trial) != text for trial, text in kept.items())
        record.twice += max(len(now) - driver.n_trials, 0)
        record.tracebacks += last.has_traceback
        record.temporary += temporary_folders(folder)
        found = driver.result(folder)
        record.same = last.code == 0 and found == self.reference(driver).result
        if last.code != 0:
            record.notes.append(f"last exit code {last.code}")
        self._keep_or_remove(record, folder)

    def _keep_or_remove(self, record: Record, folder: Path) -> None:
        if is_good(record):
            _remove(folder)
        else:
            record.notes.append(f"see {folder.name}")


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for path in folder.parent.glob(f"{folder.name}-errors-*"):
        path.unlink()


def is_good(record: Record) -> bool:
    """Whether the fault did no harm."""
    counts = (record.lost, record.twice, record.orphans, record.tracebacks, record.hangs)
    return record.same and not any(counts) and not record.temporary


def _phase(driver: Driver, folder: Path) -> str:
    study = driver.study(folder).removeprefix("sqlite:///")
    if not (folder / study).exists():
        return "import, reading, ratio"
    finished = len(driver.finished(folder))
    if not finished:
        return "first trial"
    return "trials" if finished < N_TRIALS else "refit, report"
