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
from shiftune.cli._folder import safe_text

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

    monkeypatch.setattr("shiftune.cli._tune.check_folder", full)
    message = call(COMMAND, code=2)
    assert "a file cannot be read or written (No space left on device: somewhere); fix" in message


# ---------------------------------------------------------------- damaged files


def first_half(text):
    return text[: len(text) // 2]


def without(name):
    return lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != name})


def with_value(name, value):
    return lambda text: json.dumps(json.loads(text) | {name: value})


DAMAGES = {
    "empty": lambda text: "",
    "half": first_half,
    "no JSON": lambda text: "damaged",
    "no UTF-8": lambda text: "\udcff" + text,
    "null": lambda text: "null",
    "a list": lambda text: "[1, 2]",
    "too deep": lambda text: "[" * 100_000,
    "one digit": lambda text: text.replace("3", "4"),
    "a newer version": with_value("format", 1_000),
    "an older version": with_value("format", 1),
    "a format in words": with_value("format", "three"),
}
OF_SETTINGS = {
    "options missing": without("options"),
    "options of another type": with_value("options", [1]),
    "runs of another type": with_value("runs", 3),
    "a number for a file": with_value("file", 3),
}
OF_BEST = {
    "trials missing": without("trials"),
    "trials in words": with_value("trials", "three"),
    "risk of another type": with_value("risk", None),
    "no verdict": without("verdict"),
    "a number for a file": with_value("model_file", 3),
}


@pytest.mark.parametrize("command", [COMMAND, "report run", "predict run visits.csv"])
@pytest.mark.parametrize(("name", "own"), [("settings.json", OF_SETTINGS), ("best.json", OF_BEST)])
def test_a_damaged_file(result, name, own, command):
    path = result / name
    whole = path.read_text()
    for damage in (DAMAGES | own).values():
        damaged = damage(whole)
        path.write_text(damaged, errors="surrogateescape")
        assert name in call(command, code=2)
        assert path.read_text(errors="surrogateescape") == damaged


def test_a_damaged_result_comes_back_from_its_trials(result):
    path = result / "best.json"
    best = json.loads(path.read_text())
    path.write_text("damaged")
    assert "remove it and run the same shiftune tune again" in call(COMMAND, code=2)
    path.unlink()
    call(COMMAND)
    assert json.loads(path.read_text()) == best


# ---------------------------------------------------------------- other people


def test_nothing_is_written_through_links(result, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    links = [result / f".part-{name}" for name in ("best.json", "trials.csv", "model.skops")]
    for link in links:
        link.symlink_to(mine)
    (result / "best.json").unlink()
    call(COMMAND)
    assert mine.read_text() == "mine"
    assert not any(link.is_symlink() for link in links)


def test_folders_with_data_are_private(result, tmp_path):
    shutil.rmtree(result)
    call(COMMAND)
    for folder in (result, result / "study.journal.predictions"):
        assert folder.stat().st_mode & 0o077 == 0


# ---------------------------------------------------------------- text that is more than text

FORMULA, NOISY = "=cmd|' /C calc'!A0", "C\x1b[31m\x07"


@pytest.mark.parametrize("sign", list("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"))
def test_signs_that_begin_a_formula(sign):
    assert safe_text(f"{sign}SUM(A1)") == f"'{sign}SUM(A1)"


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A table with formulas as identifiers, and escape codes in names of sites and columns."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"ward": np.repeat(["A", "B", NOISY, "D"], 30), "age": rng.normal(50, 8, 120)}
    )
    table["bmi\x1b]0;title\x07"] = rng.normal(25, 3, 120)
    table["case"] = [f"{FORMULA}{i}" for i in range(120)]
    table["visit"] = [f"-{i}" for i in range(120)]
    table["cost"] = 3 * table["age"] + rng.normal(size=120)
    table.to_csv(tmp_path / "visits.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shiftune.report, "save_report", lambda result, path, **_: path.touch())
    return tmp_path


def test_text_from_a_table(strange):
    command = f"{COMMAND} --id case --id visit"
    shown = call(command)
    assert not {"\x1b", "\x07"} & set(shown)
    assert r"C\x1b[31m" in shown
    assert "text in 'case' begins like a formula of a spreadsheet" in shown
    written = pd.read_csv("run/predictions.csv", dtype=str)
    assert written["case"][0] == f"'{FORMULA}0"
    assert written["visit"][1] == "-1"
    names = pd.read_csv("run/trials.csv", nrows=0).columns
    assert not [name for name in names if name.startswith(("=", "+", "-", "@"))]

    call("predict run visits.csv --out new.csv")
    call("predict run visits.csv --out raw.csv --no-safe-csv")
    assert pd.read_csv("new.csv")["case"][3] == f"'{FORMULA}3"
    assert pd.read_csv("raw.csv")["case"][3] == f"{FORMULA}3"

    labels = pd.DataFrame({"row": range(10), "cost": np.arange(140.0, 160.0, 2.0)})
    labels.to_csv("labels.csv", index=False)
    call("update run labels.csv")  # the stored predictions are those of the stored model
    assert pd.read_csv("run/updates/1/predictions.csv")["case"][0] == f"'{FORMULA}0"

    call(f"{command} --no-safe-csv")
    assert pd.read_csv("run/predictions.csv")["case"][0] == f"{FORMULA}0"


def test_errors_show_codes(strange):
    message = call(COMMAND.replace("--target A", "--target C\x1b[31m"), code=2)
    assert "\x1b" not in message
