"""`shiftune update`: labels of some rows of the target update a finished result."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from shiftune import load_model
from shiftune._files import atomic_write
from shiftune._wording import listed
from shiftune.cli import app
from shiftune.cli._folder import ResultFolder, read_json, write_json
from shiftune.cli._options import TuneOptions
from shiftune.cli._tune import prepare_job, reopened
from shiftune.cli._update import _half_a_digit, check_rows, read_labels
from shiftune.columns import Columns
from shiftune.effects import SiteEffects
from shiftune.errors import ProblemError
from shiftune.problem._site import Site
from shiftune.search._journal import search_lock
from shiftune.tables import SiteFiles

TARGET_ROWS = range(80, 120)  # of site C, in the middle of the file


def wards() -> pd.DataFrame:
    """Six wards, each with costs of its own level; C's lie 30 above the others'."""
    rng = np.random.default_rng(3)
    n, names = 40, "ABCDEF"
    level = dict(zip(names, [0, 8, 30, -8, 5, -5], strict=True))
    ward = np.repeat(list(names), n)
    age = rng.normal(50, 8, len(ward)).round(1)
    df = pd.DataFrame({"case": [f"{k:05}" for k in rng.permutation(9999)[: len(ward)]]})
    df = df.assign(ward=ward, age=age, bmi=rng.normal(25, 3, len(ward)).round(1))
    own = df["ward"].map(level)
    df["cost"] = (3 * age + own + rng.normal(0, 5, len(ward))).round(2)
    chance = 1 / (1 + np.exp(-(age - 50) / 8 - own / 3))
    df["ill"] = np.where(rng.random(len(ward)) < chance, "yes", "no")
    return df


def tune(label, model, *options, table="wards.csv", trials=2, out="run", code=0):
    args = ["tune", table, "--site", "ward", "--target", "C", "--label", label, "--model", model]
    done = CliRunner().invoke(app, [*args, "--trials", str(trials), "--out", out, *options])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def finished(finished_runs):
    """Folders of two finished runs, of a quantity and of classes."""
    return finished_runs(wards())


@pytest.fixture
def wards_run(finished, folder, monkeypatch):
    """A working folder with copies of the runs; reports are not written."""
    monkeypatch.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
    for name in ("cost", "ill"):
        shutil.copytree(finished / name, folder / name)
        shutil.copy(finished / f"{name}.csv", folder)
    return folder


@pytest.fixture(scope="module")
def read_again(finished):
    """Jobs of the finished runs."""
    return {name: reopened(ResultFolder(finished / name)) for name in ("cost", "ill")}


@pytest.fixture
def jobs(read_again, folder):
    return read_again


def refused(labels, job, message):
    """The command reads labels in this way before it does anything else with them."""
    labels.to_csv("labels.csv", index=False)
    with pytest.raises(ProblemError, match=re.escape(message)):
        read_labels(Path("labels.csv"), job)


def labels_of(rows, label="cost", *, by="row"):
    df = wards().assign(row=range(240))
    return df.loc[list(rows), [by, label]]


def give(rows, path="labels.csv", **options):
    labels_of(rows, **options).to_csv(path, index=False)


def flat(done):
    return " ".join(done.output.split())


def files(path):
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in path.rglob("*")
        if file.is_file() and "updates" not in file.parts
    }


def record(folder, number=1, run="cost"):
    return json.loads((folder / run / "updates" / str(number) / "update.json").read_text())


def test_labels_update_the_model(wards_run, run):
    before = files(wards_run / "cost")
    give(range(80, 95))
    output = flat(run("update", "cost", "labels.csv"))
    assert files(wards_run / "cost") == before
    found = record(wards_run)
    assert found["labels"] == found["new_labels"] == 15
    assert found["before"]["value"] > found["after"]["value"]
    assert found["gain"]["value"] == pytest.approx(
        found["before"]["value"] - found["after"]["value"]
    )
    assert found["shift"][0]["mean"] == pytest.approx(30, abs=6)
    assert [term["term"] for term in found["effect"]] == ["intercept", "slope"]
    assert found["of_trials"] == 2
    assert "predictions of C are raised by" in output
    for fact in (
        "Labels of C 15",
        "Expected squared error without labels",
        "RMSE with labels",
        "Gain",
    ):
        assert fact in output

    state = wards_run / "cost" / "updates" / "1"
    df = wards()
    predictions = pd.read_csv(state / "predictions.csv", dtype={"case": str})
    assert list(predictions) == ["case", "row", "label_used", "prediction"]
    assert predictions["row"].to_list() == list(TARGET_ROWS)
    assert predictions["label_used"].sum() == 15
    model = load_model(state / "model.skops")
    own = df.drop(columns="ill").iloc[list(TARGET_ROWS)]
    assert predictions["prediction"].to_numpy() == pytest.approx(model.predict(own))
    earlier = pd.read_csv("cost/predictions.csv")["prediction"]
    errors = [
        np.abs(own["cost"].to_numpy() - each).mean()
        for each in (earlier, predictions["prediction"])
    ]
    assert errors[1] < errors[0] / 2


def test_what_the_labels_say_about_the_first_estimate(wards_run, run):
    give(range(80, 100))
    assert "it was too low" in flat(run("update", "cost", "labels.csv"))
    first = record(wards_run)["first_estimate"]
    best = json.loads((wards_run / "cost" / "best.json").read_text())
    assert {name: first[name] for name in best["risk"]} == best["risk"]
    predictions = pd.read_csv("cost/predictions.csv").set_index("row")["prediction"]
    own = wards()["cost"].iloc[80:100]
    assert first["mean_loss"]["value"] == pytest.approx(
        ((own - predictions[own.index]) ** 2).mean()
    )
    assert first["agrees"] is False
    shutil.rmtree("cost/updates")
    labels_of([80]).assign(cost=predictions[80]).to_csv("one.csv", index=False)
    assert "a single label cannot confirm it" in flat(run("update", "cost", "one.csv"))


def test_classes(wards_run, run):
    give(TARGET_ROWS, label="ill", by="case")
    output = flat(run("update", "ill", "labels.csv"))
    assert "the predicted odds of 'yes' at C are" in output
    found = record(wards_run, run="ill")
    assert [each["class"] for each in found["shift"]] == ["yes"]
    assert found["shift"][0]["mean"] > 0
    predictions = pd.read_csv("ill/updates/1/predictions.csv")
    assert {"probability_no", "probability_yes"} < set(predictions)


@pytest.mark.slow
def test_two_states(wards_run, run):
    """The second has all labels, in whatever steps they came."""
    give(range(80, 90))
    give(range(85, 100), "more.csv", by="case")
    run("update", "cost", "labels.csv")
    first = files(wards_run / "cost" / "updates" / "1")
    output = flat(run("update", "cost", "more.csv"))
    assert "Labels of C 20, 10 of them new" in output
    assert files(wards_run / "cost" / "updates" / "1") == first
    labels = pd.read_csv("cost/updates/2/labels.csv", dtype={"case": str})
    assert labels["row"].to_list() == list(range(80, 100))
    pd.testing.assert_series_equal(
        labels["cost"], wards()["cost"].iloc[80:100].reset_index(drop=True)
    )
    second = record(wards_run, 2)
    shutil.rmtree("cost/updates")
    give(range(80, 100))
    run("update", "cost", "labels.csv")
    assert record(wards_run)["after"] == second["after"]


@pytest.fixture(scope="module")
def first_update(finished, tmp_path_factory):
    """The folder cost/updates after labels of ten rows."""
    path = tmp_path_factory.mktemp("updated")
    shutil.copytree(finished / "cost", path / "cost")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(path)
        patched.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
        give(range(80, 90))
        done = CliRunner().invoke(app, ["update", "cost", "labels.csv"])
    assert done.exit_code == 0, done.output
    return path / "cost" / "updates"


@pytest.fixture
def updated(wards_run, first_update):
    """A working folder in which labels.csv, with the labels of ten rows, has updated cost once."""
    shutil.copytree(first_update, wards_run / "cost" / "updates")
    give(range(80, 90))
    return wards_run


def test_a_label_that_is_given_again_replaces_the_earlier_one(updated, run):
    labels_of([83]).assign(cost=200.0).to_csv("corrected.csv", index=False)
    assert "new labels replace those of row 83" in flat(run("update", "cost", "corrected.csv"))
    assert pd.read_csv("cost/updates/2/labels.csv").set_index("row")["cost"][83] == 200
    assert record(updated, 2)["replaced_labels"] == 1


def test_the_same_labels_again_change_nothing(updated, run):
    assert "update 1 has all labels of labels.csv already" in flat(
        run("update", "cost", "labels.csv")
    )
    assert not (updated / "cost" / "updates" / "2").exists()


def test_states_are_listed(updated, run):
    assert "ill has no updates; shiftune label-plan ill" in flat(run("update", "ill"))
    give(range(90, 95), "more.csv")
    given = json.loads(run("update", "cost", "more.csv", "--json").stdout)
    assert given["folder"] == "cost/updates/2"
    listed = json.loads(run("update", "cost", "--json").stdout)
    assert [state["labels"] for state in listed["updates"]] == [10, 15]
    assert listed["updates"][1] == {k: v for k, v in given.items() if k != "folder"}
    lines = run("update", "cost").output.splitlines()
    assert lines[0].split()[:2] == ["update", "labels"]
    assert [line.split()[:2] for line in lines[1:]] == [["1", "10"], ["2", "15"]]
    assert all(line.split()[-1] == "present" for line in lines[1:])


@pytest.mark.slow
def test_updates_of_an_earlier_model(updated, run, monkeypatch):
    monkeypatch.setattr(ResultFolder, "can_report", staticmethod(lambda: True))
    output = flat(run("report", "cost"))
    assert "1 10" in output
    assert "present Written to cost/report.html" in output
    report = updated / "cost" / "report.html"
    assert "update 1, current: True" in report.read_text()
    tune("cost", "ridge", table="cost.csv", out="cost", trials=6)
    assert "update 1, current: False" in report.read_text()
    output = flat(run("update", "cost"))
    assert "earlier, 2 trials" in output
    again = "cost/updates/1/labels.csv"
    assert f"for the present one: shiftune update cost {again}" in output
    run("update", "cost", again)
    listed = json.loads(run("update", "cost", "--json").stdout)["updates"]
    assert [(state["current"], state["of_trials"]) for state in listed] == [(False, 2), (True, 6)]


@pytest.mark.slow
def test_kills_between_two_files(wards_run, run, monkeypatch):
    """The state without its last file is noticed, and its number is used again."""
    give(range(80, 90))
    names = ["labels.csv", "predictions.csv", "model.skops", "update.json"]
    state = wards_run / "cost" / "updates" / "1"

    class Killed(BaseException):
        pass

    def kill(path, **_):
        if path.name == names[written]:
            raise Killed
        return atomic_write(path)

    for written in range(len(names)):  # each finds the files of the one before
        with monkeypatch.context() as patched:
            for module in ("cli._folder", "models._storing"):
                patched.setattr(f"shiftune.{module}.atomic_write", kill)
            with pytest.raises(Killed):
                run("update", "cost", "labels.csv")
        assert {path.name for path in state.iterdir()} == set(names[:written])
        output = flat(run("update", "cost"))
        assert "has no updates" in output
        assert "update 1 was not finished" in output
        assert json.loads(run("update", "cost", "--json").stdout)["unfinished"] == [1]
    (state / ".part-model.skops").write_text("half")
    output = flat(run("update", "cost", "labels.csv"))
    assert "cost/updates/1 was not finished, and is written again" in output
    assert {path.name for path in state.iterdir()} == set(names)
    assert run("update", "cost").output.count("\n") == 2


def test_files_of_the_user_are_kept(wards_run, run):
    """Also in a folder whose name is that of the next update."""
    state = wards_run / "cost" / "updates" / "1"
    state.mkdir(parents=True)
    labels_of(range(80, 90)).to_csv(state / "labels.csv", index=False)
    (state / "thesis.txt").write_text("mine")
    before = (state / "labels.csv").read_bytes()
    message = flat(run("update", "cost", "cost/updates/1/labels.csv", code=2))
    assert "labels.csv is in the folder that is written; move it elsewhere" in message
    assert (state / "labels.csv").read_bytes() == before
    labels_of(range(80, 90)).to_csv("labels.csv", index=False)
    run("update", "cost", "labels.csv")
    assert (state / "thesis.txt").read_text() == "mine"


# ---------------------------------------------------------------- which rows


def test_identifiers_as_spreadsheets_write_them(wards_run, run):
    """Without leading zeros; other columns and empty labels do no harm."""
    labels = labels_of(range(80, 100), by="case")
    labels["case"] = labels["case"].astype(int)
    labels.loc[90:, "cost"] = np.nan
    labels.assign(row="mine", remark="").to_csv("labels.csv", index=False, sep=";", decimal=",")
    run("update", "cost", "labels.csv")
    assert pd.read_csv("cost/updates/1/labels.csv")["row"].to_list() == list(range(80, 90))


@pytest.mark.slow
def test_identifiers_of_several_rows(wards_run, run):
    df = wards().drop(columns=["ill", "case"])
    df["patient_id"] = [f"P{k // 2}" for k in range(240)]
    df.assign(cost=df["cost"].where(df["ward"] != "C")).to_csv("visits.csv", index=False)
    tune("cost", "ridge", table="visits.csv", out="visits")
    labels = df.assign(row=range(240)).iloc[80:90][["patient_id", "row", "cost"]]
    labels.drop(columns="row").to_csv("labels.csv", index=False)
    output = flat(run("update", "visits", "labels.csv", code=2))
    assert "patient_id 'P40' in labels.csv may be any of the rows 80 and 81" in output
    assert "add a column 'row'" in output
    labels.to_csv("labels.csv", index=False)
    run("update", "visits", "labels.csv")
    labels.assign(row=labels["row"] + 2).to_csv("labels.csv", index=False)
    output = flat(run("update", "visits", "labels.csv", code=2))
    assert "no row with patient_id 'P40' and row 82" in output


def test_other_kinds_of_files(wards_run, run):
    pytest.importorskip("pyarrow")
    labels_of(range(80, 90)).to_parquet("labels.parquet")
    run("update", "cost", "labels.parquet")
    assert record(wards_run)["labels"] == 10


def test_a_blank_identifier_in_a_file_with_types(wards_run, run):
    pytest.importorskip("pyarrow")
    labels = labels_of(range(80, 90), "ill", by="case")
    labels.loc[81, "case"] = None
    labels.to_parquet("labels.parquet")
    output = flat(run("update", "ill", "labels.parquet", code=2))
    assert "has no row with case ''" in output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"row": 999},
            "has no row 999, which labels.csv names; its rows are counted from 0 to 239",
        ),
        ({"row": "x"}, "has no row 'x'"),
        ({"row": 3}, "row 3 in labels.csv is of site 'A', not of 'C'"),
        (
            {"cost": "unknown"},
            "row 81 has the label 'unknown' in labels.csv, which is not a number",
        ),
        ({"cost": "inf"}, "row 81 has the label 'inf' in labels.csv, which is not a number"),
        ({"row": 82}, "row 82 has the labels '"),
    ],
)
def test_mistakes_in_rows(jobs, change, message):
    labels = labels_of(range(80, 90)).astype(object)
    for name, value in change.items():
        labels.loc[81, name] = value
    refused(labels, jobs["cost"], message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"case": "1234567"}, "has no row with case '1234567', which labels.csv names"),
        ({"case": wards()["case"][3]}, "is of site 'A', not of 'C'; only labels of 'C' update"),
        ({"ill": "yess"}, "which is none of the classes 'no' and 'yes'; did you mean 'yes'?"),
        (
            {"ill": "17"},
            "which is none of the classes 'no' and 'yes'; correct it, or leave it empty",
        ),
        ({"case": wards()["case"][80]}, "keep one of them"),
    ],
)
def test_mistakes_in_classes_and_identifiers(jobs, change, message):
    labels = labels_of(range(80, 90), "ill", by="case")
    labels.loc[80:81, "ill"] = ["no", "yes"]
    for name, value in change.items():
        labels.loc[81, name] = value
    refused(labels, jobs["ill"], message)


@pytest.mark.parametrize(
    ("classes", "written"),
    [
        ([0, 1], ["0.0", "1.0"]),  # as pandas writes whole numbers beside empty cells
        ([False, True], ["FALSE", "TRUE"]),  # as spreadsheets write them
        (["01", "02"], ["01", "02"]),
        (["low", "mid", "high"], ["low", "mid", "high"]),
    ],
)
def test_classes_in_other_spellings(folder, classes, written):
    df = wards().drop(columns="cost")
    third = pd.qcut(wards()["cost"], len(classes), labels=False)
    df["ill"] = np.array(classes, dtype=object)[third]
    df.assign(ill=df["ill"].where(df["ward"] != "C")).to_csv("table.csv", index=False)
    asked = {"site": "ward", "target": ["C"], "label": "ill", "model": ["logistic"]}
    job = prepare_job(TuneOptions(data=Path("table.csv"), **asked), folder / "study.journal")
    own = df.assign(ill=np.array(written)[third], row=range(240)).iloc[80:110][["row", "ill"]]
    own.to_csv("labels.csv", index=False)
    given = read_labels(Path("labels.csv"), job)
    assert list(given) == list(range(30))
    assert [str(each) for each in given.values()] == [str(each) for each in df["ill"].iloc[80:110]]
    message = "row 80 has the label 'perhaps' in labels.csv, which is none of the classes "
    refused(own.iloc[:1].assign(ill="perhaps"), job, message)
    refused(
        own.iloc[:1].assign(ill="perhaps"), job, listed([str(each) for each in sorted(classes)])
    )


@pytest.mark.slow
def test_codes_stay_classes(wards_run, run):
    """What a state keeps can be given again."""
    df = wards().drop(columns="cost")
    df["ill"] = df["ill"].map({"no": "01", "yes": "02"})
    df.assign(ill=df["ill"].where(df["ward"] != "C")).to_csv("table.csv", index=False)
    tune("ill", "logistic", table="table.csv", out="other")
    df.assign(row=range(240)).iloc[80:110][["row", "ill"]].to_csv("labels.csv", index=False)
    run("update", "other", "labels.csv")
    kept = pd.read_csv("other/updates/1/labels.csv", dtype=str)["ill"]
    assert kept.to_list() == df["ill"].iloc[80:110].to_list()
    run("update", "other", "other/updates/1/labels.csv")


def test_an_update_waits_for_no_search(updated, run):
    with search_lock((updated / "cost" / "study.journal").resolve(), join=False):
        assert "another search is using the journal" in flat(
            run("update", "cost", "labels.csv", code=2)
        )
    run("update", "cost", "labels.csv")


@pytest.fixture
def plan(wards_run):
    """Ten rows of the table with their labels, as a filled-in plan has them."""
    return wards().drop(columns="ill").assign(row=range(240)).iloc[80:90]


def test_rows_that_were_moved(plan, run):
    plan.assign(row=plan["row"] + 1).drop(columns="case").to_csv("labels.csv", index=False)
    output = flat(run("update", "cost", "labels.csv", code=2))
    first, second = wards()["age"][80:82]
    assert f"labelled rows of labels.csv contradict the table: row 81 has age {first}" in output
    assert f"there, and age {second:g}" in output
    assert "; row 82 has" in output
    assert "Put each label beside its row; if they are right, leave 'age' and 'bmi' out" in output
    ours = plan["age"].where(plan["row"] != 84, 99.5)
    plan.assign(age=ours, ward="D").to_csv("labels.csv", index=False)
    output = flat(run("update", "cost", "labels.csv", code=2))
    assert f"case {plan['case'][80]!r} has ward 'D' there, and ward 'C' in" in output
    plan.assign(age=ours)[["case", "age", "cost"]].to_csv("labels.csv", index=False)
    output = flat(run("update", "cost", "labels.csv", code=2))
    assert "1 labelled row of labels.csv contradicts the table" in output


def test_other_dates_are_named_as_dates():
    """The file's format decides nothing: a date that cannot be read contradicts nothing."""
    seen = pd.to_datetime("2024-01-01") + pd.to_timedelta(range(10), "D")
    job = SimpleNamespace(
        options=SimpleNamespace(files=SiteFiles(Path("t.csv"), site="ward")),
        problem=SimpleNamespace(
            columns=Columns.of_kinds({"seen": "date"}),
            target=Site("C", pd.DataFrame({"seen": seen}), None),
        ),
    )
    check_rows("l.csv", pd.DataFrame({"seen": ["2024-01-02", "3.1.24"]}), ["a", "b"], [1, 2], job)
    with pytest.raises(ProblemError, match="a has seen 2024-01-02 there, and seen 2024-01-04 in"):
        check_rows("l.csv", pd.DataFrame({"seen": ["2024-01-02"]}), ["a"], [3], job)


