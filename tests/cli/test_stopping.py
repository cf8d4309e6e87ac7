"""Ctrl-C at any moment: exit code 130, no traceback, no process left, and the run can go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from faults.started import HANG_SECONDS, MARK, orphans

CHILD = Path(__file__).with_name("interrupted_command.py")
ASKED = ["--site", "ward", "--target", "A", "--label", "cost", "--model", "ridge"]
FILES = ("best.json", "model.skops", "predictions.csv", "report.html", "trials.csv")
# A limit so long that it only decides where trials run: in processes of their own.
PROCESSES = ["--trial-timeout", 1e6]
GO_ON = "rerun the command to continue"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals to a group")


@pytest.fixture
def table(visits, folder):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    return folder


def interrupted(moment, *arguments, how="once"):
    """Run a command that is interrupted; return what it printed to stderr."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, str(CHILD), moment, how, *map(str, arguments)],
            env={**os.environ, MARK: str(Path.cwd())},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        code = process.wait()
        left = orphans(Path.cwd(), HANG_SECONDS)
        errors.seek(0)
        printed = errors.read()
    assert code == 130, printed
    assert "Traceback" not in printed
    assert "KeyboardInterrupt" not in printed
    assert left == 0
    return printed


# Each costs the start of a process; sweep_interrupts.py tries many more.
MOMENTS = [
    ("typer", 1),
    ("shiftune.tables._files:TableFile.read", 1),
    ("shiftune.search._loop:Loop._tell:2", 1),
    pytest.param("shiftune.search._loop:TrialWorkers.result:2", 2, marks=pytest.mark.slow),
    pytest.param("shiftune.report._page:page", 1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("moment", "jobs"), MOMENTS)
@pytest.mark.slow
def test_the_same_command_completes_the_result(table, tune, moment, jobs):
    arguments = ["tune", "visits.csv", *ASKED, "--trials", 4, "--jobs", jobs, *PROCESSES]
    printed = interrupted(moment, *arguments, "--out", "run")
    begun = (table / "run" / "settings.json").exists()
    assert (GO_ON in printed) == begun
    tune("visits.csv", "--out", "run", "--jobs", jobs, *PROCESSES, trials=4)
    assert set(FILES) <= {path.name for path in (table / "run").iterdir()}
    if jobs > 1:
        assert pd.read_csv("run/trials.csv")["state"].to_list() == ["COMPLETE"] * 4
        return  # that they are the same ones is tested in tests/search
    tune("visits.csv", "--out", "whole", trials=4)
    names = {path.name for path in (table / "whole").iterdir()}
    assert {path.name for path in (table / "run").iterdir()} == names
    one, other = (pd.read_csv(f"{name}/trials.csv") for name in ("run", "whole"))
    pd.testing.assert_frame_equal(one.drop(columns="seconds"), other.drop(columns="seconds"))
    for name in ("best.json", "predictions.csv"):
        assert (table / "run" / name).read_text() == (table / "whole" / name).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stuck", "twice"])
def test_compiled_code_does_not_hold_it_up(table, monkeypatch, how):
    """Nor is anything left in the temporary folder."""
    temporary = table / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    arguments = [
        "tune",
        "visits.csv",
        *ASKED,
        "--trials",
        9,
        "--jobs",
        2,
        *PROCESSES,
        "--out",
        "run",
    ]
    printed = interrupted("shiftune.search._loop:TrialWorkers.result:2", *arguments, how=how)
    assert GO_ON in printed
    assert list(temporary.glob("shiftune-*")) == []
    assert (table / "run" / "study.journal").exists()


@pytest.mark.parametrize(
    ("moment", "arguments"),
    [
        ("shiftune.search._trial:run_piece", ["demo", "--trials", "1"]),
        ("shiftune.ratio._overlap:overlap", ["diagnose", "visits.csv", *ASKED[:4]]),
    ],
)
@pytest.mark.slow
def test_other_commands_end_after_one(table, moment, arguments):
    assert interrupted(moment, *arguments).splitlines()[-1] == "stopped"


@pytest.mark.slow
def test_an_update_that_is_stopped_is_made_by_the_same_command(table, visits, run, tune):
    visits.loc[200:, "ward"] = "D"  # it needs three sources
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    tune("visits.csv", "--out", "run")
    visits.assign(row=visits.index)[["row", "cost"]][:20].to_csv("labels.csv", index=False)
    printed = interrupted("shiftune.cli._folder:save_model", "update", "run", "labels.csv")
    assert printed.splitlines()[-1] == "stopped"
    assert not (table / "run" / "updates" / "1" / "update.json").exists()
    run("update", "run", "labels.csv")
    assert (table / "run" / "updates" / "1" / "update.json").exists()


@pytest.mark.slow
def test_a_plan_that_is_stopped_leaves_no_file(tuned):
    moment = "shiftune.cli._update:_plan"
    printed = interrupted(moment, "label-plan", "run", "--n", 5)
    assert printed.splitlines()[-1] == "stopped"
    assert not list(tuned.glob("*run-labels.csv"))


@pytest.mark.parametrize(
    "lost",
    [
        "trials.csv",
        pytest.param("model.skops", marks=pytest.mark.slow),
        pytest.param("predictions.csv", marks=pytest.mark.slow),
        "report.html",
    ],
)
def test_a_file_that_is_missing_comes_back_without_new_trials(tuned, tune, lost):
    names = {path.name for path in (tuned / "run").iterdir()}
    trials = (tuned / "run" / "trials.csv").read_bytes()
    (tuned / "run" / lost).unlink()
    assert "2 trials, 2 of them done" in tune("visits.csv", "--out", "run", trials=2).output
    assert (tuned / "run" / "trials.csv").read_bytes() == trials
    assert {path.name for path in (tuned / "run").iterdir()} == names
    journal = (tuned / "run" / "study.journal").read_text()
    assert journal.count("datetime_complete") == 2


@pytest.mark.slow
def test_files_of_fewer_trials_are_never_mixed_with_those_of_more(tuned, tune, monkeypatch):
    """Stopped while the files of four trials replace those of two."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shiftune.search.ShiftSearch.report", stop)
        tune("visits.csv", "--out", "run", trials=4, code=130)
    assert not (tuned / "run" / "best.json").exists()
    tune("visits.csv", "--out", "run", trials=2)
    assert json.loads((tuned / "run" / "best.json").read_text())["trials"]["finished"] == 4
    assert len(pd.read_csv("run/trials.csv")) == 4


@pytest.mark.slow
def test_a_result_of_the_trials_so_far(table, run):
    interrupted(
        "shiftune.search._loop:Loop._tell:3",
        "tune",
        "visits.csv",
        *ASKED,
        "--trials",
        50,
        "--out",
        "run",
    )
    assert "report.html" in run("report", "run").output
    assert json.loads((table / "run" / "best.json").read_text())["trials"]["finished"] == 3
    assert (table / "run" / "report.html").exists()


def test_the_first_file_was_half_written(table, tune):
    (table / "run").mkdir()
    (table / "run" / ".part-settings.json").write_text("{")
    tune("visits.csv", "--out", "run")
    assert not (table / "run" / ".part-settings.json").exists()


def test_ctrl_c_before_there_is_a_handler():
    code = """
        import runpy, signal, sys

        class Interrupting:
            @staticmethod
            def find_spec(name, *_):
                if name == "shiftune._interrupts":
                    signal.raise_signal(signal.SIGINT)

        sys.meta_path.insert(0, Interrupting)
        runpy.run_module("shiftune", run_name="__main__")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")
