"""`shiftune predict`: the model of a result on tables as they come."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from shiftune import load_model
from shiftune.cli import app
from shiftune.cli._folder import ResultFolder, fingerprint, read_json, write_json
from shiftune.errors import DataWarning, ProblemError
from shiftune.models import save_model
from shiftune.tables import _files

ROWS = 40


def wards() -> pd.DataFrame:
    """Four wards; dates have dots, cases have leading zeros."""
    rng = np.random.default_rng(3)
    n = 4 * ROWS
    df = pd.DataFrame({"case": [f"{k:05}" for k in rng.permutation(9999)[:n]]})
    age = rng.normal(50, 8, n).round(1)
    df = df.assign(ward=np.repeat(list("ABCD"), ROWS), age=age, sex=rng.choice(["f", "m"], n))
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, n), "D")
    df["seen"] = day.strftime("%d.%m.%Y")
    df["cost"] = (3 * age + day.day_of_year / 4 + rng.normal(0, 5, n)).round(2)
    df["ill"] = np.where(rng.random(n) < 1 / (1 + np.exp(-(age - 50) / 8)), "yes", "no")
    return df


def flat(done):
    return " ".join(done.output.split())


def new_rows() -> pd.DataFrame:
    return wards().query("ward == 'C'").drop(columns=["ward", "cost", "ill"]).reset_index(drop=True)


@pytest.fixture(scope="module")
def finished(finished_runs):
    """Folders of two finished runs, of a quantity and of classes."""
    return finished_runs(wards())


@pytest.fixture
def results(finished, folder, monkeypatch):
    """The folders of the runs, which nobody changes, beside a working folder."""
    monkeypatch.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
    for name in ("cost", "ill"):
        (folder / name).symlink_to(finished / name)
    return folder


@pytest.fixture
def predicted(results, run):
    """Predict a table that is written to a file; return the predictions and the notes."""

    def call(table, *options, run_of="cost", path="new.csv", code=0, **how):
        table.to_csv(path, index=False, **how)
        done = run("predict", run_of, path, *options, code=code)
        found = pd.read_csv(io.StringIO(done.stdout), dtype={"case": str}) if code == 0 else None
        return found, " ".join(done.stderr.split())

    return call


@pytest.fixture(scope="module")
def expected(finished):
    """Predictions of the costs of the new rows."""
    new_rows().to_csv(finished / "new.csv", index=False)
    paths = [str(finished / name) for name in ("cost", "new.csv")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ResultFolder, "can_report", staticmethod(lambda: False))
        done = CliRunner().invoke(app, ["predict", *paths])
    return pd.read_csv(io.StringIO(done.stdout), dtype={"case": str})


@pytest.mark.parametrize("label", ["cost", "ill"])
def test_it_predicts_what_tune_has_predicted(predicted, label):
    found, notes = predicted(new_rows(), run_of=label)
    before = pd.read_csv(f"{label}/predictions.csv", dtype={"case": str})
    assert list(found) == list(before)
    assert found["row"].to_list() == list(range(ROWS))
    pd.testing.assert_frame_equal(found.drop(columns="row"), before.drop(columns="row"))
    assert notes == ""


def test_columns_in_any_order(predicted, expected):
    shuffled = new_rows()[["seen", "sex", "case", "age"]].assign(ward="C", weight=3)
    found, notes = predicted(shuffled)
    pd.testing.assert_frame_equal(found, expected)
    assert notes == "note 1 column is ignored, being unknown from training: 'weight'"


def test_missing_columns(predicted):
    _, notes = predicted(new_rows().rename(columns={"age": "Age"}), code=2)
    assert "lack 1 column that the model reads: 'age'; is it 'Age'?" in notes
    found, notes = predicted(new_rows().drop(columns="case"))
    assert list(found) == ["row", "prediction"]
    assert "no identifier 'case'" in notes


def test_no_rows(predicted):
    found, _ = predicted(new_rows()[:0])
    assert list(found) == ["case", "row", "prediction"]
    assert found.empty
    found, _ = predicted(new_rows()[:0], run_of="ill")
    assert list(found)[-2:] == ["probability_no", "probability_yes"]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (
            lambda df: df.assign(seen=pd.to_datetime(df["seen"], dayfirst=True)),
            "'seen': 40 dates are written year-month-day (in training day.month.year)",
        ),
        (
            lambda df: df.assign(age=df["age"].astype(str).str.replace(".", ",")),
            "'age': numbers with a decimal comma",
        ),
        (lambda df: df.assign(sex=" " + df["sex"].str.upper()), "is read as 'm'"),
        (lambda df: df.assign(age=df["age"].astype(str) + " years"), "with 'years'"),
    ],
)
def test_what_is_clear_is_read_right(predicted, expected, change, note):
    """And said: nothing of it was silently missing before."""
    found, notes = predicted(change(new_rows()), "--strict")
    pd.testing.assert_frame_equal(found, expected)
    assert note in notes


def test_semicolons_and_decimal_commas_need_no_note(predicted, expected):
    found, notes = predicted(new_rows(), sep=";", decimal=",", encoding="utf-16")
    pd.testing.assert_frame_equal(found, expected)
    assert notes == ""


@pytest.mark.parametrize(
    ("column", "values", "note"),
    [
        ("seen", ["soon", *["31.12.2024"] * 39], "1 value is not a date ('soon')"),
        ("seen", ["05/06/2024"] * 40, "40 values are not dates"),  # of June or of May?
        ("age", ["3,5", "3.5"] * 20, "20 values are not numbers ('3,5')"),
        ("age", ["old"] * 40, "40 values are not numbers ('old')"),
        ("age", [""] * 40, "100 % of the values are missing (in training 0 %)"),
        ("age", [170.0] * 40, "40 values (100 %) are above the largest in training"),
        ("sex", ["x", *["f", "m"] * 19, "f"], "1 value (2 %) is of categories that training did"),
    ],
)
def test_what_is_not_is_reported(predicted, column, values, note):
    table = new_rows().assign(**{column: values})
    found, notes = predicted(table)
    assert len(found) == 40
    assert f"column {column!r}: {note}" in notes
    _, error = predicted(table, "--strict", code=2)
    assert error.startswith("shiftune: column")
    assert note in error


def test_drift(predicted):
    _, notes = predicted(new_rows().assign(age=new_rows()["age"] + 15))
    assert "may not hold for them" in notes
    assert "'age' (0." in notes
    assert "'sex' (" not in notes
    _, notes = predicted(new_rows()[:1])  # one row shows no drift
    assert notes == ""


READERS = {
    "csv.gz": partial(pd.read_csv, dtype={"case": str}),
    "parquet": pd.read_parquet,
    "feather": pd.read_feather,
    "jsonl": partial(pd.read_json, lines=True, dtype=False),
    "xlsx": partial(pd.read_excel, dtype={"case": str}),
}


@pytest.mark.parametrize("ending", READERS)
def test_kinds_of_files(expected, run, results, ending):
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
    table, path = new_rows(), f"new.{ending}"
    if ending == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        name = {"csv.gz": "csv", "xlsx": "excel"}.get(ending, ending)
        index = {} if name in ("parquet", "feather") else {"index": False}
        getattr(table, f"to_{name}")(path, **index)
    found = f"found.{ending}"
    assert (
        run("predict", "cost", path, "--out", found).output == f"{ROWS} rows predicted: {found}\n"
    )
    pd.testing.assert_frame_equal(
        READERS[ending](found).astype({"case": str}), expected, check_dtype=False
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather", "jsonl"])
def test_parts_decide_together(expected, run, results, monkeypatch, ending):
    """A decimal comma in the last part is one in the first; rows are counted through."""
    table = new_rows().assign(age=new_rows()["age"].astype(str).str.replace(".", ","))
    table["age"] = table["age"].str.removesuffix(",0")
    path = f"new.{ending}"
    if ending == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        getattr(table, f"to_{ending}")(path, **({"index": False} if ending == "csv" else {}))
    monkeypatch.setattr(_files, "ROWS_AT_ONCE", 7)
    done = run("predict", "cost", path)
    found = pd.read_csv(io.StringIO(done.stdout), dtype={"case": str})
    pd.testing.assert_frame_equal(found, expected)
    assert "numbers with a decimal comma" in done.stderr


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_pipes(expected, results, kind):
    content = {
        "csv": lambda df: df.to_csv(index=False).encode(),
        "jsonl": lambda df: df.to_json(orient="records", lines=True).encode(),
        "parquet": lambda df: df.to_parquet(),
    }[kind](new_rows())
    done = CliRunner().invoke(app, ["predict", "cost", "-"], input=content)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout), dtype={"case": str})
    pd.testing.assert_frame_equal(found, expected)


def test_the_last_update_predicts(results, run, predicted, finished):
    (results / "cost").unlink()
    shutil.copytree(finished / "cost", results / "cost")
    rows = np.arange(2 * ROWS, 2 * ROWS + 10)
    labels = pd.DataFrame({"row": rows, "cost": wards()["cost"].iloc[rows] + 50})
    labels.to_csv("labels.csv", index=False)
    run("update", "cost", "labels.csv", "--data", finished / "cost.csv")
    found, _ = predicted(new_rows(), "--interval", "0.75")
    updated = pd.read_csv("cost/updates/1/predictions.csv")
    before = load_model("cost/model.skops").scores.quantile(0.75)
    assert (found["high"] - found["low"]).max() < 3 * before
    np.testing.assert_allclose(found["prediction"], updated["prediction"])
    best = results / "cost" / "best.json"
    write_json(best, read_json(best) | {"params": {"alpha": 3.0}})
    save_model(load_model("cost/model.skops"), "cost/model", mark=fingerprint(read_json(best)))
    found, notes = predicted(new_rows())
    before = pd.read_csv("cost/predictions.csv")
    np.testing.assert_allclose(found["prediction"], before["prediction"])
    assert "are of an earlier model and are not used" in notes


def test_mistakes(results, run):
    new_rows().to_csv("new.csv", index=False)
    assert "holds no result" in run("predict", ".", "new.csv", code=2).output
    assert "did you mean new.csv" in run("predict", "cost", "nwe.csv", code=2).output
    assert "one of .csv " in run("predict", "cost", "new.csv", "--out", "x", code=2).output


def test_a_model_that_is_not_the_one_of_the_result(results, finished, run):
    """It would predict something."""
    (results / "cost").unlink()
    shutil.copytree(finished / "cost", results / "cost")
    new_rows().to_csv("new.csv", index=False)
    shutil.copy(finished / "ill" / "model.skops", "cost/model.skops")
    message = flat(run("predict", "cost", "new.csv", code=2))
    assert "cost/model.skops is the model of another result" in message
    assert "shiftune report cost writes it again" in message


def test_files_of_the_user_are_kept(results, run):
    new_rows().to_csv("new.csv", index=False)
    Path("link.csv").symlink_to("nothing")
    before = Path("new.csv").read_bytes()
    for out in ("new.csv", "link.csv", "cost/predictions.csv"):
        done = run("predict", "cost", "new.csv", "--out", out, code=2)
        assert f"{out} exists; give another place with --out, or --overwrite" in flat(done)
    assert Path("new.csv").read_bytes() == before
    assert Path("link.csv").is_symlink()
    run("predict", "cost", "new.csv", "--out", "new.csv", "--overwrite")
    assert list(pd.read_csv("new.csv")) == ["case", "row", "prediction"]


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_closed_streams(results, closed):
    """As Python shows them after `shiftune predict ... >&-`."""
    new_rows().to_csv("new.csv", index=False)
    shell = 'exec "$0" -m shiftune predict cost "$@"'
    shell += {"stdin": " - <&-", "stdout": " new.csv >&-"}[closed]
    command = ["sh", "-c", shell, sys.executable]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"shiftune: standard {closed[3:]}put is closed; give ")


@pytest.mark.parametrize("ending", ["csv", "xlsx", "jsonl"])
def test_a_column_twice(results, run, ending):
    """It would be the first of the two, without a word."""
    table, path = new_rows(), f"new.{ending}"
    table.insert(0, "AGE", 7.0)
    if ending == "csv":
        table.rename(columns={"AGE": "age"}).to_csv(path, index=False)
    elif ending == "xlsx":
        pytest.importorskip("openpyxl")
        table.rename(columns={"AGE": "age"}).to_excel(path, index=False)
    else:
        table.to_json(path, orient="records", lines=True)
        Path(path).write_text(Path(path).read_text().replace("AGE", "age"))
    message = flat(run("predict", "cost", path, code=2))
    assert f"{path} has 2 columns named 'age'; rename all but the one that is meant" in message


def test_identifiers_with_our_names(results, predicted, finished, run):
    df = wards().drop(columns="ill").rename(columns={"case": "prediction"})
    df["cost"] = df["cost"].where(df["ward"] != "C")
    df.to_csv("other.csv", index=False)
    args = ["--site", "ward", "--target", "C", "--label", "cost", "--model", "ridge"]
    run("tune", "other.csv", *args, "--trials", "1", "--out", "other")
    found, notes = predicted(new_rows().rename(columns={"case": "prediction"}), run_of="other")
    assert list(found) == ["prediction", "row", "prediction_"]
    assert "its columns become 'prediction_'" in notes


def test_intervals(predicted):
    found, _ = predicted(new_rows(), "--interval", "0.75")
    assert list(found) == ["case", "row", "prediction", "low", "high"]
    truth = wards().query("ward == 'C'")["cost"].to_numpy()
    assert np.mean((found["low"] <= truth) & (truth <= found["high"])) > 0.6
    middle = (found["low"] + found["high"]) / 2
    np.testing.assert_allclose(middle, found["prediction"])
    sets, _ = predicted(new_rows(), "--interval", "0.75", run_of="ill")
    assert set(sets["set"]) <= {"no", "yes", "no;yes"}
    assert all(p in s for p, s in zip(sets["prediction"], sets["set"], strict=True))
    empty, _ = predicted(new_rows()[:0], "--interval", "0.5", run_of="ill")
    assert list(empty)[-1] == "set"


def test_intervals_need_sites(predicted):
    _, error = predicted(new_rows(), "--interval", "0.9", code=2)
    assert "needs at least 9 sites with labels, and there are 3" in error
    assert "the highest level is 0.75" in error
    _, error = predicted(new_rows(), "--interval", "90", code=2)
    assert "between 0 and 1" in error


# ---------------------------------------------------------------- in Python


def test_the_model_in_python(results):
    model = load_model("ill/model.skops")
    before = pd.read_csv("ill/predictions.csv")
    table = new_rows()
    assert model.predict(table).tolist() == before["prediction"].to_list()
    np.testing.assert_allclose(model.predict_proba(table)[:, 1], before["probability_yes"])
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.predict(table[:0]).shape == (0,)
    assert model.predict_proba(table[:0]).shape == (0, 2)
    assert not hasattr(load_model("cost/model.skops"), "predict_proba")
    iso = table.assign(seen=pd.to_datetime(table["seen"], dayfirst=True).astype(str))
    with pytest.warns(DataWarning, match="written year-month-day"):
        np.testing.assert_array_equal(model.predict(iso), model.predict(table))
    with pytest.warns(DataWarning, match="1 column is ignored, .* from training: 'weight'"):
        model.predict(table.assign(weight=1))
    (finding,) = model.findings(table.assign(sex="x"))
    assert finding.column == "sex"
    assert finding.serious
    assert model.drift(table.assign(age=90)).index[0] == "age"


def test_intervals_in_python(results):
    table = new_rows()
    values, classes = load_model("cost/model.skops"), load_model("ill/model.skops")
    ends = values.predict_interval(table, 0.6)
    np.testing.assert_allclose(ends.mean(axis=1), values.predict(table))
    assert classes.predict_set(table, 0.6).shape == (ROWS, 2)
    with pytest.raises(ProblemError, match="predict_set"):
        classes.predict_interval(table)
    with pytest.raises(ProblemError, match="predict_interval"):
        values.predict_set(table)


def test_a_typed_table_is_read_as_it_is(results):
    model = load_model("cost/model.skops")
    table = new_rows()
    expected = model.predict(table)
    typed = table.assign(
        seen=pd.to_datetime(table["seen"], dayfirst=True), sex=table["sex"].astype("category")
    )
    np.testing.assert_array_equal(model.predict(typed), expected)


LOADED = """
import sys
from shiftune.__main__ import main
from shiftune.cli._folder import ResultFolder
ResultFolder.can_report = staticmethod(lambda: False)
sys.argv = ["shiftune", "predict", "cost", "new.csv", "--out", "predicted.csv"]
try:
    main()