def test_numbers_may_be_rounded():
    assert [_half_a_digit(value) for value in (2.5, 70.0, -0.125)] == [0.05, 0.5, 0.0005]


def test_rows_that_were_only_written_differently(plan, run):
    """Rounded numbers and empty cells; where there is no label, nothing is compared."""
    plan["age"] = plan["age"].round().where(plan["row"] != 84)
    plan["bmi"] = plan["bmi"].where(plan["row"] != 85, 99.5)
    plan["cost"] = plan["cost"].where(plan["row"] != 85)
    plan.assign(ward=" c ").to_csv("labels.csv", index=False, sep=";", decimal=",")
    run("update", "cost", "labels.csv")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"cost": "costs"}, "labels.csv has no column 'cost', which is the label; did you mean"),
        ({"cost": "y"}, "name the column of the labels like this"),
        ({"row": "number"}, "it has no column 'case' or 'row'; add 'row', the number of the row"),
    ],
)
def test_missing_columns(jobs, columns, message):
    refused(labels_of(range(80, 90)).rename(columns=columns), jobs["cost"], message)


def test_files_without_labels(wards_run, run):
    labels_of(range(80, 90)).assign(cost=None).to_csv("labels.csv", index=False)
    assert "no row of labels.csv has a label in 'cost'" in flat(
        run("update", "cost", "labels.csv", code=2)
    )
    labels_of(range(80, 90))[["cost"]].to_csv("labels.csv", index=False)
    assert "the label 'cost' and a column that identifies rows is needed" in flat(
        run("update", "cost", "labels.csv", code=2)
    )
    assert "there is no file lables.csv; did you mean labels.csv?" in flat(
        run("update", "cost", "lables.csv", code=2)
    )


