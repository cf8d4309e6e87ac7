"""A real Dask cluster whose scheduler or workers stop answering."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from shiftune.errors import NoWorkersError
from shiftune.workers import Workers

sys.path.insert(0, str(Path(__file__).parent))
import worker_tasks as tasks
from worker_tasks import Diary, Job

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("workers"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

# Longer than a test may take.
MANY_SECONDS = 600


class Cluster:
    """A scheduler and two workers, as somebody starts them by hand."""

    def __init__(self, folder: Path) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.file = folder / "scheduler.json"
        self.port = "0"

    def connect(self) -> None:
        self.client = distributed.Client(scheduler_file=str(self.file), timeout=MANY_SECONDS)
        self.port = self.client.scheduler.address.rpartition(":")[2]
        self.client.wait_for_workers(2)

    def start(self) -> None:
        here = ["--host", "127.0.0.1", "--no-dashboard"]
        idle = ["--idle-timeout", str(MANY_SECONDS)]  # should the test have been killed
        self.scheduler = self._run("scheduler", "--port", self.port, *here, *idle)
        file = ["--scheduler-file", str(self.file)]
        self.workers = [self._run("worker", *here, "--nthreads", "1", *file) for _ in range(2)]

    def _run(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        if kind == "scheduler":
            arguments = (*arguments, "--scheduler-file", str(self.file))
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", kind, *arguments],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s",
            },
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        self.kill(self.processes)
        with suppress(Exception):  # it has no scheduler
            self.client.close(timeout=1)

    @staticmethod
    def kill(processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    started = Cluster(tmp_path)
    try:
        started.start()
        started.connect()
        yield started
    finally:
        started.end()


@pytest.fixture
def workers(cluster, notes):
    diary = Diary(notes)
    made = Workers(tasks.act, diary, executor=cluster.client.get_executor)
    try:
        for key in range(2):
            made.submit(key, Job(key))
        assert [made.result(key) for key in range(2)] == [0, 10]
        for key in range(2, 6):
            made.submit(key, Job(key, until="free"))
        diary.wait_for("began*", 4)  # two of the last four
        yield made
    finally:
        with suppress(Exception):  # the cluster has gone
            made.close(kill=True)


def test_a_cluster_that_is_started_again(cluster, workers, notes):
    cluster.kill([cluster.scheduler, *cluster.workers])
    cluster.start()
    Diary(notes).note("free")
    assert [workers.result(key) for key in range(2, 6)] == [20, 30, 40, 50]


def test_a_scheduler_that_is_gone(cluster, workers):
    cluster.client._timeout = 1  # for how long it looks for another one
    cluster.kill([cluster.scheduler])
    with pytest.raises(NoWorkersError, match="then rerun"):
        workers.result(2)


def test_a_scheduler_that_never_answers(cluster, workers, monkeypatch):
    monkeypatch.setattr("shiftune.workers._dask.SECONDS_FOR_AN_ANSWER", 1)
    os.kill(cluster.scheduler.pid, signal.SIGSTOP)
    with pytest.raises(NoWorkersError, match="not answered for 1 s"):
        workers.result(2)


@pytest.mark.parametrize("nanny", ["answers", "is paused, too"])
def test_a_worker_that_never_answers(nanny, cluster, workers, notes):
    """Dask's ``worker-ttl`` decides when; its least value is 10 s, and 30 s without a nanny."""
    pid = next(pid for key in range(2, 6) for pid in Diary(notes).pids(f"began{key}"))
    worker = psutil.Process(pid)
    nanny_process = worker.parent()
    if nanny != "answers":
        nanny_process.suspend()
    worker.suspend()
    Diary(notes).note("free")
    assert [workers.result(key) for key in range(2, 6)] == [20, 30, 40, 50]
    assert len(Diary(notes).pids("began*")) > 6  # what ran there was begun again
