"""Digits with leading zeros are codes, whatever column they stand in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.cli._options import shell_option
from shiftune.columns._column import TableRows, learn
from shiftune.errors import ProblemError
from shiftune.problem._table import TableSettings
from shiftune.tables import _files, read_file

N = 600
SITES = pd.Series(np.where(np.arange(N) < 200, "A", "B"))


def site_table(df, notes=(), **settings):
    """Read a table as the command line does."""
    return ShiftProblem.of_table(
        df.rename(columns=str), TableSettings(option=shell_option, **settings), notes, warn=False
    )


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "hospital": np.repeat(["A", "B", "C"], N // 3),
            "age": rng.normal(50, 8, N).round(1),
            "y": rng.integers(0, 2, N),
        }
    )


@pytest.fixture
def understood(tmp_path):
    """Write a table to a file, and make sense of the file."""

    def call(df, *, csv=None, target="A", **options):
        df.to_csv(tmp_path / "table.csv", index=False, **(csv or {}))
        read = read_file(tmp_path / "table.csv")
        return site_table(read, site="hospital", target=target, label="y", **options)

    return call


@pytest.mark.parametrize(
    "csv", [{}, {"sep": ";", "decimal": ","}, {"sep": "\t", "quoting": 2}, {"encoding": "cp1252"}]
)
def test_numbers_of_patients_are_no_features(table, understood, csv):
    numbers = np.random.default_rng(1).permutation(99999)[:N]
    table["tag"] = [f"{number:05}" for number in numbers]
    table["größe"] = 1.5
    columns = understood(table, csv=csv).columns.overview()
    assert columns.loc["tag", "remark"].startswith("left out: a different value")
    assert columns.loc["tag", "identifier"]
    assert columns.loc["age", "kind"] == "number"


@pytest.mark.parametrize("name", ["pid", "mrn", "patient_mrn"])
@pytest.mark.parametrize("zeros", [False, True])
def test_patients_of_several_rows(table, understood, name, zeros):
    table[name] = [f"{i // 4 + 1:04}" if zeros else i // 4 * 7 for i in range(N)]
    assert understood(table).columns.identifiers == [name]


@pytest.mark.parametrize("name", ["pid", "MRN", "mrn"])
def test_names_of_cases_with_a_row_each(name):
    column = pd.Series(np.arange(N) * 1000, name=name)
    assert learn(column, TableRows(SITES, "A"))[0].identifier


def test_few_codes_are_categories(table, understood):
    table["postcode"] = np.resize(["01067", "10115", None, "80331"], N)
    found = understood(table)
    assert found.columns["postcode"].kind == "category"
    assert found.columns.overview().loc["postcode", "missing"] == 0.25
    assert found.columns.overview().loc["postcode", "remark"] == (
        "codes with leading zeros ('01067'): read as categories"
    )
    assert set(found.target.X["postcode"].dropna()) == {"01067", "10115", "80331"}


def test_many_codes_are_told_apart_in_part():
    values = pd.Series([f"{i % 60:03}" for i in range(N)])
    found, _ = learn(values, TableRows(SITES, "A"))
    assert found.kind == "category"
    assert found.remark.endswith("read as categories; rare ones share one category")


def test_what_is_no_code(table, understood):
    table["flag"] = np.resize([0, 1], N)
    table["share"] = np.resize([0.5, 0, 0.25], N)
    table["signed"] = np.resize(["-0.5", "0", "+3"], N)
    table["seen"] = np.resize(["01.02.2024", "13.02.2024"], N)
    table["at"] = np.resize(["00:30", "01:45"], N)
    kinds = {n: column.kind for n, column in understood(table).columns.items()}
    assert kinds == {
        "age": "number",
        "flag": "number",
        "share": "number",
        "signed": "number",
        "seen": "date",
        "at": "category",
    }


def test_codes_at_the_end_of_a_file(table, understood, monkeypatch):
    """All rows decide, in whatever parts they are read."""
    monkeypatch.setattr(_files, "ROWS_AT_ONCE", 7)
    table["code"] = [f"{i % 9:02}" if i >= N - 2 else str(i % 9) for i in range(N)]
    assert understood(table).columns["code"].kind == "category"


def test_ragged_rows(tmp_path):
    """A row may have fewer fields than the first line has names."""
    (tmp_path / "table.csv").write_text("a,b,c\n1,2\n007,3\n")
    found = read_file(tmp_path / "table.csv")
    assert found["a"].to_list() == ["1", "007"]
    assert found["b"].to_list() == [2, 3]
    assert found["c"].isna().all()


@pytest.mark.parametrize("asked", ["007", "7"])
def test_a_site_goes_by_its_code_or_its_number(table, understood, asked):
    table["hospital"] = table["hospital"].map({"A": "007", "B": "012", "C": "120"})
    problem = understood(table, target=asked)
    assert problem.target.name == "007"
    assert problem.names == ["012", "120"]


def test_a_site_that_never_went_by_its_number(table, understood):
    table["hospital"] = table["hospital"].map({"A": "007", "B": "B", "C": "C"})
    with pytest.raises(ProblemError, match="there is no site '7'"):
        understood(table, target="7")


def test_sites_that_differ_by_zeros_only(table, understood):
    table["hospital"] = table["hospital"].map({"A": "007", "B": "012", "C": "12"})
    with pytest.raises(ProblemError, match="'012' and '12' differ by leading zeros only"):
        understood(table, target="007")


def test_labels_are_classes(table, understood):
    table["y"] = np.where(table["y"] == 1, "01", "02")
    table.loc[table["hospital"] == "A", "y"] = None
    found = understood(table)
    assert list(found.classes) == ["01", "02"]
    assert any("use --task regression" in note for note in found.notes)
    as_numbers = understood(table, task="regression")
    assert set(as_numbers.sources[0].labels) == {1, 2}


def test_too_many_labels_for_classes(table, understood):
    table["y"] = [f"{i:05}" for i in range(N)]
    with pytest.raises(ProblemError, match="if it is a quantity, use --task regression"):
        understood(table)
    assert understood(table, task="regression").task == "regression"


def test_text_beside_the_codes_of_labels(table, understood):
    table["y"] = np.resize(["01", "02", "03", "04", "05", "10", "11", "12", "13", "14", "x"], N)
    with pytest.raises(ProblemError, match=r"but text in .* row\(s\): 'x'"):
        understood(table)
