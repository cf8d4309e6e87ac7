"""Real processes that are killed, run out of time or are interrupted."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import psutil
import pytest

from shiftune.workers import OutOfTime, WorkerDied, Workers

# Worker processes get this process's path, and so can import the tasks.
sys.path.insert(0, str(Path(__file__).parent))
import worker_tasks as tasks
from worker_tasks import Diary, Job, Noted, wait_until_gone

pytestmark = [
    # One after the other: each of them has two or more processes of its own.
    pytest.mark.xdist_group("workers"),
    # Dask leaves sockets open when its workers are killed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


# So long that it only decides where items run: in a process of their own.
NO_LIMIT = 1e6
# So long that no item reaches it by itself.
LIMIT = 1200.0


@contextmanager
def dask_client(**config):
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")

    class LocalCluster(distributed.LocalCluster):  # type: ignore[name-defined]
        def _update_worker_status(self, op, msg):
            # Where workers restart one after the other, it may hear twice that one is gone, and
            # raises the KeyError when it is closed.
            with suppress(KeyError):
                super()._update_worker_status(op, msg)

    with (
        dask.config.set(
            {
                "distributed.scheduler.allowed-failures": 3,
                # It drops copies of data that no item waits for, the context's too.
                "distributed.scheduler.active-memory-manager.start": False,
                **config,
            }
        ),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def backend(name):
    """Arguments of Workers, and how many workers that should make."""
    if name == "dask":
        with dask_client() as client:
            yield {"executor": client.get_executor}, 2
        return
    yield {
        "here": ({}, 0),
        "loky": ({"n_jobs": 2}, 2),
        "all cores": ({"n_jobs": -1, "time_limit": NO_LIMIT}, joblib.cpu_count()),
        "one process": ({"time_limit": NO_LIMIT}, 1),
    }[name]


BACKENDS = ["here", "loky", "all cores", "one process", "dask"]
PROCESSES = ["loky", pytest.param("dask", marks=pytest.mark.slow)]
NEVER = "a note that nobody writes"


def fetch(workers, key):
    try:
        return workers.result(key)
    except WorkerDied as error:
        return error


# --- results ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BACKENDS)
def test_results_in_any_order(name, temporary):
    with backend(name) as (arguments, n_workers):
        with Workers(tasks.add, {"base": 100}, **arguments) as workers:
            assert workers.n_workers == max(n_workers, 1)
            for key in range(7):
                workers.submit(key, 2 * key)
            assert [workers.result(key) for key in (5, 0, 1, 6)] == [110, 100, 102, 112]
            workers.submit(7, -100)
            assert [workers.result(key) for key in (7, 4, 3, 2)] == [0, 108, 106, 104]
            with pytest.raises(KeyError, match="no item 7"):
                workers.result(7)
        assert not list(temporary.glob("shiftune-*"))


def test_one_job_runs_here_without_pickling():
    context, item = threading.Lock(), threading.Lock()
    with Workers(tasks.same, context) as workers:
        workers.submit(0, item)
        got = workers.result(0)
    assert got[0] is context
    assert got[1] is item


@pytest.mark.parametrize("name", ["here", "loky", pytest.param("dask", marks=pytest.mark.slow)])
def test_an_item_after_another(name, notes):
    with backend(name) as (arguments, _), Workers(tasks.divide, 10, **arguments) as workers:
        workers.submit("first", 0)
        workers.submit("second", 1, after="first")
        workers.submit("other", 2)
        workers.submit("last", 5, after="other")
        with pytest.raises(ZeroDivisionError):
            workers.result("first")
        assert [workers.result("other"), workers.result("last")] == [5, 2]
        with pytest.raises(KeyError, match="dropped"):
            workers.result("second")


def test_an_item_after_one_that_fails_has_no_result():
    with Workers(tasks.divide, 1.0, time_limit=NO_LIMIT) as workers:
        workers.submit("first", 0.0)
        workers.submit("second", 1.0, after="first")
        with pytest.raises(KeyError, match="second"):
            workers.result("second")


def test_cheap_items_run_here(monkeypatch):
    monkeypatch.setattr("shiftune.workers._workers.START_SECONDS", 1e9)
    with Workers(tasks.environment, None, n_jobs=2, n_items=20) as workers:
        for key in range(20):
            workers.submit(key, "OMP_NUM_THREADS")
        share = str(max(1, joblib.cpu_count() // 2))
        assert {workers.result(key) for key in range(20)} == {(os.getpid(), share)}


def test_workers_start_when_it_pays(monkeypatch):
    monkeypatch.setattr("shiftune.workers._workers.START_SECONDS", 0.0)
    with Workers(tasks.environment, None, n_jobs=2, n_items=3, warm_up=0) as workers:
        for key in range(3):
            workers.submit(key, "OMP_NUM_THREADS")
        pids = [workers.result(key)[0] for key in range(3)]
    assert pids[0] == os.getpid()
    assert os.getpid() not in pids[1:]


@pytest.mark.parametrize("name", PROCESSES)
def test_every_worker_loads_the_context_once(name, notes):
    with backend(name) as (arguments, _), Workers(tasks.act, Noted(notes), **arguments) as workers:
        workers.submit(0, Job(0, until="began1"))  # so neither worker runs all of them
        workers.submit(1, Job(1, until="began0"))
        for key in range(2, 8):
            workers.submit(key, Job(key))
        assert [workers.result(key) for key in range(8)] == list(range(0, 80, 10))
    loads = Counter(Diary(notes).pids("loaded"))
    users = {pid for key in range(8) for pid in Diary(notes).pids(f"began{key}")}
    assert os.getpid() not in loads
    assert len(users) == 2
    assert {pid: loads[pid] for pid in users} == dict.fromkeys(users, 1)


def test_large_results():
    with Workers(tasks.large, None, n_jobs=2) as workers:
        for key in range(3):
            workers.submit(key, 10**7)
        assert [len(workers.result(key)) for key in range(3)] == [10**7] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_large_arrays_are_shared_and_can_be_written_to():
    x = np.arange(500_000.0)
    context = {"x": x, "empty": np.empty(0), "strided": np.ones((2000, 2000))[::2, ::2]}
    with Workers(tasks.describe_array, context, n_jobs=2) as workers:
        workers.submit(0, 0)
        assert workers.result(0) == (x.sum(), True, True)


def test_classes_of_a_notebook_reach_the_workers():
    code = (
        "from shiftune.workers import Workers\n"
        "class Model:\n"
        "    def predict(self, x): return x + 1\n"
        "def task(model, x): return Model, model.predict(x)\n"
        "with Workers(task, Model(), n_jobs=2) as workers:\n"
        "    workers.submit(0, 41)\n"
        "    assert workers.result(0)[1] == 42\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.slow
def test_workers_share_the_cores(n_jobs, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    share = max(1, joblib.cpu_count() // n_jobs)
    with Workers(tasks.threads, None, n_jobs=n_jobs, time_limit=NO_LIMIT) as workers:
        workers.submit(0, 0)
        assert workers.result(0) == {"blas": share, "openmp": share, "joblib": share}


@pytest.mark.skipif(joblib.cpu_count() < 2, reason="there is nothing to limit")
@pytest.mark.slow
def test_lightgbm_keeps_to_its_share():
    pytest.importorskip("lightgbm")
    with Workers(tasks.lightgbm_threads, None, n_jobs=joblib.cpu_count()) as workers:
        for key, of_the_model in enumerate([None, -1]):
            workers.submit(key, of_the_model)
        assert [workers.result(0), workers.result(1)] == [0, 0]


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["here", "loky"])
def test_exceptions_pass_through(name):
    with backend(name) as (arguments, _), Workers(tasks.fail, None, **arguments) as workers:
        for key in range(3):
            workers.submit(key, "value")
            with pytest.raises(ValueError, match="bad") as caught:
                workers.result(key)
            assert type(caught.value) is ValueError
            assert caught.value.args == ("bad", 3)


@pytest.mark.parametrize("name", PROCESSES)
def test_what_cannot_be_sent_back_breaks_nothing(name, caplog):
    with backend(name) as (arguments, _), Workers(tasks.fail, None, **arguments) as workers:
        for key, item in enumerate(["unpackable", "exit", "lock", "value"]):
            workers.submit(key, item)
        with pytest.raises(RuntimeError, match=r"UnpackableError: cannot \(3\)") as stand_in:
            workers.result(0)
        assert "in fail" in stand_in.value.__notes__[0]
        with pytest.raises(SystemExit):
            workers.result(1)
        with pytest.raises(TypeError, match="lock"):
            workers.result(2)
        with pytest.raises(ValueError, match="bad") as caught:
            workers.result(3)
        assert caught.value.args == ("bad", 3)
    assert not [r for r in caplog.records if r.name == "shiftune"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n_jobs": 0}, "n_jobs must be the number of processes.*got 0"),
        ({"n_jobs": 2, "executor": print}, "not both; got n_jobs=2"),
        ({"executor": lambda: ThreadPoolExecutor(2)}, "get_executor of a Dask client.*use n_jobs"),
        ({"time_limit": 0}, "time_limit must be None or a number of seconds > 0, got 0"),
        ({"time_limit": float("nan")}, "time_limit must be .* got nan"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        Workers(tasks.add, {}, **arguments)


@pytest.mark.parametrize("name", ["here", "loky"])
def test_misuse(name):
    with backend(name) as (arguments, _):
        workers = Workers(tasks.add, {"base": 1}, **arguments)
        workers.submit(0, 1)
        with pytest.raises(ValueError, match="key 0 is in use"):
            workers.submit(0, 1)
        with pytest.raises(KeyError, match="no item 1"):
            workers.result(1)
        workers.close()
        workers.close()
        with pytest.raises(RuntimeError, match="closed"):
            workers.submit(1, 1)


def test_no_file_is_left_behind(temporary):
    with pytest.raises(TypeError, match="lock"):
        Workers(tasks.add, threading.Lock(), n_jobs=2)
    assert not list(temporary.iterdir())

    def driver_with_a_mistake():
        with Workers(tasks.add, {"base": 1}, n_jobs=2) as workers:
            workers.submit(0, 1)
            assert workers.result(0) == 2
            assert list(temporary.glob("shiftune-*/context.joblib"))
            raise LookupError

    with pytest.raises(LookupError):
        driver_with_a_mistake()
    assert not list(temporary.glob("shiftune-*"))


# --- deaths ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROCESSES)
def test_a_killed_worker_costs_only_what_was_running(name, notes, caplog):
    diary = Diary(notes)
    with backend(name) as (arguments, _), Workers(tasks.act, diary, **arguments) as workers:
        # Item 0 ends before its worker begins item 2, for which item 1 waits: the result of 0 is
        # back, though not fetched, when that of 1 is.
        workers.submit(0, Job(0, until="began1"))
        workers.submit(1, Job(1, until="began2"))
        workers.submit(2, Job(2))
        assert workers.result(1) == 10
        workers.submit(3, Job(3, until="began4"))  # runs when its neighbour kills a worker
        workers.submit(4, Job(4, kills=1))
        for key in range(5, 8):
            workers.submit(key, Job(key))
        assert [workers.result(key) for key in range(2, 8)] == [20, 30, 40, 50, 60, 70]
        assert workers.result(0) == 0
    assert len(diary.pids("began4")) == 2
    if name != "dask":  # Dask recovers by itself, and may lose a result that was not fetched
        assert len(diary.pids("began0")) == 1
        assert "item 4 is run again" in caplog.text


@pytest.mark.slow
def test_dask_scatters_again_what_was_lost(notes, caplog):
    diary = Noted(notes)
    with (
        dask_client() as client,
        Workers(tasks.act, diary, executor=client.get_executor) as workers,
    ):
        for key in range(6):
            workers.submit(key, Job(key, until="killed" if key else None))
        assert workers.result(0) == 0
        for pid in client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        diary.note("killed")
        assert [workers.result(key) for key in range(1, 6)] == [10, 20, 30, 40, 50]
    assert "sent to the workers again" in caplog.text


def test_a_killer_is_given_up_and_its_neighbours_are_not(notes, caplog):
    diary = Diary(notes)
    with Workers(tasks.act, diary, n_jobs=2) as workers:
        workers.submit(0, Job(0, until="began1"))
        workers.submit(1, Job(1, kills=99, how="exit"))
        for key in range(2, 5):
            workers.submit(key, Job(key))
        got = [fetch(workers, key) for key in range(5)]
        assert isinstance(got[1], WorkerDied)
        assert "item 1 was given up" in str(got[1])
        assert [got[key] for key in (0, 2, 3, 4)] == [0, 20, 30, 40]
        assert len(diary.pids("began1")) == 3

        workers.submit(5, Job(5, until="began6"))  # back in parallel
        workers.submit(6, Job(6, until="began5"))
        assert [workers.result(5), workers.result(6)] == [50, 60]
    assert "with exit code 3; item 1 is given up" in caplog.text


@pytest.mark.slow
def test_two_killers_and_items_submitted_in_between(notes):
    diary = Diary(notes)
    kills = {1: 99, 4: 99, 5: 1, 8: 1}
    with Workers(tasks.act, diary, n_jobs=2) as workers:
        for key in range(3):
            workers.submit(key, Job(key, kills=kills.get(key, 0), how="exit"))
        got = []
        for key in range(3, 10):  # a driver that keeps three items in flight
            workers.submit(key, Job(key, kills=kills.get(key, 0), how="exit"))
            got.append(fetch(workers, key - 3))
        got += [fetch(workers, key) for key in (7, 8, 9)]
    assert [key for key in range(10) if isinstance(got[key], WorkerDied)] == [1, 4]
    assert [got[key] for key in range(10) if key not in (1, 4)] == [0, 20, 30, 50, 60, 70, 80, 90]
    assert {len(diary.pids(f"began{key}")) for key in (1, 4)} == {3}
    assert {len(diary.pids(f"began{key}")) for key in (0, 2, 3, 6, 7, 9)} == {1}


@pytest.mark.parametrize("allowed_failures", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_a_killer_on_dask(allowed_failures, notes):
    config = {"distributed.scheduler.allowed-failures": allowed_failures}
    with (
        dask_client(**config) as client,
        Workers(tasks.act, Diary(notes), executor=client.get_executor) as workers,
    ):
        for key in range(5):
            workers.submit(key, Job(key, kills=99 if key == 1 else 0))
        got = [fetch(workers, key) for key in range(5)]
    assert isinstance(got[1], WorkerDied)
    assert [got[key] for key in (0, 2, 3, 4)] == [0, 20, 30, 40]


# --- time ------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs SIGALRM")
@pytest.mark.parametrize(
    "item", ["slow", "catches once", pytest.param("catches twice", marks=pytest.mark.slow)]
)
def test_the_time_limit_is_raised_in_the_task(item, notes, caplog, monkeypatch):
    monkeypatch.setattr("shiftune.workers._in_worker.GRACE_SECONDS", NO_LIMIT)  # nothing is killed
    with Workers(tasks.dawdle, Diary(notes), time_limit=1.0) as workers:
        workers.submit(0, item)
        with pytest.raises(OutOfTime, match="longer than"):
            workers.result(0)
        workers.submit(1, "quick")
        assert workers.result(1).startswith("quick")
    assert "killing" not in caplog.text


@pytest.fixture
def end_of_time(monkeypatch):
    """Function after which the time of all items that have begun is over, and of no other ever."""

    def call():
        now = time.monotonic() + 1.5 * LIMIT  # half of the limit is grace
        monkeypatch.setattr(
            "shiftune.workers._in_worker.time", SimpleNamespace(monotonic=lambda: now)
        )

    return call


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs pthread_sigmask")
def test_a_task_that_hears_nothing_is_killed(notes, caplog, end_of_time):
    diary = Diary(notes)
    with Workers(tasks.dawdle, diary, n_jobs=2, time_limit=LIMIT) as workers:
        for key, item in enumerate(["quick 0", "deaf", "quick 2", "quick 3", "quick 4"]):
            workers.submit(key, item)
        got = [workers.result(key) for key in (0, 2, 3, 4)]
        assert [text.rsplit(" ", 1)[0] for text in got] == [f"quick {key}" for key in (0, 2, 3, 4)]
        diary.wait_for("deaf")
        end_of_time()
        with pytest.raises(OutOfTime, match=r"item 1 .* was killed"):
            workers.result(1)
        workers.submit(5, "quick")
        assert workers.result(5).startswith("quick")
    assert "killing a worker: item 1" in caplog.text


@pytest.mark.slow
def test_the_time_limit_is_raised_on_dask(notes, caplog, monkeypatch):
    monkeypatch.setattr("shiftune.workers._in_worker.GRACE_SECONDS", NO_LIMIT)  # nothing is killed
    with (
        dask_client() as client,
        Workers(
            tasks.dawdle, Diary(notes), executor=client.get_executor, time_limit=0.5
        ) as workers,
    ):
        for key, item in enumerate(["catches once", "slow", "catches twice"]):
            workers.submit(key, item)
        for key in range(3):
            with pytest.raises(OutOfTime, match=r"longer than 0\.5 s"):
                workers.result(key)
    assert "killing" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("item", ["deaf", "holds the GIL"])
def test_workers_that_hear_nothing_are_restarted_on_dask(item, notes, caplog, end_of_time):
    """Items that wait for such a worker run when it is back."""
    diary = Diary(notes)
    with (
        dask_client() as client,
        Workers(tasks.dawdle, diary, executor=client.get_executor, time_limit=LIMIT) as workers,
    ):
        for key, each in enumerate([item, item, "quick 2", "quick 3"]):
            workers.submit(key, each)
        while sum(bool(each.since) for each in workers._pool._submitted.values()) < 2:
            time.sleep(0.01)
        diary.note("known to have begun")
        diary.wait_for(item, 2)
        end_of_time()
        with pytest.raises(OutOfTime, match=r"item 0 .* was killed"):
            workers.result(0)
        with pytest.raises(OutOfTime, match=r"item 1 .* was killed"):
            workers.result(1)
        assert [workers.result(key).rsplit(" ", 1)[0] for key in (2, 3)] == ["quick 2", "quick 3"]
    assert caplog.text.count("killing a worker") == 2


def test_waiting_is_not_running(notes, caplog, end_of_time):
    diary = Diary(notes)
    with Workers(tasks.act, diary, time_limit=LIMIT) as workers:
        workers.submit(0, Job(0, until=NEVER))
        workers.submit(1, Job(1))  # begins when its time would be over if it counted from here
        diary.wait_for("began0")
        end_of_time()
        with pytest.raises(OutOfTime, match=r"item 0 .* was killed"):
            workers.result(0)
        assert workers.result(1) == 10
    assert "killing a worker: item 0" in caplog.text


# --- the end ---------------------------------------------------------------------------------


DRIVER = """
import sys
import worker_tasks as tasks
from shiftune.workers import Workers