# ---------------------------------------------------------------- which runs


@pytest.mark.slow
def test_labels_that_tune_had(wards_run, run):
    df = wards().drop(columns="ill")
    few = df.assign(cost=df["cost"].where((df["ward"] != "C") | (df.index < 90)))
    few.to_csv("few.csv", index=False)
    tune("cost", "ridge", "--use-target-labels", table="few.csv", out="few")
    give(range(80, 90))
    output = flat(run("update", "few", "labels.csv", code=2))
    assert "tune has already used all labels of labels.csv" in output
    give(range(85, 100))
    output = flat(run("update", "few", "labels.csv"))
    assert "Labels of C 20, 10 of them used in tune" in output
    found = pd.read_csv("few/updates/1/predictions.csv")
    assert found["label_used"].sum() == 20
    labels_of(range(89, 95)).assign(cost=7.5).to_csv("labels.csv", index=False)
    output = flat(run("update", "few", "labels.csv", code=2))
    assert "row 89 has the label '7.5' in labels.csv, and had" in output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--risk", "naive"], "no row was predicted by a model that has not seen its site"),
        (["--loss", "zero_one"], "the loss zero_one is of predicted classes"),
    ],
)
def test_runs_that_cannot_be_updated(wards_run, run, options, why):
    """A plan gives the reason before anyone is paid for labels."""
    tune("ill", "logistic", *options, table="ill.csv", out="other", trials=1)
    give(range(80, 90), label="ill")
    output = flat(run("update", "other", "labels.csv", code=2))
    assert f"labels cannot update this predictor: {why}" in output
    output = flat(run("label-plan", "other", "--n", 5))
    assert f"labels cannot update this predictor: {why}" in output
    assert "shiftune tune with --use-target-labels" in output
    assert "shiftune update" not in output


