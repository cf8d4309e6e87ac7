"""Large tables: read in parts, with a stated sample of every site."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.errors import ProblemError
from shiftune.problem import chunks
from shiftune.problem.chunks import read_sampled

ROLES = {"site": "site", "label": "y", "target": "A"}


@pytest.fixture
def df(rng) -> pd.DataFrame:
    n = 900
    table = pd.DataFrame({"x": rng.normal(size=n).astype("float32"), "z": np.arange(n)})
    table["site"] = np.repeat(["A", "B", "C", "D"], [100, 50, 250, 500])
    return table.assign(y=np.where(table["site"] == "A", np.nan, table["x"] > 0)).sample(
        frac=1, random_state=0, ignore_index=True
    )


class Lazy:
    """As much of a polars lazy frame as is used."""

    def __init__(self, table):
        self.table = table

    def select(self, columns):
        return Lazy(self.table[columns])

    def slice(self, start, length):
        return Lazy(self.table.iloc[start : start + length])

    def collect(self):
        return self.table


def folder(df, path):
    pytest.importorskip("pyarrow")
    for i in range(3):
        df.iloc[i * 300 : (i + 1) * 300].to_parquet(path / f"part-{i}.parquet")
    return path


def by_site(df, path):
    pytest.importorskip("pyarrow")
    df.to_parquet(path, partition_cols=["site"])
    return str(path)


def dask(df, path):
    return pytest.importorskip("dask.dataframe").from_pandas(df, npartitions=4)


@pytest.mark.parametrize("kind", [folder, by_site, dask, lambda df, path: Lazy(df)])
def test_all_kinds_of_tables_have_the_same_rows(df, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "ROWS_AT_ONCE", 200)
    data = kind(df, tmp_path)
    whole, notes = read_sampled(data, "site", 1000)
    assert notes == []
    assert sorted(whole["z"]) == list(range(900))
    assert whole["x"].dtype == np.float32
    table, notes = read_sampled(data, "site", 350)
    assert table["site"].value_counts().to_dict() == {"A": 100, "B": 50, "C": 100, "D": 100}
    assert table["z"].is_unique
    assert notes == [
        "350 of 900 rows are read, drawn at random: at most 100 of a site; standard errors that "
        "come from rows are up to 2.2 times those of all rows"
    ]


def test_every_row_is_as_likely_to_be_drawn(df, monkeypatch):
    monkeypatch.setattr(chunks, "ROWS_AT_ONCE", 70)
    drawn = np.zeros(900)
    for seed in range(200):
        drawn[read_sampled(Lazy(df), "site", 350, random_state=seed)[0]["z"]] += 1
    large = df.loc[df["site"] == "D", "z"]  # 100 of 500: binomial, with a deviation of 5.7
    assert drawn[large].mean() == 40
    assert drawn[large].std() == pytest.approx(5.7, abs=1)
    first, last = drawn[large[:250]].mean(), drawn[large[250:]].mean()
    assert first == pytest.approx(last, abs=1.5)  # four standard errors of the difference


def test_a_problem_of_a_sample_says_so(df):
    problem = ShiftProblem.from_large(Lazy(df), **ROLES, most_rows=350, features=["x"])
    assert problem.columns == ["x"]
    assert "350 of 900 rows" in problem.notes[0]
    assert [len(site) for site in (problem.target, *problem.sources)] == [100, 50, 100, 100] or (
        sorted(map(len, problem.sources)) == [50, 100, 100]
    )
    same = ShiftProblem.from_large(Lazy(df), **ROLES, most_rows=350, features=["x"])
    assert same.fingerprint() == problem.fingerprint()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"most_rows": 0}, "most_rows must be a whole number above 0"),
        ({"data": 3}, "got int"),
        ({"data": "no/such/folder"}, "there is no file or folder no/such/folder"),
        ({"data": pd.DataFrame({"site": ["B", None], "y": 0})}, "is empty in 1 row"),
        ({"data": pd.DataFrame({"site": [], "y": []})}, "no rows"),
    ],
)
def test_errors_name_what_to_do(df, change, words):
    if isinstance(change.get("data"), str):
        pytest.importorskip("pyarrow")
    with pytest.raises(ProblemError, match=words):
        ShiftProblem.from_large(**{"data": df, **ROLES, **change})
