"""The command line, as a process: what it prints, what it leaves, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from shiftune import __version__
from shiftune.cli.reproduce import Method, SettingChoice
from shiftune.paper.choosing import METHOD_NAMES
from shiftune.paper.settings import SETTINGS

QUICK = ["reproduce", "toy", "--quick", "-s", "guarded", "-m", "naive"]


def shiftune(*args, cwd, env=None, **options):
    return subprocess.run(
        [sys.executable, "-m", "shiftune", *map(str, args)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_the_choices_are_those_of_the_experiments():
    assert tuple(Method) == METHOD_NAMES
    assert tuple(SettingChoice) == tuple(SETTINGS)


def test_help_names_the_commands(tmp_path):
    assert "reproduce" in shiftune("--help", cwd=tmp_path).stdout
    said = shiftune("reproduce", "--help", cwd=tmp_path).stdout
    for name in ("example", "toy", "parkinson", "gvhd", "regret", "page"):
        assert name in said


def test_version(tmp_path):
    assert shiftune("--version", cwd=tmp_path).stdout == f"shiftune {__version__}\n"


def test_example(tmp_path):
    done = shiftune("reproduce", "example", cwd=tmp_path)
    assert done.returncode == 0
    assert "| variance, variance reduced     | 4.20   | 4.21   |" in done.stdout


def test_quick_toy_writes_its_folder_and_goes_on(tmp_path):
    done = shiftune(*QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "**guarded** (2 runs)" in done.stdout
    folder = tmp_path / "paper" / "toy-quick"
    assert len(pd.read_csv(folder / "runs.csv")) == 4
    assert (folder / "table.md").read_text() in done.stdout + "\n"
    more = shiftune(*QUICK, "--seeds", 3, cwd=tmp_path)
    assert "**guarded** (3 runs)" in more.stdout
    assert len(pd.read_csv(folder / "runs.csv")) == 6


def test_stopped_and_resumed(tmp_path):
    """Ctrl-C keeps the finished runs; the same command goes on from there."""
    command = [sys.executable, "-m", "shiftune", "reproduce", "toy", "--seeds", "200", "--out", "x"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    runs = tmp_path / "x" / "runs.csv"
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
    assert shiftune("reproduce", "toy", *args, cwd=tmp_path).returncode == 0
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
def test_mistakes_are_explained_without_a_traceback(tmp_path, args, message):
    (tmp_path / "file").write_text("not a folder")
    done = shiftune(*args, cwd=tmp_path, env={"SHIFTUNE_DATA": ""})
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