def test_runs_that_are_not_finished(wards_run, run):
    give(range(80, 90))
    assert "holds no result of shiftune tune" in flat(run("update", "nowhere", code=2))
    assert "holds no result of shiftune tune" in flat(
        run("update", "nowhere", "labels.csv", code=2)
    )
    assert not (wards_run / "nowhere").exists()
    (wards_run / "cost" / "best.json").unlink()
    assert "cost is not finished; run this first: shiftune" in flat(
        run("update", "cost", "labels.csv", code=2)
    )


def test_a_table_that_was_moved_or_changed(wards_run, run):
    give(range(80, 90))
    path = wards_run / "cost" / "settings.json"
    write_json(path, read_json(path) | {"files": {"data": str(wards_run / "gone.csv")}})
    assert "give --data FILE" in flat(run("update", "cost", "labels.csv", code=2))
    shutil.copy("cost.csv", "moved.csv")
    run("update", "cost", "labels.csv", "--data", "moved.csv")
    other = pd.read_csv("cost.csv", dtype={"case": str})
    other["age"] = other["age"].where(other.index != 80, other["age"] + 1)
    other.to_csv("moved.csv", index=False)
    output = flat(run("update", "cost", "labels.csv", "--data", "moved.csv", code=2))
    assert "is not the table of this result" in output


