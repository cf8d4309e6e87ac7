"""Large tables: read in parts, with a stated sample of every site."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import DataWarning, ProblemError, SearchWarning
from shiftune.problem import _large
from shiftune.problem._large import Parts, read_sampled

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


def in_parts(table):
    """A table in two parts."""

    def read(columns):
        chosen = table if columns is None else table[list(columns)]
        half = len(table) // 2
        return iter([chosen.iloc[:half], chosen.iloc[half:]])

    return Parts(list(table), read)


def folder(df, path):
    pytest.importorskip("pyarrow")
    for i in range(3):
        df.iloc[i * 300 : (i + 1) * 300].to_parquet(path / f"part-{i}.parquet")
    return path


def by_site(df, path):
    pytest.importorskip("pyarrow")
    df.to_parquet(path, partition_cols=["site"])
    return str(path)


@pytest.mark.parametrize("kind", [folder, by_site, lambda df, path: in_parts(df)])
def test_all_kinds_of_tables_have_the_same_rows(df, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(_large, "ROWS_AT_ONCE", 200)
    data = kind(df, tmp_path)
    sampled = read_sampled(data, "site", 1000)
    whole = sampled.table
    assert sampled.notes == []
    assert sampled.sample is None
    assert sorted(whole["z"]) == list(range(900))
    assert whole["x"].dtype == np.float32
    sampled = read_sampled(data, "site", 350)
    table = sampled.table
    assert table["site"].value_counts().to_dict() == {"A": 100, "B": 50, "C": 100, "D": 100}
    assert table["z"].is_unique
    assert sampled.notes == [
        "350 of 900 rows are read, drawn at random: at most 100 of a site; models learn from fewer "
        "rows, and standard errors that come from rows are about 2.2 times as large at the largest "
        "site"
    ]
    rows = pd.concat(sampled.tables)
    assert rows["x"].tolist() == whole["x"].iloc[rows.index].tolist()


@pytest.mark.slow
def test_every_row_is_as_likely_to_be_drawn(df, monkeypatch):
    monkeypatch.setattr(_large, "ROWS_AT_ONCE", 70)
    drawn = np.zeros(900)
    for seed in range(200):
        drawn[read_sampled(in_parts(df), "site", 350, random_state=seed).table["z"]] += 1
    large = df.loc[df["site"] == "D", "z"]  # 100 of 500: binomial, with a deviation of 5.7
    assert drawn[large].mean() == 40
    assert drawn[large].std() == pytest.approx(5.7, abs=1)
    first, last = drawn[large[:250]].mean(), drawn[large[250:]].mean()
    assert first == pytest.approx(last, abs=1.5)  # four standard errors of the difference


def test_a_problem_of_a_sample_says_so(df):
    problem = ShiftProblem.from_large(in_parts(df), **ROLES, most_rows=350, features=["x"])
    assert list(problem.columns) == ["x"]
    assert "350 of 900 rows" in problem.notes[0]
    found = {site.name: len(site) for site in (problem.target, *problem.sources)}
    assert found == {"A": 100, "B": 50, "C": 100, "D": 100}
    same = ShiftProblem.from_large(in_parts(df), **ROLES, most_rows=350, features=["x"])
    assert same.fingerprint() == problem.fingerprint()


def test_the_result_compares_its_standard_error_with_that_of_all_rows(df):
    sampled = {**ROLES, "most_rows": 350, "features": ["x"]}
    problem = ShiftProblem.from_large(df, **sampled, task="classification")
    search = ShiftSearch(LogisticRegression(), {"C": FloatDistribution(0.1, 1)}, n_trials=1)
    with pytest.warns(SearchWarning, match="would be about"):
        search.fit(problem)
    (note,) = (note for note in search.result_.notes if "with all rows" in note)
    now, more = (float(word) for word in note.split() if word[0].isdigit())
    assert now == pytest.approx(search.risk_.stderr, rel=0.01)
    assert 0.3 * now < more < now


def test_all_labels_of_the_target_are_read(df, monkeypatch):
    """The labelled rows are unusual; the target's rows are a plain draw, all the same."""
    monkeypatch.setattr(_large, "ROWS_AT_ONCE", 70)
    rows = np.flatnonzero(df["site"] == "D")[:60]
    df["y"] = np.where(df["site"] == "D", np.nan, df["x"] > 0)
    df.loc[rows, "y"] = 0.0
    roles = {**ROLES, "target": "D", "target_labels": "use", "most_rows": 140, "random_state": 1}
    problem = ShiftProblem.from_large(in_parts(df), **roles, features=["z"])
    assert len(problem.labelled_target) == 60
    assert set(problem.labelled_target.X["z"]) == set(df.loc[rows, "z"])
    assert {site.name: len(site) for site in (problem.target, *problem.sources)} == dict.fromkeys(
        "ABCD", 20
    )
    assert 0 < np.isin(problem.target.X["z"], df.loc[rows, "z"]).sum() < 10  # 2.4 expected
    assert "all 60 labelled rows of the target are read, beside those drawn" in problem.notes


