"""`python -m reproduction`: output, files and exit codes."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from reproduction.choosing import METHOD_NAMES
from reproduction.commands import Method, SettingChoice
from reproduction.settings import SETTINGS

from shiftune.errors import DataWarning

ROOT = Path(__file__).parents[2]
QUICK = ["toy", "--quick", "-s", "guarded", "-m", "naive"]


def from_checkout() -> dict[str, str]:
    """The environment of a process that finds the checkout from any folder."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.getenv("PYTHONPATH")])),
    }


def test_the_choices_are_those_of_the_experiments():
    assert tuple(Method) == METHOD_NAMES
    assert tuple(SettingChoice) == tuple(SETTINGS)


def test_help_names_the_commands(run):
    output = run("--help").stdout
    for name in ("example", "toy", "parkinson", "gvhd", "regret", "page"):
        assert name in output


def test_example(run):
    output = run("example").stdout
    assert "| variance, variance reduced     | 4.20   | 4.21   |" in output


def test_quick_toy_writes_its_folder_and_goes_on(run, folder):
    output = run(*QUICK).stdout
    assert "**guarded** (2 runs)" in output
    written = folder / "paper" / "toy-quick"
    assert len(pd.read_csv(written / "runs.csv")) == 4
    assert (written / "table.md").read_text() in output + "\n"
    assert "**guarded** (3 runs)" in run(*QUICK, "--seeds", 3).stdout
    assert len(pd.read_csv(written / "runs.csv")) == 6


def test_without_matplotlib_the_table_is_written_and_the_figures_are_left_out(
    run, folder, monkeypatch
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "reproduction.drawing.find_spec",
        lambda name: None if name == "matplotlib" else find(name),
    )
    with pytest.warns(DataWarning, match="pip install matplotlib, then rerun the command"):
        run(*QUICK)
    written = folder / "paper" / "toy-quick"
    assert (written / "table.md").exists()
    assert not list(written.glob("*.png"))


@pytest.mark.slow
def test_stopped_and_resumed(run, folder):
    """Ctrl-C keeps the finished runs; the same command goes on from there."""
    command = [sys.executable, "-m", "reproduction", "toy", "--quick", "--seeds", "200"]
    process = subprocess.Popen(
        [*command, "--out", "x"], stderr=subprocess.PIPE, text=True, env=from_checkout()
    )
    runs = folder / "x" / "runs.csv"
    while not (runs.exists() and runs.read_text().count("\n") > 3):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate()
    assert process.returncode == 130
    assert "rerun the command to continue" in output
    assert "Traceback" not in output
    kept = len(pd.read_csv(runs))
    assert kept >= 3
    before = pd.read_csv(runs)
    seeds = before["seed"].nunique()
    args = ["--out", "x", "--seeds", seeds, "-s", "as-published", "-m", "naive", "-m", "oracle"]
    run("toy", "--quick", *args)
    after = pd.read_csv(runs)
    mine = after[(after["setting"] == "as-published") & after["method"].isin(["naive", "oracle"])]
    assert len(mine) == 2 * 2 * seeds
    pd.testing.assert_frame_equal(after.iloc[:kept], before)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["toy", "-m", "magic"], "magic"),
        (["toy", "--seeds", "0"], "seeds"),
        (["toy", "--quick", "--jobs", "0"], "--jobs must be a number of processes"),
        (["gvhd", "--data", "nowhere"], "there is no folder nowhere"),
        (["page", "nowhere"], "run python -m reproduction toy first"),
        (["regret", "--quick", "--jobs", "0"], "--jobs must be a number of processes"),
        (["toy", "--quick", "--out", "file"], "file"),
    ],
)
def test_mistakes_are_explained(run, folder, monkeypatch, args, message):
    monkeypatch.setenv("SHIFTUNE_DATA", "")
    (folder / "file").write_text("not a folder")
    assert message in run(*args, code=2).stderr