def test_other_members_are_refused(wards_run, run):
    give(range(80, 90))
    path = wards_run / "cost" / "best.json"
    best = read_json(path)
    best["members"][0]["weight"] *= 0.9
    write_json(path, best)
    output = flat(run("update", "cost", "labels.csv", code=2))
    assert "chooses other models; shiftune report cost" in output


def test_a_folder_that_cannot_be_written(wards_run, run):
    give(range(80, 90))
    (wards_run / "cost" / "updates").write_text("a file")
    output = flat(run("update", "cost", "labels.csv", code=2))
    assert "results cannot be written to cost/updates/1" in output
    assert "make the folder writable" in output


def test_the_help_lists_the_commands(run):
    output = run("--help").output
    assert " update " in output
    assert " label-plan " in output
    assert "LABELS" in run("update", "--help").output


# ---------------------------------------------------------------- rows to label


def filled(path, label="cost", **options):
    """Fill in the labels of a plan."""
    plan = pd.read_csv(path, dtype={"case": str}, **options)
    plan[label] = wards()[label].iloc[plan["row"]].to_list()
    plan.to_csv(path, index=False, **options)
    return plan


def test_a_plan_is_filled_in_and_used(wards_run, run):
    before = files(wards_run / "cost")
    output = flat(run("label-plan", "cost", "--n", 12))
    assert files(wards_run / "cost") == before
    assert "Written to cost-labels.csv: 12 rows of C, drawn at random" in output
    assert "shiftune update cost cost-labels.csv" in output
    assert "shiftune update cost 'my labels.csv'" in flat(
        run("label-plan", "cost", "--n", 12, "--out", "my labels.csv")
    )
    plan = pd.read_csv("cost-labels.csv", dtype=str)
    assert list(plan) == ["case", "row", "age", "bmi", "cost"]
    assert plan["cost"].isna().all()
    rows = plan["row"].astype(int)
    assert rows.is_monotonic_increasing
    assert set(rows) <= set(TARGET_ROWS)
    written = pd.read_csv("cost.csv", dtype=str).iloc[rows].reset_index(drop=True)
    pd.testing.assert_frame_equal(plan[["case", "age", "bmi"]], written[["case", "age", "bmi"]])
    assert "no row of cost-labels.csv has a label" in flat(
        run("update", "cost", "cost-labels.csv", code=2)
    )
    filled("cost-labels.csv")
    run("update", "cost", "cost-labels.csv")
    assert pd.read_csv("cost/updates/1/labels.csv")["row"].to_list() == rows.to_list()


