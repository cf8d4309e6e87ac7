"""Ordinary mistakes: a message that says what to do, exit code 2, nothing written."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import ExitStack

import numpy as np
import pytest

from shiftune.cli import _tune
from shiftune.cli._folder import ResultFolder
from shiftune.errors import NoWorkersError
from shiftune.models import _storing
from shiftune.search._journal import search_lock


@pytest.fixture
def table(visits, folder):
    visits.drop(columns="ill").to_csv("visits.csv", index=False)
    return folder


def flat(done):
    return " ".join(done.output.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--site", "Ward"], "there is no column 'Ward'; did you mean 'ward'?"),
        (["--label", "costs"], "there is no column 'costs'; did you mean 'cost'?"),
        (["--target", "a"], "there is no site 'a'; did you mean 'A'?"),
        (["--model", "lihgtgbm"], "there is no model 'lihgtgbm'; did you mean 'lightgbm'?"),
        (["--model", "svm", "--model", "svm"], "the model 'svm' is given twice"),
        (["--model", "svm,knn"], "takes one name at a time; repeat it: --model svm --model knn"),
        (["--model", "logistic"], "is for classification, not for regression"),
        (["--risk", "variance-reduced"], "did you mean 'variance_reduced'?"),
        (["--risk", "oracle"], "needs a problem whose target labels are kept aside"),
        (["--loss", "sqared"], "did you mean 'squared'?"),
        (["--loss", "brier_score"], "the loss 'brier_score' is for classes, and the labels are"),
        (["--loss", "r2"], "use loss='squared'"),
        (["--loss", "log_loss"], "choose from squared, half_squared, absolute, pinball"),
        (["--date-format", "%Q"], "'%Q' is not a date format ('Q' is a bad directive"),
        (["--date-format", "%d%d"], "formats look like %d/%m/%Y"),
        (["--task", "classification"], "different numbers, too many"),
        (["--ratio", "magic"], "magic"),
        (["--trials", "0"], "--trials must be a whole number > 0, got 0"),
        (["--jobs", "0"], "--jobs must be a number of processes, or -1 for one per core, got 0"),
        (["--seed", "-1"], "--seed must be a whole number >= 0, got -1"),
        (["--timeout", "0"], "--timeout must be > 0 seconds, got 0"),
        (["--trial-timeout", "-1"], "--trial-timeout must be > 0 seconds, got -1"),
        (["--most-rows", "20"], "a draw of 20 rows leaves 6 of each of 3 sites; allow at least 30"),
        (["--keep", "aeg"], "did you mean 'age'?"),
        (["--drop", "ward"], "column 'ward' is the site"),
        (["--keep", "age", "--drop", "age"], "is to be kept, and to be left out"),
        (["--label", "ward"], "site and label are both 'ward'"),
        (["--space", "no.toml"], "no.toml cannot be read"),
        (["--drop", "age", "--drop", "smoker", "--drop", "bmi"], "no column is left"),
        (["--out", "visits.csv"], "is a file, not a folder"),
        (["--out", "visits.csv/run"], "give another folder with --out"),
    ],
)
def test_options(table, run, options, message):
    before = sorted(os.listdir())
    usual = ["--site", "ward", "--target", "A", "--label", "cost", "--model", "ridge"]
    done = run("tune", "visits.csv", *usual, "--trials", 2, *options, code=2)
    assert message in flat(done)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "is empty"),
        ("blank.csv", b"\n\n", "is empty"),
        ("header.csv", b"ward,age,cost\n", "has column names but no rows"),
        ("prose.csv", b"Dear all,\nhere is, as promised, the, table.\n", "cannot be read as CSV"),
        ("line.csv", b"only one column\n1\n2\n", "only one column"),
        ("picture.csv", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x81\x8d", "is not a table"),
        ("zeros.csv", b"\x00" * 50, "is not a table"),
        ("not.csv.gz", b"ward,age,cost\nA,1,2\n", "cannot be read"),
        ("torn.csv.gz", gzip.compress(b"ward,age,cost\n" * 999)[:40], "cannot be read"),
        ("not.parquet", b"ward,age,cost\nA,1,2\n", "cannot be read as parquet"),
        ("table.xlsx", b"PK", "cannot be read as xlsx"),
        ("visit.csv", None, "did you mean visits.csv?"),
        (".", None, "is a folder without Parquet files; give a file in it, or all files: '*.csv'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files(table, tune, name, content, message):
    if content is not None:
        (table / name).write_bytes(content)
    before = sorted(os.listdir())
    assert message in flat(tune(name, code=2))
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("role", ["site", "label", "subject"])
@pytest.mark.parametrize("most_rows", [100, 1000])
def test_columns_that_are_neither_numbers_nor_text(visits, folder, run, role, most_rows):
    roles = {"site": "ward", "label": "ill"} | {role: "visit"}
    options = [f"--{name}={column}" for name, column in roles.items()]
    visits.assign(visit=[{"a": k} for k in range(len(visits))]).to_parquet("v.parquet")
    size = [] if role == "subject" else ["--most-rows", most_rows]
    done = run("diagnose", "v.parquet", *options, "--target", "A", *size, code=2)
    assert f"the {role} 'visit' holds values of type dict; give a column of" in flat(done)


@pytest.mark.parametrize("name", ["ward", "cost"])
@pytest.mark.parametrize("most_rows", [100, 1000])
def test_columns_with_the_same_name(table, tune, name, most_rows):
    text = (table / "visits.csv").read_text()
    (table / "two.csv").write_text(text.replace("age", f" {name}", 1))
    message = flat(tune("two.csv", "--most-rows", most_rows, code=2))
    assert f"two.csv has 2 columns named {name!r}; rename all but the one that is meant" in message
    (table / "two.csv").write_text(text.replace("age", "bmi", 1))
    tune("two.csv", "--out", "run")


def test_a_loss_of_quantities_for_classes(visits, folder, run):
    visits.to_csv("visits.csv", index=False)
    usual = ["--site", "ward", "--target", "A", "--label", "ill", "--drop", "cost"]
    message = flat(run("tune", "visits.csv", *usual, "--loss", "rmse", code=2))
    assert "the loss 'rmse' is for quantities, and the labels are classes" in message
    assert "choose from log_loss, brier, zero_one" in message
    assert "squared" not in message


def test_label_missing_in_a_source(visits, folder, tune):
    visits.loc[[90, 95, 100], "cost"] = np.nan
    visits.to_csv("visits.csv", index=False)
    message = flat(tune("visits.csv", "--drop", "ill", code=2))
    assert "site 'B': the label 'cost' is missing in 3 of 80 rows" in message
    assert "--drop-unlabelled" in message
    assert sorted(os.listdir()) == ["visits.csv"]
    message = tune("visits.csv", "--drop", "ill", "--drop-unlabelled").output
    assert "3 rows without label are left out: 3 of 'B'" in message


def test_a_site_without_any_label(visits, folder, tune):
    visits.loc[visits["ward"] == "B", "cost"] = np.nan
    visits.to_csv("visits.csv", index=False)
    assert "missing in 80 of 80 rows" in flat(tune("visits.csv", code=2))
    assert "80 of 'B'" in tune("visits.csv", "--drop-unlabelled").output
    visits.assign(cost=np.nan).to_csv("none.csv", index=False)
    assert "all rows of all sources" in flat(tune("none.csv", "--drop-unlabelled", code=2))


def test_text_among_the_labels(visits, folder, tune):
    visits["cost"] = visits["cost"].astype(object)
    visits.loc[100, "cost"] = "ask Bob"
    visits.to_csv("visits.csv", index=False)
    assert "but text in 1 row(s): 'ask Bob'" in flat(tune("visits.csv", code=2))


def test_labels_too_large_to_square(visits, folder, tune):
    visits.drop(columns="ill").assign(cost=visits["cost"] * 1e100).to_csv("visits.csv", index=False)
    message = flat(tune("visits.csv", "--out", "run", code=2))
    assert "the labels are numbers of up to 2e+102, whose squared loss is too large" in message
    assert not (folder / "run").exists()


def test_a_folder_of_other_data(visits, tuned, tune):
    kept = {path: path.read_bytes() for path in (tuned / "run").rglob("*.*") if path.is_file()}
    visits.drop(columns="ill").iloc[:-1].to_csv("fewer.csv", index=False)
    message = flat(tune("fewer.csv", "--out", "run", code=2))
    assert "holds results of other settings (other data)" in message
    message = flat(tune("visits.csv", "--out", "run", "--seed", 1, code=2))
    assert "(seed: 0, now 1)" in message
    message = flat(tune("visits.csv", "--out", "run", "--drop", "bmi", code=2))
    assert "(drop: none, now 'bmi')" in message
    message = flat(tune("fewer.csv", "--out", "run", "--seed", 1, code=2))
    assert "(seed: 0, now 1; other data)" in message
    assert kept == {path: path.read_bytes() for path in kept}
    assert len(list((tuned / "run").rglob("*"))) == len(kept) + 1


def test_a_folder_of_somebody_else(table, tune, run):
    (table / "thesis").mkdir()
    (table / "thesis" / "report.html").write_text("mine")
    assert "holds no result of shiftune" in flat(tune("visits.csv", "--out", "thesis", code=2))
    assert (table / "thesis" / "report.html").read_text() == "mine"
    assert "holds no result of shiftune" in flat(run("report", "thesis", code=2))
    assert "holds no result of shiftune" in flat(run("report", "nowhere", code=2))


def test_a_damaged_folder(tuned, tune, run):
    (tuned / "run" / "settings.json").write_text("{")
    assert "cannot be read" in flat(run("report", "run", code=2))
    (tuned / "run" / "settings.json").write_text("{}")
    assert "is damaged" in flat(tune("visits.csv", "--out", "run", code=2))


def test_the_files_of_another_search_are_left_alone(table, tune, monkeypatch):
    """Another run of the same command has begun its search a moment earlier."""
    pytest.importorskip("fcntl", reason="locks of the kernel")
    journal = table / "run" / "study.journal"
    with ExitStack() as other:

        def begin(*args, begin=_tune.begin):
            begin(*args)
            other.enter_context(search_lock(journal, join=False))

        monkeypatch.setattr(_tune, "begin", begin)
        message = flat(tune("visits.csv", "--out", "run", code=2))
        assert "another search is using the journal" in message
        assert (table / "run" / "settings.json").exists()


def test_no_permission(table, tune, monkeypatch):
    """As the superuser may write anywhere, the refusal is played."""

    def refuse(self, *args, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    message = flat(tune("visits.csv", "--out", "run", code=2))
    assert "results cannot be written to run (Permission denied); fix this, then rerun" in message


def test_nothing_is_half_written(table, tune, monkeypatch):
    """A disk that fills up while the model is written leaves no torn file, and the run goes on."""

    def full(model, stem, mark):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("shiftune.cli._tune.save_model", full)
        assert "No space left" in flat(tune("visits.csv", "--out", "run", code=2))
    names = set(os.listdir("run"))
    assert names == {
        "study.journal",
        "study.journal.predictions",
        "settings.json",
        "settings.toml",
        "trials.csv",
    }
    tune("visits.csv", "--out", "run")
    assert json.loads((table / "run" / "best.json").read_text())["trials"]["finished"] == 2


def test_a_first_run_that_failed_is_discarded(table):
    predictions = table / "run" / "study.journal.predictions"
    predictions.mkdir(parents=True)
    for path in (table / "run" / "settings.json", predictions / "0.npz"):
        path.touch()
    (table / "run" / "thesis.txt").touch()
    ResultFolder(table / "run").discard()
    assert os.listdir("run") == ["thesis.txt"]
    (table / "run" / "thesis.txt").unlink()
    ResultFolder(table / "run").discard()
    assert not (table / "run").exists()


def test_finished_trials_outlive_an_error(table, tune, monkeypatch):
    def no_workers(self):
        raise NoWorkersError("workers cannot be started; what is finished is kept")

    with monkeypatch.context() as patched:
        patched.setattr("shiftune.search.ShiftSearch.refit", no_workers)
        assert "is kept" in flat(tune("visits.csv", "--out", "run", code=2))
    assert ResultFolder(table / "run").finished() == 2


def test_all_trials_of_a_space_fail(table, tune):
    """The first trial, with the default parameters, is the final model."""
    (table / "s.toml").write_text('alpha = { low = 1.0, high = 2.0 }\nsolver = ["no such"]')
    message = flat(tune("visits.csv", "--out", "run", "--space", "s.toml"))
    assert "1 of 2 trials failed (the first: InvalidParameterError: The 'solver'" in message
    assert "correct the model or its space" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alpha = 1 to 2", "is not valid TOML"),
        ("", "is empty; write one parameter per line"),
        (
            "alhpa = { low = 1, high = 2 }",
            "'alhpa' is not a parameter of Ridge; did you mean 'alpha'",
        ),
        ("alpha = { low = 2, high = 1 }", "low (2) is above high (1)"),
        ("alpha = { low = 0, high = 1, log = true }", "a log scale needs it above 0"),
        ("alpha = { low = 0, hihg = 1 }", "did you mean 'high'?"),
        ("alpha = { low = 0 }", "needs low and high"),
        ('alpha = { low = "a", high = 1 }', "must be numbers"),
        ("alpha = { low = 1, high = 2, log = 1 }", "log must be true or false"),
        ("alpha = []", "neither a range"),
        ("alpha = [[1, 2]]", "neither a range"),
        ("alpha = { low = 1, high = 2, step = 0.5, log = true }", "step"),
    ],
)
def test_space_files(table, tune, text, message):
    (table / "s.toml").write_text(text)
    assert message in flat(tune("visits.csv", "--space", "s.toml", code=2))
    assert not (table / "visits-A-ridge").exists()


def test_a_space_in_a_foreign_form(table, tune):
    (table / "s.json").write_text("[1]")
    assert "names of parameters" in flat(tune("visits.csv", "--space", "s.json", code=2))
    (table / "s.yaml").write_text("alpha: 1")
    assert "must be a .toml or .json file" in flat(tune("visits.csv", "--space", "s.yaml", code=2))


def test_packages_that_are_not_there(table, visits, tune, monkeypatch):
    def missing(name):
        raise ImportError(name, name="lightgbm")

    visits.to_parquet("visits.parquet")
    monkeypatch.setattr("shiftune.models._by_name.import_module", missing)
    message = flat(tune("visits.csv", model="lightgbm", code=2))
    assert "pip install '.[lightgbm]'" in message
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    message = flat(tune("visits.parquet", code=2))
    assert "pip install '.[parquet]'" in message


def test_a_model_that_skops_cannot_store(table, tune, monkeypatch):
    """It is pickled, and the user is told what that means."""
    import skops.io

    def fail(model):
        raise TypeError("no way")

    monkeypatch.setattr(skops.io, "dumps", fail)
    message = flat(tune("visits.csv", "--out", "run"))
    assert "loading the model executes code" in message
    assert (table / "run" / f"model{_storing.PICKLED}").exists()
    assert not (table / "run" / "model.skops").exists()