def test_rows_without_label_are_not_drawn(df, monkeypatch):
    monkeypatch.setattr(_large, "ROWS_AT_ONCE", 70)
    own = df["site"] == "D"
    few = df.index[own][:40]
    df.loc[own & ~df.index.isin(few), "y"] = np.nan
    options = {**ROLES, "most_rows": 200, "missing_labels": "drop", "features": ["x"]}
    with pytest.warns(DataWarning, match="460 row"):
        problem = ShiftProblem.from_large(in_parts(df), **options)
    assert {site.name: len(site) for site in (problem.target, *problem.sources)} == {
        "A": 55, "B": 50, "C": 55, "D": 40,
    }  # fmt: skip
    assert problem.notes[0].startswith("200 of 440 rows are read")
    assert "460 rows without label are left out: 460 of 'D'" in problem.notes
    with pytest.warns(DataWarning, match="460 row"):
        whole = ShiftProblem.from_large(in_parts(df), **options | {"most_rows": 900})
    assert {site.name: len(site) for site in whole.sources} == {"B": 50, "C": 250, "D": 40}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"most_rows": 0}, "most_rows must be a whole number above 0"),
        ({"most_rows": 20}, "leaves 5 of each of 4 sites; allow at least 40 rows"),
        ({"data": 3}, "got int"),
        ({"data": "big/*.parquet"}, "is a pattern; give the folder of the Parquet files, big"),
        ({"data": "no/such/folder"}, "there is no file or folder no/such/folder"),
        ({"data": pd.DataFrame({"site": ["B", None], "y": 0})}, "is empty in 1 row"),
        ({"data": pd.DataFrame({"site": [], "y": []})}, "no rows"),
        ({"data": doubled("y")}, r"column names \['y'\] occur more than once; rename them"),
        ({"data": doubled("y").set_axis(["site", "y", "x", "x\0"], axis=1)}, "a NUL character"),
        ({"data": doubled("site")}, r"column names \['site'\] occur more than once"),
        ({"group": "z", "most_rows": 9}, "a draw of 9 of 900 rows would divide groups of .* 'z'"),
        ({"target": "B"}, "site 'A': the label 'y' is missing in 100 of 100 rows"),
        ({"label": "yy", "most_rows": 300}, "no column 'yy'"),
        (
            {"target": "B", "target_labels": "use", "missing_labels": "drop", "most_rows": 50},
            "50 labelled rows, .* a draw of 50 rows has no room for others",
        ),
        ({"data": pd.DataFrame({"site": ["B"], "y": [None]}), "missing_labels": "drop"}, "no row"),
    ],
)
def test_errors_name_what_to_do(df, change, words):
    if isinstance(change.get("data"), str):
        pytest.importorskip("pyarrow")
    with pytest.raises(ProblemError, match=words):
        ShiftProblem.from_large(**{"data": df, **ROLES, **change})


def test_csv_is_refused_in_words(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "big.csv.gz"
    path.write_text("site,y\nA,1\n")
    with pytest.raises(ProblemError, match="is a CSV file, and from_large reads"):
        ShiftProblem.from_large(path, **ROLES)


def test_a_label_that_is_missing_in_a_row_that_is_not_drawn_is_an_error(df):
    df.loc[df.index[df["site"] == "D"][0], "y"] = np.nan
    for most_rows in (100, 1000):
        with pytest.raises(ProblemError, match="site 'D': the label 'y' is missing in 1 of 500"):
            ShiftProblem.from_large(df, **ROLES, most_rows=most_rows)


@pytest.mark.parametrize(
    "second",
    [
        lambda df: [df.head(400), df[400:800]],
        lambda df: [df.head(400)],
        lambda df: [df.head(400), df[400:], df.head(1)],
        lambda df: [df.head(400), df[400:].assign(site="A")],
    ],
    ids=["fewer rows", "fewer parts", "more parts", "other sites"],
)
def test_a_table_that_changes_while_it_is_read_is_refused(df, second):
    reads = iter([[df.head(400), df[400:]], second(df)])
    changing = Parts(list(df), lambda columns: iter(next(reads)))
    with pytest.raises(ProblemError, match="changed while it was read"):
        read_sampled(changing, "site", 300)


def test_no_sample_where_only_rows_without_labels_are_left_out(df):
    df.loc[df["site"] == "D", "y"] = np.where(np.arange(500) < 400, np.nan, 1.0)
    with pytest.warns(DataWarning, match="400"):
        problem = ShiftProblem.from_large(df, **ROLES, most_rows=600, missing_labels="drop")
    assert problem.sample is None
    assert sum(len(site) for site in problem.sources) == 400


def test_more_rows_of_a_site_than_can_be_drawn_from(df, monkeypatch):
    monkeypatch.setattr("shiftune.problem._large.MOST_OF_A_SITE", 400)
    with pytest.raises(ProblemError, match="site 'D' has 500 rows; no more than 400"):
        ShiftProblem.from_large(df, **ROLES, most_rows=300)


@pytest.mark.parametrize("risk", ["adjusted", "naive"])
def test_a_sample_with_labelled_rows_of_the_target(df, risk):
    df.loc[df.index[df["site"] == "A"][:12], "y"] = [0.0, 1.0] * 6
    problem = ShiftProblem.from_large(df, **ROLES, most_rows=400, target_labels="use")
    options = {"n_trials": 1, "progress": False, "final": "best"}
    search = ShiftSearch(LogisticRegression(), {"C": [1.0]}, risk=risk, **options)
    with pytest.warns(SearchWarning, match="a sample was drawn"):
        search.fit(problem)
    assert 0 < search.result_.stderr_of_all_rows < search.risk_.stderr


@pytest.mark.slow
def _pid(part):
    return os.getpid()