def test_rows_with_a_label_are_not_drawn_again(updated, run):
    output = flat(run("label-plan", "cost", "--n", 31, "--out", "second.csv", code=2))
    assert "'C' has 30 rows without a label so far; give an --n of at most 30" in output
    run("label-plan", "cost", "--n", 30, "--out", "second.csv")
    assert filled("second.csv")["row"].to_list() == list(range(90, 120))
    run("update", "cost", "second.csv")
    assert "all rows of 'C' have a label already" in flat(
        run("label-plan", "cost", "--n", 1, "--out", "third.csv", code=2)
    )
    assert not (updated / "third.csv").exists()


@pytest.mark.slow
def test_rows_that_tune_had_are_not_drawn(wards_run, run):
    df = wards().drop(columns="ill")
    few = df.assign(cost=df["cost"].where((df["ward"] != "C") | (df.index < 90)))
    few.to_csv("few.csv", index=False)
    output = flat(tune("cost", "ridge", "--use-target-labels", table="few.csv", out="few"))
    assert "Gain from 10 labels" in output
    assert "Effect of C predictions of C are raised by" in output
    update = json.loads((wards_run / "few" / "best.json").read_text())["labels"]["updated"]
    assert update["labels"] == 10
    assert update["gain"]["value"] > 0
    assert update["shift"][0]["mean"] == pytest.approx(30, abs=6)
    run("label-plan", "few", "--n", 30)
    assert pd.read_csv("few-labels.csv")["row"].to_list() == list(range(90, 120))


