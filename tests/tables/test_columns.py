"""What columns are taken for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.cli._options import shell_option
from shiftune.columns import Column, Columns
from shiftune.columns._column import TableRows, learn
from shiftune.errors import DataError, DataWarning
from shiftune.problem._table import TableSettings

N = 100
TARGET = np.arange(N) < 30


def site_table(df, notes=(), **settings):
    """Read a table as the command line does."""
    return ShiftProblem.of_table(
        df.rename(columns=str), TableSettings(option=shell_option, **settings), notes, warn=False
    )


SITES = pd.Series(np.where(TARGET, "A", "B"))


def read(values, name="x", **options):
    return read_with_values(values, name, **options)[0]


def read_with_values(values, name="x", **options):
    return learn(pd.Series(values, name=name), TableRows(SITES, "A"), **options)


@pytest.mark.parametrize(
    ("name", "values", "used"),
    [
        ("x", range(5, 5 + N), False),  # numbered through
        ("x", np.random.default_rng(0).permutation(N), False),
        ("x", np.arange(N) * 1000, False),  # in the order of the rows
        ("x", np.random.default_rng(0).permutation(N) ** 2, True),  # may be an amount
        ("case_id", np.arange(N) * 1000, False),
        ("caseId", np.arange(N) * 1000, False),
        ("paid", np.random.default_rng(0).permutation(N) ** 2, True),
        ("x", np.arange(N) + 0.5, True),
        ("id", np.arange(N) % 7, True),  # not one per row
        ("x", [f"p{i}" for i in range(N)], False),
        ("x", [f"p{i % 60}" for i in range(N)], True),
        ("x", pd.date_range("2024-01-01", periods=N), True),
    ],
)
def test_identifiers(name, values, used):
    found = read(values, name)
    assert found.used is used
    assert read(values, name, keep=True).used


@pytest.mark.parametrize(
    ("name", "distinct", "used", "noticed"),
    [
        ("patient_id", 300, False, True),
        ("PatientID", 300, False, True),
        ("subject", 300, False, True),
        ("patient id", 51, False, True),
        ("caseNr", 300, False, True),
        ("id_2", 300, False, True),
        ("subject", 42, True, True),  # may be a code: pointed out, and kept
        ("patient_id", 20, True, False),
        ("price_index", 300, True, False),
        ("nr_of_steps", 300, True, False),
        ("income", 300, True, False),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_identifiers_of_several_rows(name, distinct, used, noticed, text):
    rows = np.random.default_rng(0).permutation(1000) % distinct * 7
    column = pd.Series([f"c{row}" for row in rows] if text else rows, name=name)
    sites = pd.Series(np.where(np.arange(1000) < 300, "A", "B"))
    found, _ = learn(column, TableRows(sites, "A", option=shell_option))
    assert (found.used, found.identifier) == (used, not used)
    assert ("named like an identifier" in found.remark) == noticed
    if not used:
        assert found.remark.endswith(
            f"to use it: --keep {name}" if " " not in name else f"'{name}'"
        )
    elif noticed:
        assert found.remark.endswith(f"if it is one: --id {name}")
    kept, _ = learn(column, TableRows(sites, "A"), keep=True)
    assert kept.used
    assert "named like" not in kept.remark


def test_numbers_with_decimals_name_no_case():
    column = pd.Series(np.arange(1000) % 300 + 0.5, name="patient_id")
    sites = pd.Series(np.where(np.arange(1000) < 300, "A", "B"))
    assert learn(column, TableRows(sites, "A"))[0].remark == ""


def test_a_constant_with_gaps_is_information():
    assert read([1.0] * 50 + [np.nan] * 50).used
    assert not read([1.0] * N).used


def test_dates_that_do_not_fit_one_order_fit_the_other():
    days = pd.date_range("2024-01-01", periods=N)
    for date_format in ("%m/%d/%Y", "%d/%m/%Y"):
        found, values = read_with_values(days.strftime(date_format).to_list())
        assert found.kind == "date"
        assert found.date_format == date_format
        assert (values == days).all()


def test_a_few_strange_dates_are_missing():
    values = pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d").to_list()
    values[40] = "soon"
    found, read_values = read_with_values(values)
    assert found.kind == "date"
    assert read_values.isna().sum() == 1
    assert found.remark == (
        "dates (year-month-day); 1 value is not a date ('soon') and counts as missing"
    )


def test_version_numbers_are_no_dates():
    assert read([f"1.2.{i % 9}" for i in range(N)]).kind == "category"


def test_numbers_with_too_much_text_are_categories():
    values = [str(i % 9) for i in range(80)] + ["a", "b"] * 10
    assert read(values).kind == "category"


def test_nested_values_are_refused():
    with pytest.raises(DataError, match="column 'x' holds values of type list"):
        read([[1], [2]] * 50)


def test_the_table_is_not_changed(hospitals):
    before = hospitals.copy()
    site_table(hospitals, site="hospital", target="A", label="readmitted")
    pd.testing.assert_frame_equal(hospitals, before)


def test_the_same_problem_as_from_frame(hospitals):
    """Where nothing is to be tidied, nothing is."""
    table = site_table(hospitals, site="hospital", target="A", label="readmitted")
    direct = ShiftProblem.from_frame(hospitals, site="hospital", target="A", label="readmitted")
    assert table.fingerprint() == direct.fingerprint()
    assert table.columns.overview()["used"].all()
    assert table.target.rows.tolist() == direct.target.rows.tolist()


def test_target_rows_count_rows_that_were_left_out(hospitals):
    mixed = hospitals.sample(frac=1, random_state=0).reset_index(drop=True)
    mixed.loc[(mixed["hospital"] == "B") & (mixed.index < 100), "readmitted"] = None
    table = site_table(
        mixed, site="hospital", target="A", label="readmitted", missing_labels="drop"
    )
    assert table.target.rows.tolist() == np.flatnonzero(mixed["hospital"] == "A").tolist()


def test_every_row_can_be_traced_to_the_table(hospitals):
    """Also where rows without label and tiny sites are left out; as from_frame does it."""
    mixed = hospitals.sample(frac=1, random_state=0).reset_index(drop=True)
    mixed.loc[:5, "readmitted"] = None
    mixed.loc[mixed.index[mixed["hospital"] == "D"][2:], "hospital"] = "C"
    table = site_table(
        mixed, site="hospital", target="A", label="readmitted", missing_labels="drop"
    )
    assert "D" not in table.names
    for site in (table.target, *table.sources):
        assert (mixed["hospital"].iloc[site.rows] == site.name).all()
        np.testing.assert_array_equal(site.X["age"], mixed["age"].iloc[site.rows])
    with pytest.warns(DataWarning, match="without label are left out"):
        direct = ShiftProblem.from_frame(
            mixed[mixed["hospital"] != "D"],
            site="hospital",
            target="A",
            label="readmitted",
            missing_labels="drop",
        )
    assert table.fingerprint() == direct.fingerprint()


def test_rows_whose_labels_are_used(hospitals):
    own = hospitals.index[hospitals["hospital"] == "A"]
    hospitals.loc[own[3:9], "readmitted"] = ["yes", "no"] * 3
    table = site_table(
        hospitals,
        site="hospital",
        target="A",
        label="readmitted",
        target_labels="use",
    )
    assert table.labelled_target.rows.tolist() == own[3:9].tolist()
    assert np.flatnonzero(table.target_labelled).tolist() == [*range(3, 9)]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_whole_numbers_beside_text_that_is_set_aside(hospitals, task):
    """They are 0 and 1, as they are without that text, not 0.0 and 1.0."""
    grade = pd.Series(np.resize([0, 1, 1], len(hospitals)), dtype=object)
    labelled = hospitals.drop(columns="readmitted").assign(grade=grade)
    labelled.loc[labelled["hospital"] == "A", "grade"] = "pending"
    labelled["grade"] = labelled["grade"].astype(str)
    table = site_table(labelled, site="hospital", target="A", label="grade", task=task)
    assert {site.labels.dtype.kind for site in table.sources} == {"i"}


@pytest.mark.parametrize("dtype", [object, "string", "category", float])
def test_an_empty_column(dtype):
    assert read(pd.Series([None] * N, dtype=dtype)).remark == "left out: empty"


def test_a_code_for_missing_is_asked_about():
    values = [str(i % 9) for i in range(77)] + ["x"] * 23
    assert read(values).remark == (
        "77 % numeric; the rest is 'x'. Is that a code for missing? Read as categories"
    )


def test_a_site_column_that_is_no_site_column(hospitals):
    with pytest.raises(DataError, match="really the column of the sites"):
        site_table(
            hospitals.assign(nr=range(240)),
            site="nr",
            target="3",
            label="visits",
            task="regression",
        )
    gaps = hospitals.assign(hospital=hospitals["hospital"].where(hospitals.index > 3))
    with pytest.raises(DataError, match=r"site column 'hospital' is empty in 4 row"):
        site_table(gaps, site="hospital", target="A", label="readmitted")
    with pytest.raises(DataError, match="there are no sources; at least one labelled site"):
        site_table(
            hospitals[hospitals["hospital"] == "A"],
            site="hospital",
            target="A",
            label="visits",
        )


def test_names_of_columns(hospitals):
    """Numbers as names are text; two columns of one name are refused."""
    table = site_table(
        hospitals.rename(columns={"age": 7}),
        site="hospital",
        target="A",
        label="readmitted",
    )
    assert "7" in table.columns
    with pytest.raises(DataError, match=r"\['age'\] occur more than once"):
        site_table(
            hospitals.rename(columns={"visits": "age"}),
            site="hospital",
            target="A",
            label="readmitted",
        )


def test_dates_are_read_as_what_can_recur():
    dates = pd.DataFrame({"seen": pd.to_datetime(["1970-01-02 12:00", None])})
    read = Columns.of_kinds({"seen": "date"}).read(dates)
    assert read.iloc[0].to_dict() == {
        "seen_month": 1,
        "seen_weekday": 4,
        "seen_hour": 12,
        "seen_days": 1.5,
    }
    assert read.iloc[1].isna().all()


def test_codes_may_have_lost_their_zeros():
    column = Columns({"x": Column(name="x", kind="category", levels=("007", "A1"))})
    for values in (["007", "A1", None], ["7", "a1", None]):
        assert column.read(pd.DataFrame({"x": values}))["x"].to_list() == ["007", "A1", None]
    assert column.read(pd.DataFrame({"x": [7.0, np.nan]}))["x"].to_list() == ["007", None]
