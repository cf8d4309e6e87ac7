"""`shiftune tune --use-target-labels`: labels that rows of the target have."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem, ShiftSearch
from shiftune.cli._folder import read_json, write_json
from shiftune.models import ready_model

USE = "--use-target-labels"


@pytest.fixture
def few(visits, folder):
    """A table in which 20 of the 80 rows of ward A have a label."""
    table = visits.drop(columns="ill")
    table.loc[(table["ward"] == "A") & (table.index >= 20), "cost"] = np.nan
    table.to_csv("few.csv", index=False)
    return table


def test_the_same_search_in_python(few, folder, tune):
    found = json.loads(tune("few.csv", USE, "--out", "run", "--json").stdout)
    problem = ShiftProblem.from_frame(
        few, site="ward", label="cost", target="A", target_labels="use"
    )
    kinds = {"age": "number", "smoker": "category", "bmi": "number"}
    model = ready_model("ridge", "regression", kinds)
    search = ShiftSearch({"ridge": model}, n_trials=2)
    search.fit(problem)
    assert found["risk"]["value"] == pytest.approx(search.risk_.value)
    (own,) = (site for site in found["sites"] if site["name"] == "A")
    assert own["evaluated"] == own["rows"] == 20
    assert own["share"] > 0
    predictions = pd.read_csv("run/predictions.csv")
    assert predictions["prediction"].to_numpy() == pytest.approx(search.predict(problem.target.X))


def test_it_is_told_wherever_a_reader_looks(few, folder, tune, run):
    out = folder / "run"
    output = " ".join(tune("few.csv", USE, "--out", "run").output.split())
    other = " ".join(tune("few.csv", "--out", "run", code=2).output.split())
    assert "(use_target_labels: True, now False)" in other
    assert "A: 80 rows, 20 of them with a label" in output
    assert (
        "labels of 20 of 80 rows of the target are used: all evaluate the trials (with a risk "
        "estimator other than adjusted, some do and the rest train the trials' models), and all "
        "train the final model" in output
    )
    assert json.loads((out / "settings.json").read_text())["options"]["use_target_labels"] is True
    assert json.loads((out / "best.json").read_text())["labels"]["used"] == 20
    predictions = pd.read_csv(out / "predictions.csv")
    assert predictions["row"][predictions["label_used"]].to_list() == list(range(20))
    assert len(predictions) == 80
    report = (out / "report.html").read_text()
    assert "labels of the target: used: 20 of 80 rows" in report
    run("report", "run")
    assert (out / "report.html").read_text() == report


@pytest.mark.slow
def test_a_folder_from_before_the_option(few, folder, tune, run):
    tune("few.csv", "--out", "run")
    path = folder / "run" / "settings.json"
    settings = read_json(path)
    for name in ("use_target_labels", "identifiers"):
        del settings["options"][name]
    write_json(path, settings)
    run("report", "run")
    tune("few.csv", "--out", "run", trials=3)
    assert "use_target_labels" in tune("few.csv", "--out", "run", USE, code=2).output


def test_text_among_labels_that_are_set_aside(few, folder, tune):
    few["cost"] = few["cost"].astype(object).where(few.index >= 10, "pending")  # rows of A
    few.to_csv("few.csv", index=False)
    tune("few.csv", "--out", "run")
    assert pd.api.types.is_float_dtype(pd.read_csv("run/predictions.csv")["prediction"])
    output = " ".join(tune("few.csv", "--out", "used", USE, code=2).output.split())
    assert "'pending'" in output


def test_without_it_a_note_says_how(few, tune):
    output = " ".join(tune("few.csv", "--out", "run").output.split())
    assert f"20 labels of the target set aside; to use them: {USE}" in output
    assert "label_used" not in pd.read_csv("run/predictions.csv")
    output = " ".join(tune("few.csv", USE, "--out", "run", code=2).output.split())
    assert "(use_target_labels: False, now True)" in output


def test_no_label_to_use(few, folder, tune):
    few.assign(cost=few["cost"].where(few["ward"] != "A")).to_csv("none.csv", index=False)
    output = " ".join(tune("none.csv", USE, "--out", "run", code=2).output.split())
    assert "no row of the target has a label in 'cost'" in output
    assert not (folder / "run").exists()


def test_all_rows_have_labels(visits, tune):
    visits.drop(columns="ill").to_csv("all.csv", index=False)
    output = " ".join(tune("all.csv", USE, "--out", "run").output.split())
    assert "all 80 rows of the target have labels, which are used" in output
    assert pd.read_csv("run/predictions.csv")["label_used"].all()


def test_classes_of_the_target(visits, tune):
    """A class that the few rows lack is not reported; one that no source has is a mistake."""
    table = visits.drop(columns="cost")
    table.loc[(table["ward"] == "A") & (table.index >= 1), "ill"] = None
    table.to_csv("one.csv", index=False)
    output = tune("one.csv", USE, "--out", "run", label="ill", model="logistic").output
    assert "has no row of class" not in output
    table.loc[0, "ill"] = "perhaps"
    table.to_csv("new.csv", index=False)
    output = " ".join(tune("new.csv", USE, label="ill", model="logistic", code=2).output.split())
    assert "the class(es) ['perhaps'], which no source has" in output
    assert ": correct the spelling, leave those labels empty, or add a source" in output
    table.loc[0, "ill"] = "yess"
    table.to_csv("new.csv", index=False)
    output = " ".join(tune("new.csv", USE, label="ill", model="logistic", code=2).output.split())
    assert "correct the spelling ('yes' for 'yess'?), leave" in output


@pytest.mark.parametrize(("label", "model"), [("ill", "logistic"), ("cost", "ridge")])
def test_what_would_fail_is_not_advised(visits, tune, label, model):
    """A new class cannot be used; a new quantity can."""
    new = "perhaps" if label == "ill" else 999.0
    table = visits[["ward", "age", label]].copy()
    table.loc[0, label] = new
    table.to_csv("new.csv", index=False)
    output = " ".join(tune("new.csv", "--out", "run", label=label, model=model).output.split())
    assert "80 labels of the target set aside" in output
    assert (f"to use them: {USE}" in output) == (label == "cost")
    assert ("no source has the class(es) 'perhaps'" in output) == (label == "ill")


@pytest.mark.parametrize(("risk", "judging"), [("naive", 6), ("variance_reduced", 8)])
def test_with_other_estimators(few, tune, risk, judging):
    """The rest of the 20 rows trains the trials' models."""
    found = json.loads(tune("few.csv", USE, "--out", "run", "--json", "--risk", risk).stdout)
    by_name = {site["name"]: site for site in found["sites"]}
    assert set(by_name) == {"A", "B", "C"}
    assert by_name["A"]["evaluated"] == judging


@pytest.mark.slow
def test_what_labels_would_buy(visits, folder, tune):
    """It needs three sources; then the end of a run says it."""
    table = visits.drop(columns="ill")
    table["cost"] = table["cost"].where(table["ward"] != "A")
    table.to_csv("two.csv", index=False)
    assert USE not in tune("two.csv", "--out", "two").output
    table.loc[200:, "ward"] = "D"
    table.to_csv("three.csv", index=False)
    output = " ".join(tune("three.csv", "--out", "three").output.split())
    assert "Labels of 30 random rows of A are expected to lower" in output
    assert "shiftune label-plan three --n 30" in output
    visits.assign(ward=table["ward"]).drop(columns="ill").to_csv("aside.csv", index=False)
    assert "Labels of 30 random rows of A" in " ".join(tune("aside.csv").output.split())
    worth = json.loads((folder / "three" / "best.json").read_text())["labels"]["worth"]
    assert [row["labels"] for row in worth] == [0, 10, 30]