def test_the_seed_decides(wards_run, run):
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        run("label-plan", "cost", "--n", 9, "--seed", seed, "--out", f"{name}.csv")
    one, two, three = ((wards_run / f"{n}.csv").read_text() for n in ("one", "two", "three"))
    assert one == two != three


@pytest.mark.slow
def test_a_plan_is_separated_like_the_table(wards_run, run):
    """Spreadsheets that write decimal commas expect semicolons."""
    table = pd.read_csv("cost.csv", dtype={"case": str})
    table.to_csv("german.csv", index=False, sep=";", decimal=",")
    tune("cost", "ridge", table="german.csv", out="german")
    run("label-plan", "german", "--n", 12)
    plan = filled("german-labels.csv", sep=";", decimal=",")
    assert list(plan) == ["case", "row", "age", "bmi", "cost"]
    run("update", "german", "german-labels.csv")
    assert record(wards_run, run="german")["labels"] == 12


@pytest.mark.slow
def test_a_table_with_a_column_named_row(wards_run, run):
    table = pd.read_csv("cost.csv", dtype={"case": str}).drop(columns="case")
    table.rename(columns={"bmi": "row"}).to_csv("named.csv", index=False)
    tune("cost", "ridge", table="named.csv", out="named")
    run("label-plan", "named", "--n", 12)
    plan = pd.read_csv("named-labels.csv")
    assert list(plan) == ["row_", "age", "row", "cost"]
    plan.assign(cost=wards()["cost"].iloc[plan["row_"]].to_list()).to_csv("l.csv", index=False)
    run("update", "named", "l.csv")
    assert pd.read_csv("named/updates/1/labels.csv")["row_"].to_list() == plan["row_"].to_list()