def main():
    with Workers(tasks.act, tasks.Diary(sys.argv[1]), n_jobs=2) as workers:
        for key in range(4):
            workers.submit(key, tasks.Job(key, until="a note that nobody writes"))
        workers.result(0)

if __name__ == "__main__":
    tasks.end_with_parent()
    main()
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("how", ["driver", "group", "killed"])
def test_nothing_survives_the_driver(how, notes, temporary, tmp_path):
    """Ctrl-C reaches the whole group in a terminal, the driver alone in a notebook."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, script, notes],
        env={**environment(), "TMPDIR": str(temporary)},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    family = []
    try:
        Diary(notes).wait_for("began*", 2)
        family = psutil.Process(driver.pid).children(recursive=True)
        assert len(family) >= 2
        if how == "group":
            os.killpg(driver.pid, signal.SIGINT)
        else:
            os.kill(driver.pid, signal.SIGINT if how == "driver" else signal.SIGKILL)
        # The items never end: a driver that waits for them, or leaves them behind, does not pass.
        driver.wait()
        wait_until_gone(process.pid for process in family)
        if how != "killed":
            assert driver.stderr.read().rstrip().endswith("KeyboardInterrupt")
            assert not list(temporary.glob("shiftune-*"))
    finally:
        for process in [driver, *family]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        driver.communicate()


PATIENT_DRIVER = """
import sys
import worker_tasks as tasks
from shiftune.workers import Workers

