"""Tasks for test_workers.py, in a module that worker processes can import."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil


class Diary:
    """A folder in which processes note what they did, for the test and for each other."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def note(self, what: str) -> None:
        Path(self.folder, f"{what}={os.getpid()}={uuid.uuid4().hex}").touch()

    def pids(self, what: str) -> list[int]:
        return [int(path.name.split("=")[1]) for path in Path(self.folder).glob(f"{what}=*")]

    def wait_for(self, what: str, count: int = 1) -> None:
        """Return when there are so many notes; there is no limit but that of the test."""
        parent = os.getppid()
        while len(self.pids(what)) < count:
            if os.getppid() != parent:
                os._exit(1)  # the test was ended: nobody is going to write the note
            time.sleep(0.01)


class Noted(Diary):
    """A diary that notes that it was unpickled."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.note("loaded")


def wait_until_gone(pids: Iterable[int]) -> None:
    """Return when none of the processes runs."""
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)


class UnpackableError(Exception):
    """Can be pickled, but not unpickled, like many exceptions with an __init__ of their own."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{reason} ({code})")


@dataclass(frozen=True)
class Job:
    """Ten times a value, once there is a note ``until``; ends its worker ``kills`` times first."""

    value: int = 0
    kills: int = 0
    how: str = "SIGKILL"
    until: str | None = None


def act(diary: Diary, job: Job) -> int:
    diary.note(f"began{job.value}")
    if len(diary.pids(f"began{job.value}")) <= job.kills:
        end(diary, job.how)
    if job.until is not None:
        diary.wait_for(job.until)
    return 10 * job.value


def end(diary: Diary, how: str) -> None:
    """End this process, or stop it."""
    if how == "exit":
        os._exit(3)
    if "with a child" in how:
        if os.fork() == 0:
            diary.note("child")
            while True:
                time.sleep(1.0)
        diary.wait_for("child")
    if "with a program" in how:  # of a shell, which inherits open files
        os.system(f"sleep 3600 & touch {diary.folder}/child=$!=0")
    if "while it answers" in how:
        Connection._send_bytes = send_half  # type: ignore[attr-defined]
        return
    os.kill(os.getpid(), getattr(signal, how.split()[0]))
    time.sleep(1.0)


def send_half(pipe: Connection, message: bytes) -> None:
    os.write(pipe.fileno(), struct.pack("!i", len(message)) + message[: len(message) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


class CannotBeRead:
    """A context that ends whoever unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (4,)


def leak(kept: list[bytearray], item: int) -> int:
    """Keep so many bytes; return the process."""
    kept.append(bytearray(os.urandom(1)) * item)
    return os.getpid()


def add(context: dict[str, int], item: int) -> int:
    return context["base"] + item


def same(context: Any, item: Any) -> Any:
    return context, item


def large(context: Any, item: int) -> bytes:
    return bytes(item)


def fail(context: Any, item: str) -> Any:
    if item == "value":
        raise ValueError("bad", 3)
    if item == "unpackable":
        raise UnpackableError(3, "cannot")
    if item == "exit":
        sys.exit(4)
    return threading.Lock()


def describe_array(context: dict[str, Any], item: int) -> tuple[float, bool, bool]:
    """Sum; whether it can be written to; whether it is mapped from the context's file."""
    array = context["x"]
    mapped = "context.joblib" in Path("/proc/self/maps").read_text()
    return float(array.sum()), array.flags.writeable, mapped


def threads(context: Any, item: int) -> dict[str, int]:
    import joblib
    import numpy as np
    import sklearn.ensemble  # noqa: F401 - loads OpenMP
    from threadpoolctl import threadpool_info

    np.ones((4, 4)) @ np.ones((4, 4))
    pools = {pool["user_api"]: pool["num_threads"] for pool in threadpool_info()}
    return {**pools, "joblib": joblib.cpu_count()}


def lightgbm_threads(context: Any, item: int | None) -> int:
    """Number of threads that LightGBM adds to the process."""
    import lightgbm
    import numpy as np
    import psutil

    X = np.random.default_rng(0).normal(size=(5000, 10))
    before = psutil.Process().num_threads()
    lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=item).fit(X, X[:, 0])
    return int(psutil.Process().num_threads() - before)


def dawdle(diary: Diary, item: str) -> str:
    """Run for ever or not at all, with or without heeding the time limit."""
    if item == "slow":
        sleep_for_ever()
    if item == "catches once":
        try:
            sleep_for_ever()
        except Exception:
            return "the task's own message"
    if item == "catches twice":
        for _ in range(2):
            try:
                sleep_for_ever()
            except Exception:
                continue
        sleep_for_ever()
    if item == "deaf":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        signal.raise_signal(signal.SIGALRM)  # as when the time is over
        diary.note(item)
        time.sleep(3600)  # in one call, between whose parts no handler can run
    if item == "holds the GIL":
        diary.wait_for("known to have begun")  # nothing leaves this process from now on
        diary.note(item)
        ctypes.PyDLL(None).sleep(3600)
    return f"{item} {os.getpid()}"


def sleep_for_ever() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1.0)


def end_with_parent() -> None:
    """End this process, a driver that may wait for ever, when the test has ended."""

    def watch() -> None:
        sleep_for_ever()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def divide(context: float, item: float) -> float:
    return context / item


def environment(_: None, name: str) -> tuple[int, str]:
    return os.getpid(), os.environ[name]
