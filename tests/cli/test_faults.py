"""Fault table of result folders: a sentence and exit code 2, never a traceback, nothing lost."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import shiftune.report
from shiftune.cli import app

COMMAND = "tune visits.csv --site ward --target A --label cost --model ridge --trials 3 --out run"


def call(command, code=0):
    done = CliRunner().invoke(app, command.split())
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Folder with a table and its result."""
    folder = tmp_path_factory.mktemp("finished")
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"ward": np.repeat(["A", "B", "C"], 30), "age": rng.normal(50, 8, 90)})
    table["cost"] = 3 * table["age"] + rng.normal(size=90)
    table.to_csv(folder / "visits.csv", index=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shiftune.report, "save_report", lambda result, path, **_: path.touch())
        patched.chdir(folder)
        call(COMMAND)
    return folder


@pytest.fixture
def result(finished, tmp_path, monkeypatch):
    """A copy of the result, in a working folder of its own."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shiftune.report, "save_report", lambda result, path, **_: path.touch())
    return tmp_path / "run"


def test_a_finished_result_is_only_shown(result):
    before = {path.name: path.stat().st_mtime_ns for path in result.iterdir()}
    call(COMMAND)
    assert {path.name: path.stat().st_mtime_ns for path in result.iterdir()} == before


@pytest.mark.parametrize(("left", "trials"), [(None, 0), (0.5, 1)])
def test_a_journal_that_has_lost_trials(result, left, trials):
    journal, best = result / "study.journal", json.loads((result / "best.json").read_text())
    content = journal.read_bytes()
    journal.unlink()
    if left is not None:
        lines = content.splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[: int(left * len(lines))]))
    lost = f"study.journal holds {trials} of the 3 trials of this result"
    assert f"{lost}, because it was deleted, cut or damaged; run this first" in call(
        "report run", code=2
    )
    assert f"{lost}, because it was deleted, cut or damaged; the others run again" in call(COMMAND)
    again = json.loads((result / "best.json").read_text())
    assert (again["risk"], again["params"]) == (best["risk"], best["params"])


def test_a_disk_that_is_full_where_nobody_expected_it(result, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("shiftune.cli.folder.ResultFolder.check", full)
    message = call(COMMAND, code=2)
    assert "a file cannot be read or written (No space left on device: somewhere); put" in message
