"""Whose fault a death is, and what becomes of the item."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shiftune.errors import NoWorkersError
from shiftune.workers import WorkerDied, Workers, _deaths, _in_worker, _processes
from shiftune.workers._deaths import MAX_KILLS, MAX_OWN, Death, Deaths, Look, cause_of

sys.path.insert(0, str(Path(__file__).parent))
import worker_tasks as tasks
from worker_tasks import Diary, Job, wait_until_gone

pytestmark = pytest.mark.xdist_group("workers")
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.parametrize(
    ("exitcode", "seen", "cause", "how"),
    [
        (-signal.SIGSEGV, {}, "crash", "by signal SIGSEGV"),
        (-signal.SIGABRT, {"oom_reported": True}, "crash", "by signal SIGABRT"),
        (0, {}, "crash", "with exit code 0"),
        (-9, {}, "outside", "by signal SIGKILL"),
        (-9, {"oom_reported": True}, "memory", "by signal SIGKILL, because memory ran out"),
        (-15, {"oom_reported": True}, "outside", "by signal SIGTERM"),
        (-99, {}, "crash", "by signal 99"),
        (None, {}, "unknown", "not known"),
    ],
)
def test_causes(exitcode, seen, cause, how):
    death = cause_of(exitcode, **seen)
    assert death.cause == cause
    assert how in death.how


@pytest.mark.parametrize(
    ("cause", "limit", "alone"),
    [
        ("crash", MAX_OWN, False),
        ("memory", MAX_OWN, True),
        ("unknown", MAX_OWN, True),
        ("outside", MAX_KILLS, False),
        ("start", None, False),
    ],
)
def test_limits(cause, limit, alone):
    deaths = Deaths()
    for number in range(1, 50):
        deaths.add(Death(cause, "somehow"))
        assert deaths.alone is alone
        assert deaths.too_many is (limit is not None and number >= limit)
        if deaths.too_many:
            assert deaths.reason(Death(cause, "somehow")).startswith(f"{limit} workers died")
            break


def test_kills_from_outside_cost_no_item_and_disturb_no_neighbour(notes):
    diary = Diary(notes)
    with Workers(tasks.act, diary, n_jobs=2) as workers:
        workers.submit(0, Job(0, until="free"))
        workers.submit(1, Job(1, kills=MAX_OWN + 1))
        assert workers.result(1) == 10
        diary.note("free")
        assert workers.result(0) == 0
    assert len(set(diary.pids("began1"))) == MAX_OWN + 2
    assert len(diary.pids("began0")) == 1


def test_kills_from_outside_have_an_end(notes, monkeypatch):
    monkeypatch.setattr("shiftune.workers._deaths.MAX_KILLS", 2)
    with Workers(tasks.act, Diary(notes), n_jobs=2) as workers:
        workers.submit(0, Job(0, kills=99))
        with pytest.raises(WorkerDied, match=r"2 workers died .* killed from outside, or the item"):
            workers.result(0)


def test_lack_of_memory_is_named_and_the_item_runs_alone(notes, monkeypatch, caplog):
    diary = Diary(notes)
    monkeypatch.setattr(_deaths, "oom_kills", lambda: len(diary.pids("began1")))
    with Workers(tasks.act, diary, n_jobs=2) as workers:
        workers.submit(0, Job(0, until="began1"))
        workers.submit(1, Job(1, kills=99))
        with pytest.raises(WorkerDied, match="the last by signal SIGKILL, because memory ran out"):
            workers.result(1)
        assert workers.result(0) == 0
    assert len(diary.pids("began1")) == MAX_OWN


def test_a_process_that_ends_slowly_was_killed_all_the_same(monkeypatch):
    """The kernel counts a kill before the memory of the process is free."""
    seen = iter([(0, 100), (1, 100), (1, 0), (1, 0)])  # kills, bytes held
    now = {}

    def look():
        now["kills"], now["held"] = next(seen)

    look()
    monkeypatch.setattr(_deaths, "oom_kills", lambda: now["kills"])
    monkeypatch.setattr(_deaths, "resident_bytes", lambda pid: now["held"])
    monkeypatch.setattr(_deaths, "is_stopped", lambda pid: False)
    found = Look(1)
    for _ in range(3):
        look()
        found.again()
    assert found.cause_of(-9).cause == "memory"


def test_a_process_that_cannot_be_started_ends_the_run(monkeypatch):
    def no_process(self):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(_processes, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(_processes._Worker, "_start", no_process)
    with Workers(tasks.act, None, n_jobs=2) as workers:
        workers.submit(0, Job(0))
        with pytest.raises(NoWorkersError, match="the last with Resource temporarily unavailable"):
            workers.result(0)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="groups of processes")
def test_a_worker_that_died_idle_is_replaced_and_not_killed(monkeypatch):
    """Another process may have its number since."""
    killed = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: killed.append(pid))
    with Workers(tasks.leak, [], time_limit=1e6) as workers:
        workers.submit(0, 1)
        first = workers.result(0)
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # all its threads have ended
        workers.submit(1, 1)
        second = workers.result(1)
        assert second != first
    assert killed == [second]


@linux
def test_a_worker_that_is_paused_is_replaced(notes, monkeypatch):
    monkeypatch.setattr("shiftune.workers._processes.STOPPED_SECONDS", 0.1)
    monkeypatch.setattr("shiftune.workers._processes.LOOK_SECONDS", 0.05)
    diary = Diary(notes)
    with Workers(tasks.act, diary, n_jobs=2) as workers:
        workers.submit(0, Job(0, kills=1, how="SIGSTOP"))
        assert workers.result(0) == 0
    assert len(set(diary.pids("began0"))) == 2


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="forks")
@pytest.mark.parametrize(
    "how",
    [
        "SIGKILL with a child",
        "SIGKILL with a child while it answers",
        "SIGKILL with a program while it answers",
    ],
)
def test_what_an_item_has_started_ends_with_its_worker(how, notes):
    """A child that held the worker's pipe open would keep the driver from hearing of its death."""
    diary = Diary(notes)
    with Workers(tasks.act, diary, n_jobs=2) as workers:
        workers.submit(0, Job(0, kills=1, how=how))
        assert workers.result(0) == 0
        children = diary.pids("child")
        wait_until_gone(children)
    assert len(children) == 1


