"""`shiftune reproduce`: what it prints, what it leaves, how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from reproduction.__main__ import Method, SettingChoice
from reproduction.choosing import METHOD_NAMES
from reproduction.settings import SETTINGS

from shiftune import __version__

QUICK = ["reproduce", "toy", "--quick", "-s", "guarded", "-m", "naive"]


def test_the_choices_are_those_of_the_experiments():
    assert tuple(Method) == METHOD_NAMES
    assert tuple(SettingChoice) == tuple(SETTINGS)


def test_help_names_the_commands(run):
    assert "reproduce" in run("--help").stdout
    said = run("reproduce", "--help").stdout
    for name in ("example", "toy", "parkinson", "gvhd", "regret", "page"):
        assert name in said


def test_version_as_a_process():
    command = [sys.executable, "-m", "shiftune", "--version"]
    assert subprocess.check_output(command, text=True) == f"shiftune {__version__}\n"


def test_example(run):
    said = run("reproduce", "example").stdout
    assert "| variance, variance reduced     | 4.20   | 4.21   |" in said


def test_quick_toy_writes_its_folder_and_goes_on(run, folder):
    said = run(*QUICK).stdout
    assert "**guarded** (2 runs)" in said
    written = folder / "paper" / "toy-quick"
    assert len(pd.read_csv(written / "runs.csv")) == 4
    assert (written / "table.md").read_text() in said + "\n"
    assert "**guarded** (3 runs)" in run(*QUICK, "--seeds", 3).stdout
    assert len(pd.read_csv(written / "runs.csv")) == 6


def test_stopped_and_resumed(run, folder):
    """Ctrl-C keeps the finished runs; the same command goes on from there."""
    command = [sys.executable, "-m", "shiftune", "reproduce", "toy", "--seeds", "200", "--out", "x"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    runs = folder / "x" / "runs.csv"
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and not (runs.exists() and runs.read_text().count("\n") > 3):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "run the same command again" in said
    assert "Traceback" not in said
    kept = len(pd.read_csv(runs))
    assert kept >= 3
    before = pd.read_csv(runs)
    seeds = before["seed"].nunique()
    args = ["--out", "x", "--seeds", seeds, "-s", "as-published", "-m", "naive", "-m", "oracle"]
    run("reproduce", "toy", *args)
    after = pd.read_csv(runs)
    mine = after[(after["setting"] == "as-published") & after["method"].isin(["naive", "oracle"])]
    assert len(mine) == 2 * 5 * seeds
    pd.testing.assert_frame_equal(after.iloc[:kept], before)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["reproduce", "toy", "-m", "magic"], "magic"),
        (["reproduce", "toy", "--seeds", "0"], "seeds"),
        (["reproduce", "toy", "--quick", "--jobs", "0"], "--jobs is a number of processes"),
        (["reproduce", "gvhd", "--data", "nowhere"], "there is no folder nowhere"),
        (["reproduce", "page", "nowhere"], "run shiftune reproduce first"),
        (["reproduce", "regret", "--quick", "--jobs", "-2"], "--jobs is a number of processes"),
        (["reproduce", "toy", "--quick", "--out", "file"], "file"),
    ],
)
def test_mistakes_are_explained(run, folder, monkeypatch, args, message):
    monkeypatch.setenv("SHIFTUNE_DATA", "")
    (folder / "file").write_text("not a folder")
    assert message in run(*args, code=2).stderr
