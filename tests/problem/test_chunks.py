"""Large tables: read in parts, with a stated sample of every site."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.errors import DataWarning, ProblemError
from shiftune.problem._large import read_sampled
from shiftune.problem._table import TableSettings
from shiftune.tables import SiteFiles, _files

ROLES = {"columns": "as given", "site": "site", "label": "y", "target": "A"}


@pytest.fixture
def df(rng) -> pd.DataFrame:
    n = 900
    table = pd.DataFrame({"x": rng.normal(size=n).astype("float32"), "z": np.arange(n)})
    table["site"] = np.repeat(["A", "B", "C", "D"], [100, 50, 250, 500])
    return table.assign(y=np.where(table["site"] == "A", np.nan, table["x"] > 0)).sample(
        frac=1, random_state=0, ignore_index=True
    )


def doubled(name):
    """Return a table that has a column twice."""
    table = pd.DataFrame({"site": ["A", "B"], "y": [0.0, 1.0], "x": [2.0, 3.0]})
    return pd.concat([table, table[[name]]], axis=1)


def csv(df, path):
    df.to_csv(path / "table.csv", index=False)
    return path / "table.csv"


def sample(data, most_rows, random_state=0):
    """Read rows whose labels do not matter."""
    settings = TableSettings(site="site", target=None)
    data = data if isinstance(data, pd.DataFrame) else SiteFiles(Path(data), site="site")
    return read_sampled(data, settings, most_rows, random_state)


def folder(df, path):
    pytest.importorskip("pyarrow")
    for i in range(3):
        df.iloc[i * 300 : (i + 1) * 300].to_parquet(path / f"part-{i}.parquet")
    return path


def by_site(df, path):
    pytest.importorskip("pyarrow")
    df.to_parquet(path, partition_cols=["site"])
    return str(path)


@pytest.mark.parametrize("kind", [folder, by_site, csv, lambda df, path: df])
def test_all_kinds_of_tables_have_the_same_rows(df, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "ROWS_AT_ONCE", 200)
    data = kind(df, tmp_path)
    sampled = sample(data, 1000)
    whole = sampled.table
    assert sampled.notes == ()
    assert sampled.sample is None
    assert sorted(whole["z"]) == list(range(900))
    assert whole["x"].dtype == (float if kind is csv else np.float32)
    sampled = sample(data, 350)
    table = sampled.table
    assert table["site"].value_counts().to_dict() == {"A": 100, "B": 50, "C": 100, "D": 100}
    assert table["z"].is_unique
    assert sampled.notes == (
        "350 of 900 rows are read, drawn at random: at most 100 of a site; models learn from fewer "
        "rows, and standard errors that come from rows are about 2.2 times as large at the largest "
        "site",
    )
    assert table["x"].tolist() == whole["x"].iloc[sampled.rows].tolist()


@pytest.mark.slow
def test_every_row_is_as_likely_to_be_drawn(df):
    drawn = np.zeros(900)
    for seed in range(200):
        drawn[sample(df, 350, seed).table["z"]] += 1
    large = df.loc[df["site"] == "D", "z"]  # 100 of 500: binomial, with a deviation of 5.7
    assert drawn[large].mean() == 40
    assert drawn[large].std() == pytest.approx(5.7, abs=1)
    first, last = drawn[large[:250]].mean(), drawn[large[250:]].mean()
    assert first == pytest.approx(last, abs=1.5)  # four standard errors of the difference


def test_a_problem_of_a_sample_says_so(df, tmp_path):
    path = csv(df, tmp_path)
    problem = ShiftProblem.from_large(path, **ROLES, most_rows=350, features=["x"])
    assert list(problem.columns) == ["x"]
    assert "350 of 900 rows" in problem.notes[0]
    found = {site.name: len(site) for site in (problem.target, *problem.sources)}
    assert found == {"A": 100, "B": 50, "C": 100, "D": 100}
    same = ShiftProblem.from_large(path, **ROLES, most_rows=350, features=["x"])
    assert same.fingerprint() == problem.fingerprint()


def test_all_labels_of_the_target_are_read(df, tmp_path, monkeypatch):
    """The labelled rows are unusual; the target's rows are a plain draw, all the same."""
    monkeypatch.setattr(_files, "ROWS_AT_ONCE", 70)
    rows = np.flatnonzero(df["site"] == "D")[:60]
    df["y"] = np.where(df["site"] == "D", np.nan, df["x"] > 0)
    df.loc[rows, "y"] = 0.0
    roles = {**ROLES, "target": "D", "target_labels": "use", "most_rows": 140, "random_state": 1}
    problem = ShiftProblem.from_large(csv(df, tmp_path), **roles, features=["z"])
    assert len(problem.labelled_target) == 60
    assert set(problem.labelled_target.X["z"]) == set(df.loc[rows, "z"])
    assert {site.name: len(site) for site in (problem.target, *problem.sources)} == dict.fromkeys(
        "ABCD", 20
    )
    assert 0 < np.isin(problem.target.X["z"], df.loc[rows, "z"]).sum() < 10  # 2.4 expected
    assert "all 60 labelled rows of the target are read, beside those drawn" in problem.notes


