"""Columns that say which case a row is: never features, and in front of the predictions."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from shiftune.tables import read_as_written


@pytest.fixture
def cases(visits):
    """Ward A has no labels; every row has a number with leading zeros and a code."""
    table = visits.drop(columns="ill").assign(cost=visits["cost"].where(visits["ward"] != "A"))
    numbers = np.random.default_rng(0).permutation(240)
    table.insert(0, "case", [f"{number:05}" for number in numbers])
    return table.assign(code=[f'x"{number}, é' for number in numbers])


@pytest.mark.parametrize("options", [{}, {"sep": ";", "decimal": ",", "encoding": "cp1252"}])
def test_they_are_carried_as_they_are_written(cases, tune, options):
    shuffled = cases.sample(frac=1, random_state=1)
    shuffled.to_csv("cases.csv", index=False, **options)
    assert " called " not in tune("cases.csv", "--out", "run").stderr
    found = pd.read_csv("run/predictions.csv", dtype={"case": str})
    assert list(found) == ["case", "code", "row", "prediction"]
    own = shuffled[shuffled["ward"] == "A"]
    assert found["case"].to_list() == own["case"].to_list()
    assert found["code"].to_list() == own["code"].to_list()
    assert shuffled["case"].iloc[found["row"]].to_list() == found["case"].to_list()


def test_a_column_can_be_named(cases, folder, tune, run):
    """Its values, missing ones too, are nothing but text."""
    cases["nurse"] = ["07", "NA", "", "1e3"] * 60
    cases.to_csv("cases.csv", index=False)
    found = json.loads(tune("cases.csv", "--id", "nurse", "--out", "run", "--json").stdout)
    columns = {column["column"]: column for column in found["columns"]}
    assert columns["nurse"]["remark"] == "left out: identifier, as requested"
    assert {name for name, each in columns.items() if each["identifier"]} == {
        "case",
        "code",
        "nurse",
    }
    predictions = pd.read_csv("run/predictions.csv", dtype=str, keep_default_na=False)
    assert predictions["nurse"].to_list() == ["07", "NA", "", "1e3"] * 20
    settings = json.loads((folder / "run" / "settings.json").read_text())
    assert settings["options"]["identifiers"] == ["nurse"]
    run("report", "run")
    assert "identifiers: 'nurse', now none" in tune("cases.csv", "--out", "run", code=2).output
    args = ["--site", "ward", "--target", "A", "--label", "cost", "--id", "nurse"]
    assert "identifier, as requested" in run("diagnose", "cases.csv", *args).output


def test_names_that_predictions_have_themselves(cases, tune):
    cases.rename(columns={"case": "row", "code": "prediction"}).to_csv("cases.csv", index=False)
    done = tune("cases.csv", "--out", "run")
    found = pd.read_csv("run/predictions.csv")
    assert list(found) == ["row", "prediction", "row_", "prediction_"]
    assert "its columns become 'row_' and 'prediction_'" in " ".join(done.stderr.split())


def test_an_identifier_cannot_be_kept(cases, tune):
    cases.to_csv("cases.csv", index=False)
    output = tune("cases.csv", "--id", "case", "--keep", "case", code=2).output
    assert "column 'case' is to be kept, and to be left out or an identifier" in output
    for name, role in (("ward", "site"), ("cost", "label")):
        output = " ".join(tune("cases.csv", "--id", name, code=2).output.split())
        assert f"column '{name}' is the {role}; leave it out of --id" in output
    assert "did you mean 'case'?" in tune("cases.csv", "--id", "cases", code=2).output


def test_several_rows_of_a_patient(cases, tune, run):
    cases["patient_id"] = [f"{number // 3:04}" for number in range(240)]
    cases.to_csv("cases.csv", index=False)
    found = json.loads(tune("cases.csv", "--out", "run", "--json").stdout)
    columns = {column["column"]: column for column in found["columns"]}
    assert not columns["patient_id"]["used"]
    assert "to use it: --keep patient_id" in columns["patient_id"]["remark"]
    assert "column 'patient_id' has 80 values in 240 rows" in found["notes"][0]
    assert "'case'" not in found["notes"][0]
    predictions = pd.read_csv("run/predictions.csv", dtype=str)
    assert predictions["patient_id"].to_list() == cases["patient_id"].to_list()[:80]
    args = ["--site", "ward", "--target", "A", "--label", "cost", "--keep", "patient_id", "--json"]
    assert json.loads(run("diagnose", "cases.csv", *args).stdout)["notes"] == []


def test_whole_numbers_of_parquet_stay_whole(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "cases.parquet"
    parquet.write_table(arrow.table({"nr": [7, None, 12], "x": [1.0, 2.0, 3.0]}), path)
    written = read_as_written(path, ["nr"]).to_csv(index=False, na_rep="none").split()
    assert written == ["nr", "7", "none", "12"]
    floats = pd.DataFrame({"nr": [17.0, np.nan, 3.0], "part": [1.5, 2, 3], "huge": [1e300, 1, 2]})
    floats.to_parquet(path)
    written = read_as_written(path, list(floats)).to_csv(index=False, na_rep="none").split()
    assert written == ["nr,part,huge", "17,1.5,1e+300", "none,2.0,1.0", "3,3.0,2.0"]


def test_codes_of_sites_labels_and_cases(visits, folder, tune, run):
    """Leading zeros stay, in whatever a reader gets to see; a site also goes by its number."""
    table = visits.drop(columns="cost").assign(
        ward=visits["ward"].map({"A": "007", "B": "012", "C": "120"}),
        ill=visits["ill"].map({"yes": "01", "no": "02"}).where(visits["ward"] != "A"),
        pid=[f"{number:05}" for number in np.random.default_rng(0).permutation(99999)[:240]],
    )
    table.to_csv("codes.csv", index=False)
    output = tune("codes.csv", "--out", "run", label="ill", model="logistic", target="7").output
    assert "expected at 007" in output
    found = pd.read_csv("run/predictions.csv", dtype=str)
    assert list(found) == ["pid", "row", "prediction", "probability_01", "probability_02"]
    assert set(found["prediction"]) <= {"01", "02"}
    again = tune("codes.csv", "--out", "run", label="ill", model="logistic", target="007").output
    assert "already has 2 trials" in again
    run("report", "run")
    args = ["--site", "ward", "--target", "7", "--json"]
    assert json.loads(run("diagnose", "codes.csv", *args).stdout)["target"] == "007"
