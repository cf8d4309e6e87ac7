"""Data in temporary folders does not outlive its process for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from shiftune._files import PREFIX, make_temporary_folder, remove_temporary_folder
from shiftune.workers import Workers, _in_worker

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and locks of POSIX")

WAITING = """
import time
from pathlib import Path
from shiftune import _interrupts as entry

def load():
    from shiftune._files import make_temporary_folder

    def wait():
        folder = make_temporary_folder()
        Path(folder, "data").write_text("private")
        print(folder, flush=True)
        time.sleep(3600)

    return wait

entry.run(load)
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def ended_by(number):
    """Send a signal to a command that has data in a temporary folder; return both."""
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE) as process:
        folder = Path(process.stdout.readline().decode().strip())
        assert (folder / "data").read_text() == "private"
        assert folder.stat().st_mode & 0o077 == 0
        remove_temporary_folder(make_temporary_folder())
        assert folder.exists()  # in use
        process.send_signal(number)
    return process, folder


WHILE_MADE = """
import os, signal, tempfile, time
from shiftune import _interrupts as entry
from shiftune._files import make_temporary_folder

def make(*args, mkdtemp=tempfile.mkdtemp, **options):
    folder = mkdtemp(*args, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.5)
    return folder

tempfile.mkdtemp = make
entry.run(lambda: lambda: (make_temporary_folder(), time.sleep(3600)))
"""


def test_a_command_that_is_told_to_end_while_it_makes_a_folder(place):
    assert subprocess.run([sys.executable, "-c", WHILE_MADE], check=False).returncode == 143
    assert list(place.iterdir()) == []


def test_a_command_that_is_told_to_end():
    process, folder = ended_by(signal.SIGTERM)
    assert process.returncode == 143
    assert not list(folder.parent.glob(f"{folder.name}*"))


HALF_WRITTEN = """
import signal
from pathlib import Path
from shiftune import _interrupts as entry
from shiftune._files import atomic_write

def write():
    with atomic_write(Path("patients.csv")) as part:
        part.write_text("patient")
        print(part, flush=True)
        while True:
            signal.pause()

entry.run(lambda: write)
"""


def test_a_command_that_is_told_to_end_while_it_writes_a_file(place):
    command = [sys.executable, "-c", HALF_WRITTEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=place) as process:
        assert (place / process.stdout.readline().decode().strip()).read_text() == "patient"
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 143
    assert list(place.iterdir()) == []


def test_leftovers_of_a_killed_process_are_removed(place):
    process, folder = ended_by(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert folder.exists()
    (place / f"{PREFIX}somebody").mkdir()  # not known to be ours
    (place / f"{PREFIX}link").symlink_to(folder)
    own = make_temporary_folder()
    assert not folder.exists()
    assert (place / f"{PREFIX}somebody").exists()
    remove_temporary_folder(own)
    assert not Path(own).exists()


def test_the_data_of_workers_can_be_read_by_their_owner_only():
    folder = make_temporary_folder()
    _in_worker.write_context(folder, {"age": 3})
    assert Path(folder, _in_worker.CONTEXT_FILE).stat().st_mode & 0o077 == 0
    remove_temporary_folder(folder)


def test_no_room_for_the_data_of_workers(monkeypatch):
    def full(folder, context):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_in_worker, "write_context", full)
    with pytest.raises(ValueError, match=r"cannot be written to .*No space left.*TMPDIR"):
        Workers(max, 3, n_jobs=2)
