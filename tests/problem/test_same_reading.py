"""One table is the same problem in whatever way it comes: a frame, files, a draw of its rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.columns._columns import NewRows
from shiftune.errors import DataError
from shiftune.tables import SiteFiles, read_as_written, read_file

ROLES = {"site": "site", "label": "y", "target": "A"}
N = 40


@pytest.fixture
def df(rng) -> pd.DataFrame:
    x = rng.normal(50, 8, 3 * N).round(3)
    table = pd.DataFrame({"site": np.repeat(["A", "B", "C"], N), "x": x})
    return table.assign(y=np.where(table["site"] == "A", np.nan, (x + rng.normal(size=3 * N)) // 1))


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
def test_the_decimal_sign_of_a_file_is_that_of_labels_and_weights(df, tmp_path):
    euros = (7 + df["x"].rank() / 1000).map("{:.3f} €".format).str.replace(".", ",")
    df["x"], df["weight"] = euros, euros
    df["y"] = df["x"]
    df.to_csv(tmp_path / "a.csv", sep=";", index=False)
    options = {"sample_weight": "weight", "task": "regression", "target_labels": "oracle"}
    problem = ShiftProblem.from_large(tmp_path / "a.csv", **ROLES, **options)
    source = problem.sources[0]
    for values in (source.X["x"], source.labels, source.sample_weight, problem.oracle.y):
        assert max(values) < 8


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
@pytest.mark.parametrize("labels", ["hide", "use", "oracle"])
def test_rows_of_a_draw_are_those_of_the_table(df, labels, tmp_path):
    df = df.sample(frac=1, random_state=0, ignore_index=True)
    df.loc[np.flatnonzero(df["site"] == "A")[: 9 if labels == "use" else N], "y"] = 50.0
    df.to_csv(tmp_path / "a.csv", index=False)
    for data in (df, tmp_path / "a.csv"):
        options = {"most_rows": 60, "target_labels": labels, "task": "regression"}
        problem = ShiftProblem.from_large(data, **ROLES, **options)
        more = (problem.labelled_target, problem.oracle)
        for site in (problem.target, *problem.sources, *filter(None, more)):
            assert df["x"].iloc[site.rows].tolist() == site.X["x"].tolist()


def test_rows_of_a_draw_beside_a_table_of_the_target(df):
    own, others = df[df["site"] == "A"], df[df["site"] != "A"]
    problem = ShiftProblem.from_large(others, site="site", label="y", target=own, most_rows=30)
    for site, table in ((problem.target, own), *((each, others) for each in problem.sources)):
        assert table["x"].iloc[site.rows].tolist() == site.X["x"].tolist()


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
def test_a_draw_of_sites_with_spaces(df):
    df["site"] = np.where(df.index % 2, df["site"] + " ", df["site"])
    problem = ShiftProblem.from_large(df, **ROLES, most_rows=60)
    assert [len(site) for site in (problem.target, *problem.sources)] == [20, 20, 20]


@pytest.mark.parametrize("empty", ["0.csv", "z.csv"])
def test_a_file_without_rows_among_others(df, empty, tmp_path):
    df["y"] = df["y"].fillna(0.0)
    df.to_csv(tmp_path / "a.csv", index=False)
    df[:0].to_csv(tmp_path / empty, index=False)
    assert read_file(tmp_path / "*.csv")["x"].tolist() == df["x"].tolist()
    rows = np.arange(0, 120, 3)
    drawn = SiteFiles(tmp_path / "*.csv", site="site").read(None, rows, 120)
    assert drawn["x"].tolist() == df["x"].iloc[rows].tolist()


def test_parquet_without_rows_as_written(df, tmp_path):
    pytest.importorskip("pyarrow")
    df[:0].to_parquet(tmp_path / "a.parquet")
    assert read_as_written(tmp_path / "*.parquet", ["site"]).shape == (0, 1)


def test_json_lines_have_the_numbers_of_csv(df, tmp_path, rng):
    df["x"] = rng.normal(size=3 * N).round(12)
    df.to_csv(tmp_path / "a.csv", index=False)
    df.to_json(tmp_path / "a.jsonl", orient="records", lines=True, double_precision=15)
    csv, json = (read_file(tmp_path / name) for name in ("a.csv", "a.jsonl"))
    assert csv["x"].tolist() == json["x"].tolist()


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
def test_a_column_that_is_left_out_may_hold_anything(df):
    df["blob"] = [{"a": 1}] * len(df)
    assert list(ShiftProblem.from_frame(df, **ROLES, drop=["blob"]).columns) == ["x"]
    with pytest.raises(DataError, match="leave it out"):
        ShiftProblem.from_frame(df, **ROLES)


def test_columns_that_are_no_features_are_known(df):
    problem = ShiftProblem.from_frame(df.assign(z=df["x"]), **ROLES, features=["x"])
    assert NewRows(problem.columns).about_names(["x", "z"]) == []


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
@pytest.mark.parametrize("apart", ["A", "the others"])
def test_numbers_as_text_in_one_of_two_tables(df, apart):
    own, others = df[df["site"] == "A"], df[df["site"] != "A"]
    text = df["x"].map("{:.3f}".format).str.replace(".", ",")
    if apart == "A":
        own = own.assign(x=text)
    else:
        others = others.assign(x=text)
    problem = ShiftProblem.from_frame(others, site="site", label="y", target=own)
    assert problem.target.X["x"].tolist() == df["x"][:N].tolist()
    assert problem.sources[0].X["x"].tolist() == df["x"][N : 2 * N].tolist()
    with pytest.raises(DataError, match="convert it to one kind"):
        ShiftProblem.from_frame(df[N:], site="site", label="y", target=own.assign(x="high"))


@pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
def test_hidden_labels_do_not_change_the_type_of_others(df):
    def of(labels):
        table = df.assign(y=np.where(df["site"] == "A", labels, df["y"]))
        tables = [table, table.assign(y=table["y"].astype("Int64"))]
        if not np.isnan(labels):
            tables.append(table.astype({"y": int}))
        return {
            ShiftProblem.from_frame(t, **ROLES, columns="as given").fingerprint() for t in tables
        }

    assert len(of(np.nan) | of(3.0)) == 1