finally:
    print(*sys.modules, sep="\\n")
"""


def test_it_loads_little(results):
    """Nobody waits for the search, or for Optuna, when the model of a result predicts rows."""
    new_rows().to_csv("new.csv", index=False)
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv("predicted.csv")) == ROWS, done.stderr
    loaded = done.stdout.split()
    assert len([name for name in loaded if name.split(".")[0] == "shiftune"]) <= 60
    assert not {"optuna", "matplotlib", "shiftune.search", "shiftune.workers"} & set(loaded)


def test_rows_of_other_sites_are_named(results, run):
    """The model of one site is for that site, whose name a spreadsheet may have rewritten."""
    wards().query("ward != 'D'").drop(columns=["cost", "ill"]).to_csv("others.csv", index=False)
    shown = flat(run("predict", "cost", "others.csv", "--out", "p.csv"))
    assert "the model is for 'C', and rows are of 'A' and 'B'" in shown
    wards().query("ward == 'C'").drop(columns=["cost", "ill"]).to_csv("same.csv", index=False)
    assert "the model is for" not in flat(run("predict", "cost", "same.csv", "--out", "q.csv"))


def test_a_missing_column_has_a_remedy(results, run):
    new_rows().drop(columns="age").to_csv("new.csv", index=False)
    shown = flat(run("predict", "cost", "new.csv", "--out", "p.csv", code=2))
    assert "'age'; add it, with empty cells if unknown" in shown
