"""The progress bar on terminals of several widths."""

from __future__ import annotations

import os
import struct
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shiftune.risk import estimate
from shiftune.search._loop import Progress
from shiftune.search._trial import Outcome

fcntl = pytest.importorskip("fcntl", reason="a terminal of Unix")
termios = pytest.importorskip("termios", reason="a terminal of Unix")

RISKS = [estimate([[1.0, 2.0, m]], method="naive") for m in (9.0, 5.0)]
OUTCOMES = [Outcome(risk, "", 0.0) for risk in RISKS]
FAILED = Outcome(None, "ValueError: no", 0.0)
INTERVAL = "({:.4g} to {:.4g})".format(*RISKS[1].interval())


def everything(leader):
    """Read what a terminal is sent until it is closed."""
    shown = b""
    try:
        while part := os.read(leader, 65536):
            shown += part
    except OSError:  # how Linux says that the other end is closed
        pass
    return shown.decode()


@pytest.fixture
def lines_at(monkeypatch):
    """Run 120 trials, 3 of which fail, on a terminal of so many columns; what it was sent."""

    def run(columns):
        leader, follower = os.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with ThreadPoolExecutor(1) as watcher:
            watched = watcher.submit(everything, leader)
            with open(follower, "w") as terminal, monkeypatch.context() as patch:
                patch.setattr(sys, "stderr", terminal)
                with Progress(120, [], None) as progress:
                    patch.setattr(progress._bar, "mininterval", 0)
                    patch.setattr(progress._bar, "miniters", 1)
                    for trial in range(120):
                        progress.update(FAILED if trial % 50 == 5 else OUTCOMES[trial > 2])
            shown = watched.result()
        os.close(leader)
        return [line for line in shown.replace("\n", "\r").split("\r") if line.strip()]

    return run


@pytest.mark.parametrize("columns", [12, 25, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(lines_at, columns):
    lines = lines_at(columns)
    assert len(lines) > 100
    assert max(map(len, lines)) < columns


@pytest.mark.parametrize(
    ("columns", "whole"),
    [
        (12, ["120/120"]),
        (40, ["120/120"]),
        (60, ["120/120", "best 2.667", INTERVAL, "3 failed"]),
        (80, ["120/120", "best 2.667", INTERVAL, "3 failed]"]),
        (120, ["100%|", "120/120", "trial/s, best 2.667", INTERVAL, "3 failed]"]),
    ],
)
def test_what_is_shown_is_whole(lines_at, columns, whole):
    last = lines_at(columns)[-1]
    assert [part for part in whole if part not in last] == []


def test_without_a_terminal(monkeypatch, capfd):
    """A log file has no width."""
    monkeypatch.delenv("COLUMNS", raising=False)
    with Progress(2, [], True) as progress:
        progress.update(FAILED)
        progress.update(Outcome(estimate([np.ones(3)], method="naive"), "", 0.0))
    assert "trial/s, best 1 (1 to 1), 1 failed]" in capfd.readouterr().err