def test_a_plan_in_excel(wards_run, run):
    """Filled in, it updates the model as a CSV file does."""
    pytest.importorskip("openpyxl")
    run("label-plan", "cost", "--n", 6, "--out", "plan.xlsx")
    run("label-plan", "cost", "--n", 6, "--out", "plan.csv")
    plan = pd.read_excel("plan.xlsx", dtype=str)
    other = pd.read_csv("plan.csv", dtype=str)
    pd.testing.assert_frame_equal(plan.fillna(""), other.fillna(""))
    plan["cost"] = np.arange(100.0, 106.0)
    plan.to_excel("plan.xlsx", index=False)
    run("update", "cost", "plan.xlsx")
    assert read_json(Path("cost/updates/1/update.json"))["labels"] == 6


def test_an_update_that_is_not_used(wards_run, run, monkeypatch):
    """Screen and record say it, and the stored model is as large as before."""
    give(range(80, 90))
    original = SiteEffects.update

    def bad(self, site):
        found = original(self, site)
        return found._replace(own_losses=1e3 * found.own_losses)

    with monkeypatch.context() as patched:
        patched.setattr(SiteEffects, "update", bad)
        output = flat(run("update", "cost", "labels.csv"))
    assert "not used: with 10 labels the estimated loss is higher" in output
    record = read_json(Path("cost/updates/1/update.json"))
    assert not record["used"]
    assert record["gain"]["value"] < 0
    assert record["after"] == record["before"]
    assert {each["mean"] for each in record["shift"]} == {0.0}
    sizes = [Path(p).stat().st_size for p in ("cost/model.skops", "cost/updates/1/model.skops")]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.02)
    updated, plain = load_model("cost/updates/1/model.skops"), load_model("cost/model.skops")
    X = pd.read_csv("cost.csv", dtype={"case": str})
    np.testing.assert_array_equal(updated.predict(X), plain.predict(X))


def test_a_file_is_never_overwritten(wards_run, run):
    (wards_run / "mine.csv").write_text("labels")
    output = flat(run("label-plan", "cost", "--n", 5, "--out", "mine.csv", code=2))
    assert "mine.csv exists, and may have labels in it; give another file with --out" in output
    assert (wards_run / "mine.csv").read_text() == "labels"
    assert "--out must end in .csv or .xlsx" in flat(
        run("label-plan", "cost", "--n", 5, "--out", "x.ods", code=2)
    )
    assert "cannot be written to nowhere" in flat(
        run("label-plan", "cost", "--n", 5, "--out", "nowhere/x.csv", code=2)
    )
    run("label-plan", "cost", "--n", 0, code=2)
