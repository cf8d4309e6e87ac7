"""Tables as they are found: they work, with a note of what was done."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem, load_model
from shiftune.errors import DataWarning
from shiftune.tables import read_file


@pytest.fixture
def noted(tune, folder):
    """Tune on a table and return columns by name, and the notes as one text."""

    def call(df, *args, name="rough.csv", trials=1, **options):
        df.to_csv(name, index=False)
        done = tune(name, "--out", "run", "--json", *args, trials=trials, **options)
        found = json.loads(done.stdout)
        predictions = pd.read_csv(folder / "run" / "predictions.csv")
        assert predictions["prediction"].notna().all()
        return {c["column"]: c for c in found["columns"]}, "\n".join(found["notes"])

    return call


@pytest.fixture
def read_as(run):
    """Return the columns of a table by name, and the notes, as `noted` does without a model."""

    def call(df, *args, label="cost"):
        df.to_csv("rough.csv", index=False)
        usual = ["--site", "ward", "--target", "A", "--label", label, "--json"]
        found = json.loads(run("diagnose", "rough.csv", *usual, *args).stdout)
        return {c["column"]: c for c in found["columns"]}, "\n".join(found["notes"])

    return call


def test_text_in_a_numeric_column(visits, noted, folder):
    visits["bmi"] = visits["bmi"].round(2).astype(object)
    visits.loc[[3, 99, 200], "bmi"] = ["?", "unknown", "?"]
    columns, _ = noted(visits)
    assert columns["bmi"]["kind"] == "number"
    assert columns["bmi"]["missing"] == 3 / 240
    assert (
        "'?' in 2 rows counts as missing; 1 value is not a number ('unknown')"
        in columns["bmi"]["remark"]
    )
    raw = pd.read_csv("rough.csv")
    assert len(load_model(folder / "run" / "model.skops").predict(raw)) == 240


def test_codes_stay_categories(visits, read_as):
    rng = np.random.default_rng(0)
    codes = rng.choice([*map(str, range(250, 300)), "V45", "V10", "E90", "E91", "E92", "E93"], 240)
    columns, _ = read_as(visits.assign(code=codes))
    assert columns["code"]["kind"] == "category"
    assert "Read as categories" in columns["code"]["remark"]


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        pytest.param("%Y-%m-%d", "year-month-day", marks=pytest.mark.slow),
        ("%d.%m.%Y", "day.month.year"),
        pytest.param("%d/%m/%Y", "day/month/year", marks=pytest.mark.slow),
        ("%Y-%m-%dT%H:%M:%S+02:00", "year-month-day"),
    ],
)
def test_dates(visits, noted, folder, spelling, words):
    """They are read as they are written, also by the stored model, and carry information."""
    days = np.random.default_rng(0).integers(0, 300, 240)
    dates = (pd.Timestamp("2024-01-01") + pd.to_timedelta(days, "D")).strftime(spelling)
    visits = visits.assign(seen=dates, cost=visits["cost"] + 5.0 * days)
    columns, _ = noted(visits)
    assert columns["seen"]["kind"] == "date"
    assert words in columns["seen"]["remark"]
    predicted = load_model(folder / "run" / "model.skops").predict(pd.read_csv("rough.csv"))
    assert np.corrcoef(predicted, days)[0, 1] > 0.9


def test_id_constant_and_empty_columns(visits, noted):
    rng = np.random.default_rng(0)
    rough = visits.assign(
        patient_id=rng.permutation(10**6)[:240],
        uuid=[f"p-{i:05}" for i in rng.permutation(240)],
        country="NL",
        nothing=np.nan,
        income=20_000 + (1_000 * visits["cost"]).astype(int) + rng.permutation(10**4)[:240],
        number=rng.permutation(10**7)[:240],
        only_sources=np.where(visits["ward"] == "A", np.nan, rng.normal(size=240)),
        only_target=np.where(visits["ward"] == "A", rng.normal(size=240), np.nan),
    )
    rough.insert(0, "Unnamed: 0", range(240))
    columns, _ = noted(rough)
    used = {name for name, column in columns.items() if column["used"]}
    assert used == {"age", "smoker", "bmi", "ill", "income"}
    assert "no help in predicting the label" in columns["number"]["remark"]
    assert "like an identifier" in columns["patient_id"]["remark"]
    assert "same value in every row ('NL')" in columns["country"]["remark"]
    assert "empty at the target" in columns["only_sources"]["remark"]
    assert "empty at every source" in columns["only_target"]["remark"]


def test_a_column_can_be_kept_or_left_out(visits, read_as):
    rough = visits.assign(patient_id=range(240))
    columns, _ = read_as(rough, "--keep", "patient_id", "--drop", "bmi")
    assert columns["patient_id"]["used"]
    assert columns["bmi"]["remark"] == "left out: as requested"


@pytest.mark.slow
def test_one_huge_site_and_tiny_ones(visits, noted):
    rng = np.random.default_rng(0)
    huge = visits[visits["ward"] == "B"].sample(4000, replace=True, random_state=0)
    huge["age"] += rng.normal(size=4000)
    tiny = visits[visits["ward"] == "C"].iloc[:2].assign(ward="D")
    small = visits[visits["ward"] == "C"].iloc[:4].assign(ward="E")
    _, notes = noted(pd.concat([visits, huge, tiny, small]))
    assert "site 'D' has fewer than 3 rows and is left out" in notes
    assert "site 'E' has fewer than 10 rows" in notes


def test_a_target_of_one_row(visits, noted):
    noted(visits.iloc[79:])


@pytest.mark.slow
def test_two_hundred_columns(visits, tune):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(240, 200)), columns=[f"gene {i}" for i in range(200)])
    pd.concat([visits, wide], axis=1).to_csv("wide.csv.gz", index=False)
    output = tune("wide.csv.gz").output
    assert "202 numbers, 2 categories" in output
    assert "gene 7 " not in output  # not one line per column


def test_a_class_that_one_site_lacks(visits, noted):
    visits.loc[visits["ward"] == "B", "ill"] = "no"
    _, notes = noted(visits, label="ill", model="logistic")
    assert "site 'B' has no row of class 'yes'" in notes


@pytest.mark.slow
def test_whole_numbers_as_classes_or_quantity(visits, noted, folder):
    visits["grade"] = np.clip((visits["age"] / 20).round(), 1, 4)
    visits.loc[visits["ward"] == "A", "grade"] = np.nan
    _, notes = noted(visits, label="grade", model="logistic")
    assert "is read as 4 classes; if it is a quantity, use --task regression" in notes
    assert set(pd.read_csv("run/predictions.csv", dtype=str)["prediction"]) <= set("1234")
    shutil.rmtree(folder / "run")
    noted(visits, "--task", "regression", label="grade")


def test_true_and_false(visits, noted):
    visits["ill"] = (visits["ill"] == "yes").astype(object)
    visits.loc[visits["ward"] == "A", "ill"] = None
    noted(visits, label="ill", model="logistic")
    assert set(pd.read_csv("run/predictions.csv")["prediction"]) <= {True, False}


def test_sites_that_are_numbers(visits, noted):
    visits["ward"] = visits["ward"].map({"A": 1, "B": 2, "C": 3})
    noted(visits, target="1")


def test_names_that_look_like_markup(visits, tune):
    """What a file holds is shown as it is."""
    visits["ward"] = visits["ward"].replace("B", "[red]B[/red]")
    visits["[bold]x[/]"] = 1
    visits.to_csv("odd.csv", index=False)
    output = tune("odd.csv").output
    assert "[red]B[/red]" in output
    assert "[bold]x[/]" in output


def test_semicolons_decimal_commas_and_old_encodings(visits, tune):
    visits["größe"] = np.where(visits["smoker"], "groß", "klein")
    visits.to_csv("euro.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    output = tune("euro.csv", "--json", trials=1).stdout
    kinds = {c["column"]: c["kind"] for c in json.loads(output)["columns"]}
    assert kinds == {
        "age": "number",
        "smoker": "category",
        "bmi": "number",
        "ill": "category",
        "größe": "category",
    }


@pytest.mark.parametrize(
    "ending", ["csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zip", "parquet", "feather"]
)
def test_every_kind_of_file_is_the_same_table(visits, folder, ending):
    path = folder / f"visits.{ending}"
    write = {"parquet": "to_parquet", "feather": "to_feather"}.get(ending)
    getattr(visits, write)(path) if write else visits.to_csv(path, index=False)
    roles = {"site": "ward", "target": "A", "label": "cost"}
    with pytest.warns(DataWarning):
        table, again = (ShiftProblem.from_frame(df, **roles) for df in (read_file(path), visits))
    assert table.fingerprint() == again.fingerprint()
    assert table.columns == again.columns


@pytest.mark.slow
@pytest.mark.parametrize("label", ["cost", "ill"])
@pytest.mark.parametrize("model", ["svm", "knn"])
def test_few_rows_are_enough(visits, noted, model, label):
    """Neighbours no more than rows; calibration with the few rows of a class."""
    few = visits.groupby("ward").head(12)
    _, notes = noted(few, label=label, model=model, trials=4)
    assert "set aside" in notes
    assert "FAIL" not in set(pd.read_csv("run/trials.csv")["state"])


@pytest.mark.parametrize("model", ["lightgbm", "xgboost"])
def test_boosted_trees(visits, noted, folder, model):
    pytest.importorskip(model)
    (folder / "s.toml").write_text("n_estimators = 5")
    noted(visits, "--space", "s.toml", label="ill", model=model, trials=1)
    assert set(pd.read_csv("run/predictions.csv")["prediction"]) <= {"yes", "no"}


def test_unseen_categories_are_named_on_both_screens_and_by_a_check(visits, tune, run, folder):
    own = np.flatnonzero(visits["ward"] == "A")
    visits["drug"] = np.resize(["u", "v"], len(visits))
    visits.loc[own[: 3 * len(own) // 4], "drug"] = "new"
    visits.to_csv("drugs.csv", index=False)
    roles = ["--site", "ward", "--target", "A", "--label", "cost"]
    for done in (run("diagnose", "drugs.csv", *roles), tune("drugs.csv", "--out", "run")):
        screen = " ".join(done.stdout.split())
        assert "of the target (75 %) have categories that no source has: 'new'" in screen
    checks = str(json.loads((folder / "run" / "best.json").read_text()))
    n = 3 * len(own) // 4
    expected = f"{n} rows of the target (75 %) have a category that no source has in 'drug'"
    assert expected in checks