@pytest.mark.skipif(os.name != "posix", reason="groups of processes")
def test_the_watchdog_kills_what_it_was_told_of():
    watchdog = _processes._start_watchdog()
    left, kept = (subprocess.Popen(["sleep", "3600"], start_new_session=True) for _ in range(2))
    try:
        watchdog.stdin.write(f"+ {left.pid}\n+ {kept.pid}\n- {kept.pid}\n".encode())
        watchdog.communicate()
        assert left.wait() == -signal.SIGKILL
        assert kept.poll() is None
    finally:
        kept.kill()
        kept.wait()


def test_workers_that_never_begin_end_the_run(monkeypatch):
    monkeypatch.setattr("shiftune.workers._processes.MAX_FAILED_STARTS", 2)
    monkeypatch.setattr("shiftune.workers._processes.PAUSE_SECONDS", 0.0)
    with Workers(tasks.act, tasks.CannotBeRead(), n_jobs=2) as workers:
        workers.submit(0, Job(0))
        with pytest.raises(NoWorkersError, match=r"cannot be started: .* with exit code 4"):
            workers.result(0)


@linux
def test_growth_is_a_leak_only_after_a_collection(monkeypatch):
    held = iter([400_000_000, 10, 400_000_000, 400_000_000, 400_000_000])
    monkeypatch.setattr(_deaths, "resident_bytes", lambda pid: next(held))
    assert not _in_worker._has_grown(1000)
    assert _in_worker._has_grown(1000)
    assert not _in_worker._has_grown(None)


@linux
@pytest.mark.slow
def test_a_worker_that_leaks_is_replaced():
    with Workers(tasks.leak, [], time_limit=1e6) as workers:
        for key, size in enumerate([1, 1, _in_worker.MAX_GROWTH_BYTES + 10_000_000, 1]):
            workers.submit(key, size)
        pids = [workers.result(key) for key in range(4)]
    assert pids[0] == pids[1] == pids[2] != pids[3]


class TestMemory:
    """What Linux tells, in made-up folders."""

    @pytest.fixture(autouse=True)
    def folders(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_deaths, "PROC", tmp_path / "proc")
        monkeypatch.setattr(_deaths, "CGROUPS", tmp_path / "cgroup")
        self.folder = tmp_path

    def write(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def test_nothing_known(self):
        assert _deaths.oom_kills() == 0
        assert _deaths.resident_bytes(1) is None
        assert not _deaths.is_stopped(1)

    def test_version_2(self):
        self.write("proc/self/cgroup", "0::/user/job\n")
        self.write("cgroup/user/job/memory.events", "oom 9\noom_kill 3\n")
        self.write("proc/vmstat", "oom_kill 77\n")
        assert _deaths.oom_kills() == 3

    def test_version_1_in_a_container(self):
        self.write("proc/self/cgroup", "4:memory:/docker/a\n0::/\n")
        self.write("cgroup/memory/memory.oom_control", "oom_kill_disable 0\noom_kill 2\n")
        assert _deaths.oom_kills() == 2

    def test_no_groups(self):
        self.write("proc/vmstat", "oom_kill 5\n")
        assert _deaths.oom_kills() == 5

    def test_paused(self):
        self.write("proc/7/stat", "7 (a (b) T) S 1 1\n")
        self.write("proc/8/stat", "8 (python) T 1 1\n")
        assert not _deaths.is_stopped(7)
        assert _deaths.is_stopped(8)