def main():
    diary = tasks.Diary(sys.argv[1])
    with Workers(tasks.act, diary, n_jobs=2) as workers:
        for key in range(2):
            workers.submit(key, tasks.Job(key, until="interrupted"))
        try:
            print("submitted", flush=True)
            workers.result(0)
        except KeyboardInterrupt:
            diary.note("interrupted")
            print("wait", workers.result(0), workers.result(1))

if __name__ == "__main__":
    tasks.end_with_parent()
    main()
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_a_driver_may_go_on_after_an_interrupt(notes, tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(PATIENT_DRIVER)
    driver = subprocess.Popen(
        [sys.executable, script, notes],
        env=environment(),
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert driver.stdout.readline() == "submitted\n"
        Diary(notes).wait_for("began*", 2)
        os.killpg(driver.pid, signal.SIGINT)
        assert driver.communicate()[0] == "wait 0 10\n"
    finally:
        driver.kill()  # its workers end with it
        driver.wait()
    assert len(list(notes.glob("began*"))) == 2  # none was begun again


UNCLOSED_DRIVER = """
import os, sys, time
import psutil
from shiftune.workers import Workers

workers = Workers(lambda context, item: time.sleep(item) or os.getpid(), None, time_limit=1e6)
for key, seconds in enumerate([0, 3600, 3600]):
    workers.submit(key, seconds)
worker = workers.result(0)

def note(event, arguments):
    if event == "shutil.rmtree" and "shiftune-" in str(arguments[0]):
        print("removed", "beside a worker" if psutil.pid_exists(worker) else "alone")

sys.addaudithook(note)
"""


def test_a_program_may_end_without_close(temporary):
    """With items that run and wait, which nobody wants any more.

    The worker ends before its folder is removed: it would write into that again.
    """
    env = {**environment(), "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", UNCLOSED_DRIVER]
    ended = subprocess.run(command, check=True, env=env, capture_output=True, text=True)
    assert ended.stdout == "removed alone\n"
    assert not list(temporary.glob("shiftune-*"))


@pytest.mark.parametrize("name", PROCESSES)
def test_close_with_kill_does_not_wait(name, notes, temporary):
    diary = Diary(notes)
    with backend(name) as (arguments, _):
        workers = Workers(tasks.act, diary, **arguments)
        for key in range(20):  # more than the queue of the processes holds
            workers.submit(key, Job(key, until=NEVER))
        diary.wait_for("began*", 2)
        pids = diary.pids("began*")
        assert len(pids) == 2
        workers.close(kill=True)  # never returns if it waits for the items
        if name != "dask":
            wait_until_gone(pids)
        assert not list(temporary.glob("shiftune-*"))


def test_a_process_that_starts_does_not_hear_ctrl_c():
    """A terminal sends it to all; one that is still importing would print a traceback."""
    pytest.importorskip("joblib.externals.loky.backend.popen_loky_posix", reason="of Unix")
    code = """
        import operator, signal
        from joblib.externals.loky.backend import fork_exec as backend
        from shiftune.workers import Workers

        blocked = []

        def start(*args, fork_exec=backend.fork_exec, **options):
            blocked.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
            return fork_exec(*args, **options)

        backend.fork_exec = start
        with Workers(operator.mul, 10, n_jobs=2) as workers:
            for item in (1, 2):
                workers.submit(item, item)
            print([workers.result(item) for item in (1, 2)], blocked)
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[10, 20] [True, True]\n"
