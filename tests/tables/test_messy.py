"""Columns of files as they are: what is expected of each, in one table."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from shiftune.errors import ProblemError
from shiftune.tables import Schema, read_as_written, read_file, site_table
from shiftune.tables.new_rows import NewRows
from shiftune.tables.profile import profile_of
from shiftune.tables.typed_columns import typed

N = 60


def cycled(*values):
    """A column of these values in turn."""
    return pd.Series([values[i % len(values)] for i in range(N)], dtype=object, name="x")


DAY = pd.Timestamp("2024-03-04")

NUMBERS = [
    # values, first numbers, in the remark
    (["1", "2.5"], [1, 2.5], "numbers written as text"),
    ([" 1", "2.5 "], [1, 2.5], "numbers written as text"),
    (["3,5", "4"], [3.5, 4], "a decimal comma ('3,5')"),
    (["1.234,5", "2,25"], [1234.5, 2.25], "a decimal comma and separators of thousands"),
    (["1,234.5", "7"], [1234.5, 7], "separators of thousands ('1,234.5')"),
    (["1 234", "5"], [1234, 5], "separators of thousands"),
    (["1'234", "5"], [1234, 5], "separators of thousands"),
    (["$5", "$1,200.50"], [5, 1200.5], "'$'"),
    (["5 €", "7,50 €"], [5, 7.5], "a decimal comma and '€'"),
    (["EUR 5", "EUR 6"], [5, 6], "'EUR'"),
    (["12%", "3.5 %"], [12, 3.5], "'%'"),
    (["70 kg", "80.5 kg"], [70, 80.5], "'kg'"),
    (["5 mg/dl", "6 mg/dl"], [5, 6], "'mg/dl'"),
    (["1", "."], [1, np.nan], "'.' in 30 rows counts as missing"),
    (["1", "?"], [1, np.nan], "'?' in 30 rows counts as missing"),
    (["1", "-"], [1, np.nan], "'-' in 30 rows counts as missing"),
    (["1", "NA"], [1, np.nan], "'NA' in 30 rows counts as missing"),
    (["-1.5", "+2"], [-1.5, 2], "numbers written as text"),
    (["1e3", "2E-1"], [1000, 0.2], "numbers written as text"),
    ([*map(str, range(20)), "unknown"], [0, 1], "'unknown') and count as missing"),
]
DATES = [
    (["2024-03-04", "2024-12-31"], "dates (year-month-day)"),
    (["04.03.2024", "31.12.2024"], "dates (day.month.year)"),
    (["04/03/2024", "31/12/2024"], "dates (day/month/year)"),
    (["03/04/2024", "12/31/2024"], "dates (month/day/year)"),
    (["2024-03-04T10:30", "2024-12-31T08:00"], "dates (year-month-day)"),
    (["2024-03-04", "?"], "'?' in 30 rows counts as missing"),
    (["2024-03-04", "31.12.2024"], "dates (year-month-day, also day.month.year)"),  # by site
    (["03/04/2024", "05/06/2024"], "day/month/year would fit as well: --date-format %d/%m/%Y"),
    ([dt.date(2024, 3, 4), dt.date(2024, 12, 31)], ""),
]
CATEGORIES = [
    ["yes", "no"],
    ["250", "V45", "E909", "401", "I10", "J45", "K21"],
    ["01067", "80331"],
    ["12A", "13B"],
    ["70 kg", "150 lb"],
    ["+", "-"],
    ["?", "-"],
    ["3.5", "3,5"],
    ["1-2", "3-4"],
    ["10:30", "11:45"],
    ["1.2.3", "1.2.4"],
    ["a@b.de", "c@d.de"],
    [1, "a"],  # of a spreadsheet
    [True, False],
]


@pytest.mark.parametrize(("values", "first", "remark"), NUMBERS, ids=lambda v: str(v)[:30])
def test_numbers(values, first, remark):
    found = typed(cycled(*values))
    assert found.kind == "number"
    np.testing.assert_allclose(found.series[: len(first)].to_numpy(float), first)
    assert remark in found.remark


@pytest.mark.parametrize(("values", "remark"), DATES, ids=lambda v: str(v)[:30])
def test_dates(values, remark):
    found = typed(cycled(*values))
    assert found.kind == "date"
    assert found.series[0].normalize() == DAY
    assert remark in found.remark


@pytest.mark.parametrize("values", CATEGORIES, ids=str)
def test_categories(values):
    found = typed(cycled(*values))
    assert found.kind == "category"
    assert found.distinct == len(values)


def test_a_date_format_decides():
    column = cycled("03/04/2024", "05/06/2024")
    assert typed(column).series.dt.month.to_list()[:2] == [3, 5]
    decided = typed(column, "%d/%m/%Y")
    assert decided.series.dt.month.to_list()[:2] == [4, 6]
    assert decided.date_format == "%d/%m/%Y"
    assert typed(cycled("24Mar04", "24Apr05"), "%y%b%d").kind == "date"
    assert typed(cycled("a", "b"), "%d/%m/%Y").kind == "category"


def test_all_rows_decide():
    """Not the first twenty, nor the first thousand."""
    column = pd.Series(["2024-03-04"] * 30 + ["see above"] * 30, dtype=object)
    assert typed(column).kind == "category"
    assert typed(pd.Series(["n/s"] * 3 + ["2024-03-04"] * 57)).kind == "date"


def wards(**columns):
    rng = np.random.default_rng(0)
    found = {
        "ward": np.repeat(["A", "B", "C"], 20),
        "age": rng.normal(50, 8, N),
        "ill": np.resize(["yes", "no", "no"], N),
    }
    return pd.DataFrame(found | columns)


def test_spaces_in_site_names():
    df = wards(ward=np.resize(["A", "B", "B ", " C", "C"], N))
    table = site_table(df, site="ward", target="A", label="ill")
    assert table.problem.names == ["B", "C"]
    assert "has spaces in 24 rows: 'B ' is read as 'B' and ' C' is read as 'C'" in table.notes[0]


def test_spellings_of_a_class():
    df = wards(ill=np.resize(["yes", "YES", "no", "no ", "No"], N))
    table = site_table(df, site="ward", target="A", label="ill")
    assert table.problem.classes.tolist() == ["no", "yes"]
    assert any("has several spellings: " in note for note in table.notes)


def test_a_blank_label_is_missing():
    df = wards(ill=np.resize(["yes", "no", " "], N))
    with pytest.raises(ProblemError, match="is missing in"):
        site_table(df, site="ward", target="A", label="ill")
    table = site_table(df, site="ward", target="A", label="ill", drop_unlabelled=True)
    assert table.problem.classes.tolist() == ["no", "yes"]
    assert "the label 'ill' is blank in 20 rows, which counts as missing" in table.notes


# ---------------------------------------------------------------- files


def test_several_files(tmp_path):
    df = wards(code=[f"{i % 7:03}" for i in range(N)])
    df[:20].to_csv(tmp_path / "a.csv", index=False)
    df[20:][["age", "ill", "ward", "code"]].to_csv(tmp_path / "b.csv", index=False, sep=";")
    found = read_file(tmp_path / "*.csv")
    pd.testing.assert_frame_equal(found.astype({"age": float}), df, check_dtype=False)
    written = read_as_written(tmp_path / "*.csv", ["code"])
    assert written["code"].to_list() == df["code"].to_list()
    df.drop(columns="age").to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(
        ProblemError, match=r"c.csv has other columns than .*a.csv: it lacks \['age"
    ):
        read_file(tmp_path / "*.csv")
    with pytest.raises(ProblemError, match="no file matches"):
        read_file(tmp_path / "*.parquet")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    df = wards(ill=np.resize(["ja", "größer"], N))
    df.to_csv(tmp_path / "t.csv", index=False, encoding=encoding)
    assert set(read_file(tmp_path / "t.csv")["ill"]) == {"ja", "größer"}


def test_json_lines_and_excel(tmp_path):
    df = wards(code=[f"{i % 7:03}" for i in range(N)])
    df.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.jsonl"), df, check_dtype=False)
    pytest.importorskip("openpyxl")
    df.to_excel(tmp_path / "t.xlsx", index=False)
    pd.testing.assert_frame_equal(read_file(tmp_path / "t.xlsx"), df, check_dtype=False)
    assert read_as_written(tmp_path / "t.xlsx", ["code"])["code"][1] == "001"


@pytest.mark.parametrize(
    "above", ["Export of 2024-05-01\n", "Ward data,,,\n", "Hospital X\n\nall wards\n"]
)
def test_a_header_that_is_not_the_first_line(tmp_path, above):
    (tmp_path / "t.csv").write_text(above + wards().to_csv(index=False))
    with pytest.raises(ProblemError, match=r"line [24] looks like the names of the columns"):
        read_file(tmp_path / "t.csv")


# ---------------------------------------------------------------- new rows


def notes_on(trained, new):
    """What is noted about a column of new rows, by a profile of training rows."""
    column = typed(cycled(*trained))
    schema = Schema(
        {"x": column.kind},
        {"x": column.date_format} if column.date_format else {},
        {"x": column.number_format},
        {"x": list(column.missing_texts)},
    )
    sites = [pd.DataFrame({"x": column.series})]
    rows = NewRows(profile_of(sites, sites[0], schema))
    rows.add(pd.DataFrame({"x": cycled(*new)}))
    return " ".join(str(each) for each in rows.findings())


@pytest.mark.parametrize(
    ("trained", "new", "note"),
    [
        (["3,5", "4"], ["3,5", "4"], ""),
        (["70 kg", "80 kg"], ["70 kg", "80 kg"], ""),
        (["70 kg", "80 kg"], ["70 lb", "80 lb"], "numbers with 'lb'"),
        (["$5", "$6"], ["5", "6"], ""),
        (["1", "?"], ["1", "?"], ""),
        ([*"12345678901234567890", "unk."], [*"12345678901234567890", "unk."], ""),
        ([*"12345678901234567890", "unk."], [*"12345678901234567890", "x"], "no number ('x')"),
        (["31.12.2024", "01.02.2024"], ["31.12.2024", "01.02.2024"], ""),
        (["31/12/2024", "01/02/2024"], ["12/31/2024", "02/01/2024"], "written month/day/year"),
        (["f", "m"], ["F", "m "], "is read as"),
        (["f", "m"], ["f", "NA"], "50 % of the values are missing"),
        (["NA", "m"], ["NA", "m"], ""),
        (["1.234", "2.5"], ["1,234", "2,5"], "a decimal comma"),
        (["1234", "5"], ["1,234", "5"], "separators of thousands"),
        (["1.234", "5"], ["1,234", "5"], "a decimal comma"),  # by the range of training
    ],
)
def test_new_rows(trained, new, note):
    found = notes_on(trained, new)
    assert note in found
    assert bool(note) == bool(found)
