"""Processes of a case: started, signalled, waited for, and looked for afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

import psutil
from tqdm import tqdm

from faults.around import AS_NOBODY
from faults.driver import STOPS, Driver

MARK = "SHIFTUNE_FAULTS_CASE"
HANG_SECONDS = 300.0


class Started:
    """A driver that runs in a process of its own."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        self.folder = folder
        # Beside the folder, whose disk may be full.
        self.errors = folder.with_name(f"{folder.name}-errors-{time.monotonic_ns()}.txt")
        self.patience = HANG_SECONDS * max(1.0, driver.n_trials / 500)
        self.since = time.monotonic()
        self.code: int | None = None
        self._command: subprocess.Popen[bytes] | None = None
        mark = {MARK: str(folder), "TMPDIR": str(folder / "tmp")}
        if driver.way == "cold command":
            prefix = AS_NOBODY if driver.around == "another user" else []
            with self.errors.open("wb") as errors:
                self._command = subprocess.Popen(
                    [*prefix, sys.executable, "-m", "shiftune", *driver.command(folder)],
                    cwd=folder,
                    env={**os.environ, **mark},
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )
            self.pid = self._command.pid
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        self.pid = os.fork()
        if not self.pid:
            self._be(driver, mark)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _be(self, driver: Driver, mark: dict[str, str]) -> None:
        """Run the driver in the process that was forked, and end it."""
        code = 1
        try:
            os.setsid()
            os.environ.update(mark)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(self.errors, os.O_WRONLY | os.O_CREAT), 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
            # The lock of tqdm is one for all forked processes: one killed with it would stop all.
            tqdm.set_lock(threading.RLock())
            driver.run(self.folder)
            code = 0
        except KeyboardInterrupt:
            code = 130
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            with suppress(Exception):
                sys.stderr.flush()
            os._exit(code)

    def has_ended(self) -> bool:
        """Whether it has ended; `code` is then known."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                if self._command is not None:  # or it would warn that the process still runs
                    self._command.returncode = self.code
        return self.code is not None

    def wait(self) -> bool:
        """Wait until it has ended; kill it if it hangs, and return False."""
        end = time.monotonic() + self.patience
        while not self.has_ended():
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                self.code = -9
                return False
            time.sleep(0.005)
        return True

    def wait_until(self, moment: float) -> None:
        """Wait for a moment after its start, or its end."""
        end = self.since + moment
        while time.monotonic() < end and not self.has_ended():
            time.sleep(0.002)

    def send(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if not self.has_ended():
            os.kill(self.pid, number)

    def workers(self) -> list[psutil.Process]:
        """Return its worker processes."""
        found = []
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children():
                with suppress(psutil.Error):
                    if "popen_loky" in " ".join(child.cmdline()):
                        found.append(child)
        return found

    @property
    def has_traceback(self) -> bool:
        """Whether it has printed one."""
        return self.errors.exists() and "Traceback (most recent" in self.errors.read_text()

    @property
    def last_line(self) -> str:
        """Last line of what it has printed as an error."""
        lines = self.errors.read_text().splitlines() if self.errors.exists() else []
        return lines[-1] if lines else ""


def orphans(folder: Path, seconds: float = HANG_SECONDS) -> int:
    """Count and end processes of a case that are still there so long after its driver."""
    end = time.monotonic() + seconds
    while True:
        left = [each for each in psutil.process_iter() if _is_of(each, folder)]
        if not left:
            return 0
        if time.monotonic() > end:
            break
        time.sleep(0.2)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    return len(left)


def _is_of(process: psutil.Process, folder: Path) -> bool:
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and process.environ().get(MARK) == str(folder)
    except psutil.Error:
        return False


def temporary_folders(folder: Path) -> int:
    """Count folders that were left in the case's own folder for temporary files."""
    return len(list((folder / "tmp").glob("shiftune-*")))
