"""Time limits in threads, where another thread raises the exception."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from shiftune.workers import OutOfTime, _in_worker
from shiftune.workers._in_worker import call_within, is_over

IN_A_THREAD = textwrap.dedent(
    """
    import sys, threading, time
    from shiftune.workers._in_worker import OutOfTime, call_within

    def trace(*_):
        return trace

    def sleep_for_ever():
        while True:
            time.sleep(0.01)

    def run():
        try:
            call_within(0.1, sleep_for_ever)
        except OutOfTime as error:
            print(error)

    for set_trace in (threading.settrace, sys.settrace):
        set_trace(trace)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    """
)


def test_in_time():
    assert call_within(60, pow, 2, 3) == 8


def test_the_grace_is_half_of_the_limit(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 1_000.0)
    assert not is_over(60.0, since=1_000.0 - 90)
    assert is_over(60.0, since=1_000.0 - 91)
    assert not is_over(None, 0.0)


def test_a_process_that_is_traced_goes_on():
    """By a debugger or by coverage; Python 3.11 can hang with all its threads."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_THREAD], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "the item ran longer than 0.1 s\n"


def test_nothing_is_raised_after_the_call(monkeypatch):
    """Whether the function ends just before, at or just after the limit."""
    monkeypatch.setattr(_in_worker, "REPEAT_SECONDS", 1e-4)

    def spin(turns):
        for _ in range(turns):
            pass

    def run():
        for turns in range(0, 60_000, 100):
            with suppress(OutOfTime):
                call_within(1e-3, spin, turns)
            spin(1000)  # what was left over would be raised here, outside `suppress`
        return "nothing"

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(run).result() == "nothing"