def test_rows_without_label_are_not_drawn(df, tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "ROWS_AT_ONCE", 70)
    own = df["site"] == "D"
    few = df.index[own][:40]
    df.loc[own & ~df.index.isin(few), "y"] = np.nan
    options = {**ROLES, "most_rows": 200, "missing_labels": "drop", "features": ["x"]}
    with pytest.warns(DataWarning, match="460 row"):
        problem = ShiftProblem.from_large(csv(df, tmp_path), **options)
    assert {site.name: len(site) for site in (problem.target, *problem.sources)} == {
        "A": 55, "B": 50, "C": 55, "D": 40,
    }  # fmt: skip
    assert problem.notes[0].startswith("200 of 440 rows are read")
    assert "460 rows without label are left out: 460 of 'D'" in problem.notes
    with pytest.warns(DataWarning, match="460 row"):
        whole = ShiftProblem.from_large(csv(df, tmp_path), **options | {"most_rows": 900})
    assert {site.name: len(site) for site in whole.sources} == {"B": 50, "C": 250, "D": 40}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"most_rows": 0}, "most_rows must be a whole number above 0"),
        ({"most_rows": 20}, "leaves 5 of each of 4 sites; allow at least 40 rows"),
        ({"data": 3}, "got int"),
        ({"data": "big/*.parquet"}, r"no file matches big/\*.parquet"),
        ({"data": "no/such/folder"}, "there is no file no/such/folder"),
        ({"data": pd.DataFrame({"site": ["B", None], "y": 0})}, "is empty in 1 row"),
        ({"data": pd.DataFrame({"site": [], "y": []})}, "no rows"),
        ({"data": doubled("y")}, r"column names \['y'\] occur more than once; rename them"),
        ({"data": doubled("y").set_axis(["site", "y", "x", "x\0"], axis=1)}, "a NUL character"),
        ({"data": doubled("site")}, r"column names \['site'\] occur more than once"),
        (
            {"subject": "z", "most_rows": 9},
            "a draw of 9 of 900 rows would divide subjects of .* 'z'",
        ),
        ({"target": "B"}, "site 'A': the label 'y' is missing in 100 of 100 rows"),
        ({"label": "yy", "most_rows": 300}, "no column 'yy'"),
        (
            {"target": "B", "target_labels": "use", "missing_labels": "drop", "most_rows": 50},
            "a draw of 50 rows leaves 1 .* beside 50 labelled rows .* at least 80 rows",
        ),
        ({"target": "E", "most_rows": 300}, "no site 'E'"),
    ],
)
def test_errors_name_what_to_do(df, change, words):
    with pytest.raises(ProblemError, match=words):
        ShiftProblem.from_large(**{"data": df, **ROLES, **change})


@pytest.mark.parametrize("most_rows", [350, 1000])
def test_a_file_of_any_kind_is_the_same_problem(df, tmp_path, most_rows):
    """CSV, compressed and in several files, has the rows of the frame."""
    df["x"] = df["x"].astype(float).round(4)  # digits that every version of pandas reads alike
    first, last = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    df[:300].to_csv(first, index=False)
    df[300:].to_csv(last, index=False)
    options = {**ROLES, "most_rows": most_rows, "features": ["x", "z"]}
    found = ShiftProblem.from_large(tmp_path / "*.csv*", **options)
    assert found.fingerprint() == ShiftProblem.from_large(df, **options).fingerprint()


def test_a_label_that_is_missing_in_a_row_that_is_not_drawn_is_an_error(df):
    df.loc[df.index[df["site"] == "D"][0], "y"] = np.nan
    for most_rows in (100, 1000):
        with pytest.raises(ProblemError, match="site 'D': the label 'y' is missing in 1 of 500"):
            ShiftProblem.from_large(df, **ROLES, most_rows=most_rows)


@pytest.mark.parametrize(
    "second",
    [
        lambda df: df.head(800),
        lambda df: df.head(400),
        lambda df: pd.concat([df, df.head(1)]),
        lambda df: pd.concat([df.head(400), df[400:].assign(site="A")]),
    ],
    ids=["fewer rows", "fewer parts", "more rows", "other sites"],
)
def test_a_table_that_changes_while_it_is_read_is_refused(df, tmp_path, monkeypatch, second):
    monkeypatch.setattr(_files, "ROWS_AT_ONCE", 400)
    path, read = csv(df, tmp_path), SiteFiles.read

    def changed(self, *chosen):
        second(df).to_csv(path, index=False)
        return read(self, *chosen)

    monkeypatch.setattr(SiteFiles, "read", changed)
    with pytest.raises(ProblemError, match="changed while it was read"):
        sample(path, 300)


def test_no_sample_where_only_rows_without_labels_are_left_out(df):
    df.loc[df["site"] == "D", "y"] = np.where(np.arange(500) < 400, np.nan, 1.0)
    with pytest.warns(DataWarning, match="400"):
        problem = ShiftProblem.from_large(df, **ROLES, most_rows=600, missing_labels="drop")
    assert problem.sample is None
    assert sum(len(site) for site in problem.sources) == 400


@pytest.mark.slow
def _pid(part):
    return os.getpid()
