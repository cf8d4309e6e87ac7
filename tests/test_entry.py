"""Signals to a command line, in batch scripts and with forked children too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

WAIT = """
    print("ready", flush=True)
    time.sleep(3600)
"""
FORK = """
    import multiprocessing
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    child.start()
    child.terminate()
    child.join()
    print("ended by", child.exitcode, flush=True)
"""


def start(what, ignored=(), **options):
    """Start a command line that makes a temporary folder, and then does something.

    It ignores some signals from the beginning, and no other, whatever this process ignores.
    """

    def handle():
        for name in ("SIGINT", "SIGHUP", "SIGTERM"):
            handler = signal.SIG_IGN if name in ignored else signal.SIG_DFL
            signal.signal(getattr(signal, name), handler)

    script = f"""
import time
from shiftune import _interrupts as entry
from shiftune._files import make_temporary_folder

def application():
    folder = make_temporary_folder()
    open(f"{{folder}}/context.joblib", "w").close()
{what}

entry.run(lambda: application)
"""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=handle,
        **options,
    )


@pytest.mark.parametrize("ignored", [(), ("SIGINT",)])
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_leave_nothing(tmp_path, name, code, ignored):
    """Also in the background of a script, whose shell makes commands ignore Ctrl-C."""
    process = start(WAIT, ignored, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert process.stdout.readline() == "ready\n"
    assert len(list(tmp_path.glob("shiftune-*"))) == 1
    process.send_signal(getattr(signal, name))
    _, printed = process.communicate()
    assert (process.returncode, printed) == (code, "stopped\n")
    assert list(tmp_path.glob("shiftune-*")) == []


def test_nohup_is_heeded():
    """SIGHUP that was ignored from the beginning ends nothing."""
    process = start(WAIT, ["SIGHUP"])
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143


def test_the_end_of_a_forked_child_is_its_own(tmp_path):
    process = start(FORK, env={**os.environ, "TMPDIR": str(tmp_path)})
    printed, errors = process.communicate()
    assert (process.returncode, printed, errors) == (0, "ended by -15\n", "")
