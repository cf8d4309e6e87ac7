"""A journal can be used again whatever became of its last writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from optuna.distributions import FloatDistribution
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune.errors import StorageError
from shiftune.search import ShiftSearch
from shiftune.search._journal import record_lock, search_lock
from shiftune.search._storage import trials_in

# The writer is killed while it holds the lock, in the middle of its records.
KILLED = """
import os, signal, sys
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge
from reproduction.toy import toy_problem
from shiftune.search import ShiftSearch

syncs = 0

def killed(descriptor, sync=os.fsync):
    global syncs
    syncs += 1
    if syncs == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return sync(descriptor)

os.fsync = killed
ShiftSearch(
    Ridge(), {"alpha": FloatDistribution(1e-3, 1e3, log=True)}, n_trials=6, risk="naive",
    sampler="random", storage="run/study.journal", progress=False,
).fit(toy_problem(1.0, n=100, random_state=1).problem)
"""


FILES = {"study.journal", "study.journal.predictions"}


@pytest.fixture(scope="module")
def problem():
    return toy_problem(1.0, n=100, random_state=1).problem


def trials(problem, storage, model=None):
    space = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
    search = ShiftSearch(
        model or Ridge(), space, n_trials=6, risk="naive", sampler="random", storage=storage,
        progress=False,
    )  # fmt: skip
    return search.fit(problem).trials_["param_alpha"].to_list()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills")
@pytest.mark.parametrize(
    ("record", "moved"), [pytest.param(3, False, marks=pytest.mark.slow), (20, True)]
)
def test_a_writer_that_was_killed(problem, folder, record, moved):
    code = subprocess.run([sys.executable, "-c", KILLED, str(record)], check=False).returncode
    assert code == -signal.SIGKILL
    if moved:
        (folder / "run").rename(folder / "elsewhere")
    place = "elsewhere" if moved else "run"
    assert trials(problem, f"{place}/study.journal") == trials(problem, None)
    assert {path.name for path in (folder / place).iterdir()} == FILES


@pytest.mark.parametrize("target", ["run/study.journal", "study.journal", "nowhere"])
def test_a_lock_of_another_program(problem, folder, target):
    """Optuna's own, which a process that was killed has left."""
    (folder / "run" / "study.journal.lock").symlink_to(target)
    assert len(trials(problem, "run/study.journal")) == 6
    assert {path.name for path in (folder / "run").iterdir()} == FILES | {"study.journal.lock"}


def test_the_working_folder_may_change(problem, folder, monkeypatch):
    space = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
    search = ShiftSearch(Ridge(), space, n_trials=1, storage="run/study.journal", progress=False)
    search.fit(problem)
    monkeypatch.chdir("/")
    search.study_.set_user_attr("noted", True)
    assert "noted" in (folder / "run" / "study.journal").read_text()


def test_it_excludes_others_until_it_is_released(folder):
    fcntl = pytest.importorskip("fcntl", reason="locks of the kernel")
    path = folder / "run" / "study.journal"
    path.touch()

    def is_free():
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    with record_lock(path):
        assert not is_free()
    assert is_free()


def test_a_line_that_is_being_written_is_not_torn(problem, folder):
    """Whoever opens a journal (`shiftune report`, say) waits until its writer has finished."""
    pytest.importorskip("fcntl", reason="locks of the kernel")
    path = folder / "run" / "study.journal"
    trials(problem, path)
    whole = path.read_bytes()
    record = whole[whole[:-1].rfind(b"\n") + 1 :]
    path.write_bytes(whole[: -len(record)])
    with ThreadPoolExecutor(1) as reader:
        with record_lock(path), path.open("ab", buffering=0) as file:
            file.write(record[:10])
            opened = reader.submit(trials_in, path)
            with pytest.raises(TimeoutError):
                opened.result(timeout=0.2)
            file.write(record[10:])
        assert len(opened.result()) == 6
    assert path.read_bytes().startswith(whole)


def test_a_lock_that_was_not_released_does_not_block_its_owner(folder):
    path = folder / "run" / "study.journal"
    path.touch()
    held = record_lock(path)
    held.__enter__()
    del held  # an interrupt has kept it from being released
    with record_lock(path):
        pass


class Meeting(Ridge):
    """A model whose fit waits until another search has been refused."""

    inside, refused = threading.Event(), threading.Event()

    def fit(self, *args, **options):
        self.inside.set()
        self.refused.wait()
        return super().fit(*args, **options)


@pytest.mark.parametrize("again", ["run/study.journal", "run/../run/study.journal"])
def test_two_searches_at_once(problem, folder, again):
    pytest.importorskip("fcntl", reason="locks of the kernel")
    Meeting.inside.clear(), Meeting.refused.clear()
    with ThreadPoolExecutor(1) as first:
        running = first.submit(trials, problem, "run/study.journal", Meeting())
        try:
            while not Meeting.inside.wait(0.1):
                assert not running.done()
            with pytest.raises(StorageError, match=r"another search is using .*wait until"):
                trials(problem, again)
            assert trials_in(folder / "run" / "study.journal") == []  # reading is allowed
        finally:
            Meeting.refused.set()
        assert running.result() == trials(problem, None)
    assert {path.name for path in (folder / "run").iterdir()} == FILES
    assert trials(problem, again, Meeting()) == running.result()


def test_a_process_that_was_forked_does_not_keep_the_journal(folder):
    pytest.importorskip("fcntl", reason="locks of the kernel")
    path = folder / "run" / "study.journal"
    reading, writing = os.pipe()
    with search_lock(path, join=False):
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)  # until the parent ends or closes it
            os._exit(0)
    try:
        with search_lock(path, join=False):
            pass
    finally:
        os.close(writing)
        os.waitpid(child, 0)
        os.close(reading)


def test_an_opened_journal_does_not_grow(problem, folder):
    path = folder / "run" / "study.journal"
    trials(problem, path)
    before = path.read_bytes()
    assert len(trials_in(path)) == 6
    trials(problem, path)
    assert path.read_bytes() == before
