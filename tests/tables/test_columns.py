"""What columns are taken for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune.errors import ProblemError
from shiftune.tables import site_table
from shiftune.tables.columns import read_column

N = 100
TARGET = np.arange(N) < 30


def read(values, name="x", **options):
    return read_column(pd.Series(values, name=name), TARGET, **options)


@pytest.mark.parametrize(
    ("name", "values", "used"),
    [
        ("x", range(5, 5 + N), False),  # numbered through
        ("x", np.random.default_rng(0).permutation(N), False),
        ("x", np.arange(N) * 1000, True),  # may be an amount
        ("case_id", np.arange(N) * 1000, False),
        ("caseId", np.arange(N) * 1000, False),
        ("paid", np.arange(N) * 1000, True),
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
    found = read_column(column, np.arange(1000) < 300)
    assert (found.used, found.identifier) == (used, not used)
    assert ("named like an identifier" in found.remark) == noticed
    if not used:
        assert found.remark.endswith(f"say --keep {name}" if " " not in name else f"'{name}'")
    elif noticed:
        assert found.remark.endswith(f"say --id {name}")
    kept = read_column(column, np.arange(1000) < 300, keep=True)
    assert kept.used
    assert "named like" not in kept.remark


def test_numbers_with_decimals_name_no_case():
    column = pd.Series(np.arange(1000) % 300 + 0.5, name="patient_id")
    assert read_column(column, np.arange(1000) < 300).remark == ""


def test_a_constant_with_gaps_is_information():
    assert read([1.0] * 50 + [np.nan] * 50).used
    assert not read([1.0] * N).used


def test_dates_that_do_not_fit_one_order_fit_the_other():
    days = pd.date_range("2024-01-01", periods=N)
    for date_format in ("%m/%d/%Y", "%d/%m/%Y"):
        found = read(days.strftime(date_format).to_list())
        assert found.kind == "date"
        assert found.date_format == date_format
        assert (found.series == days).all()


def test_a_few_strange_dates_are_missing():
    values = pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d").to_list()
    values[40] = "soon"
    found = read(values)
    assert found.kind == "date"
    assert found.series.isna().sum() == 1
    assert found.remark == (
        "dates (year-month-day); 1 value that is no date ('soon') counts as missing"
    )


def test_version_numbers_are_no_dates():
    assert read([f"1.2.{i % 9}" for i in range(N)]).kind == "category"


def test_numbers_with_too_much_text_are_categories():
    values = [str(i % 9) for i in range(80)] + ["a", "b"] * 10
    assert read(values).kind == "category"


def test_nested_values_are_refused():
    with pytest.raises(ProblemError, match="column 'x' holds lists"):
        read([[1], [2]] * 50)


def test_the_table_is_not_changed(hospitals):
    before = hospitals.copy()
    site_table(hospitals, site="hospital", target="A", label="readmitted")
    pd.testing.assert_frame_equal(hospitals, before)


def test_the_same_problem_as_from_frame(hospitals):
    """Where nothing is to be tidied, nothing is."""
    from shiftune import ShiftProblem

    table = site_table(hospitals, site="hospital", target="A", label="readmitted")
    direct = ShiftProblem.from_frame(hospitals, site="hospital", target="A", label="readmitted")
    assert table.problem.fingerprint() == direct.fingerprint()
    assert table.columns["used"].all()
    assert table.target_rows.tolist() == direct.target.rows.tolist()


def test_target_rows_count_rows_that_were_left_out(hospitals):
    mixed = hospitals.sample(frac=1, random_state=0).reset_index(drop=True)
    mixed.loc[(mixed["hospital"] == "B") & (mixed.index < 100), "readmitted"] = None
    table = site_table(mixed, site="hospital", target="A", label="readmitted", drop_unlabelled=True)
    assert table.target_rows.tolist() == np.flatnonzero(mixed["hospital"] == "A").tolist()


def test_a_site_column_that_is_no_site_column(hospitals):
    with pytest.raises(ProblemError, match="really the column of the sites"):
        site_table(
            hospitals.assign(nr=range(240)),
            site="nr",
            target="3",
            label="visits",
            task="regression",
        )
    gaps = hospitals.assign(hospital=hospitals["hospital"].where(hospitals.index > 3))
    with pytest.raises(ProblemError, match=r"site column 'hospital' is empty in 4 row"):
        site_table(gaps, site="hospital", target="A", label="readmitted")
    with pytest.raises(ProblemError, match="all rows are of site 'A'"):
        site_table(
            hospitals[hospitals["hospital"] == "A"], site="hospital", target="A", label="visits"
        )


def test_names_of_columns(hospitals):
    """Numbers as names are text; two columns of one name are refused."""
    table = site_table(
        hospitals.rename(columns={"age": 7}), site="hospital", target="A", label="readmitted"
    )
    assert "7" in table.schema.kinds
    with pytest.raises(ProblemError, match=r"\['age'\] occur more than once"):
        site_table(
            hospitals.rename(columns={"visits": "age"}),
            site="hospital",
            target="A",
            label="readmitted",
        )
