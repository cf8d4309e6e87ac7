"""A value means the same wherever it stands: beside others, in training and in new rows."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.cli._options import TableOptions
from shiftune.columns._column import TableRows, learn
from shiftune.columns._columns import Columns, NewRows
from shiftune.errors import DataError, SettingsError

pytestmark = pytest.mark.filterwarnings("ignore::shiftune.errors.DataWarning")
N = 240
SITES = np.repeat(["A", "B", "C", "D"], N // 4)


def table(**columns):
    rng = np.random.default_rng(0)
    y = rng.normal(size=N)
    return pd.DataFrame({"site": SITES, "x": rng.normal(size=N), "y": y, **columns})


def problem_of(df, **options):
    return ShiftProblem.from_frame(df, site="site", target="A", label="y", **options)


def learned(values, name="v", labels=None, **options):
    return learn(pd.Series(values, name=name), TableRows(pd.Series(SITES), "A", labels), **options)


def read_again(column, values):
    new = pd.DataFrame({column.name: values})
    return NewRows(Columns.of([column])).add(new).read(new)[column.name]


def income(y, rng):
    """A quantity in whole euros that explains most of the label, on a scale of each site."""
    scale = np.repeat([1, 100, 10_000, 1_000_000], N // 4)
    return np.round(np.exp(y + rng.normal(0, 0.3, N)) * 10_000 * scale)


# ------------------------------------------------------------ identifiers


def test_a_quantity_on_scales_of_its_own_at_every_site_helps():
    df = table()
    df["income"] = income(df["y"], np.random.default_rng(1))
    assert "income" in problem_of(df).columns


def test_the_target_in_a_table_of_its_own_changes_no_decision():
    df = table()
    df["income"] = income(df["y"], np.random.default_rng(1))
    own, others = df[df["site"] == "A"].drop(columns=["site", "y"]), df[df["site"] != "A"]
    problem = ShiftProblem.from_frame(others, site="site", target=own, label="y")
    assert list(problem.columns) == list(problem_of(df).columns)


def test_labels_as_objects_change_no_decision():
    df = table()
    df["income"] = income(df["y"], np.random.default_rng(1))
    assert "income" in problem_of(df.astype({"y": object})).columns


def test_a_middle_class_is_found():
    """Its rows have a mean label like that of all."""
    rng = np.random.default_rng(2)
    amount = rng.permutation(10 * N)[:N]
    y = np.where((amount > 3 * N) & (amount < 7 * N), 1, np.where(rng.random(N) < 0.5, 0, 2))
    assert "amount" in problem_of(table(amount=amount).assign(y=y)).columns


@pytest.mark.parametrize("gone", [0, 0.5, 0.67])
@pytest.mark.parametrize("labelled", [True, False])
def test_row_numbers_of_which_many_are_gone(gone, labelled):
    """Also where the label drifts with them."""
    rng = np.random.default_rng(3)
    kept = np.sort(rng.choice(int(N / (1 - gone)), N, replace=False))
    labels = pd.Series(kept + rng.normal(size=N)) if labelled else None
    column, _ = learned(kept, labels=labels)
    assert column.identifier
    shuffled, _ = learned(rng.permutation(kept), labels=pd.Series(rng.normal(size=N)))
    assert shuffled.identifier


def test_row_numbers_that_begin_anew_at_every_site():
    column, _ = learned(np.tile(np.arange(1, N // 4 + 1), 4))
    assert column.identifier


def test_years_of_a_panel_are_no_row_numbers():
    column, _ = learned(np.tile(np.arange(1960, 1960 + N // 4), 4), name="year")
    assert column.used


def test_skewed_numbers_without_any_effect_are_kept():
    """A few hundred rows do not show that a quantity is useless, as in an interaction."""
    rng = np.random.default_rng(4)
    amounts = np.round(np.exp(rng.normal(10, 1, N)))
    column, _ = learned(amounts, labels=pd.Series(rng.normal(size=N)))
    assert column.used


@pytest.mark.parametrize("name", ["house_price_index", "row_spacing", "cells_nr", "CellNo", "NO"])
def test_names_of_quantities(name):
    rng = np.random.default_rng(5)
    amounts = np.round(np.exp(rng.normal(5, 1, N)))
    column, _ = learned(amounts, name, labels=pd.Series(np.log(amounts) + rng.normal(size=N)))
    assert column.used


def test_identifiers_with_gaps():
    rng = np.random.default_rng(6)
    numbers = rng.permutation(10 * N)[:N].astype(float)
    numbers[::6] = np.nan
    column, _ = learned(numbers, labels=pd.Series(rng.normal(size=N)))
    assert column.identifier


def test_a_copy_of_the_site_with_gaps():
    codes = pd.Series(SITES).map({"A": "Ulm", "B": "Bonn", "C": "Kiel", "D": "Jena"})
    codes[7] = None
    assert "under another name" in learned(codes)[0].remark


def test_a_category_of_whole_sites_that_only_the_target_has():
    codes = pd.Series(SITES).map({"A": "city", "B": "rural", "C": "rural", "D": "coast"})
    assert "no source has that of the target" in learned(codes)[0].remark
    assert learned(codes.replace("coast", "city"))[0].used


# ------------------------------------------------------------ numbers and dates


def test_a_number_does_not_depend_on_its_neighbours():
    column, values = learned(np.resize(["0,5", "3000", "2,071", "7,25"], N))
    assert values[2] == 2.071
    assert read_again(column, ["2,071"]).to_list() == [2.071]
    assert read_again(column, ["2,071", *["0,5"] * 20, "3.5"])[0] == 2.071


def test_zero_is_no_group_of_thousands():
    assert learned(np.resize(["0,230", "0,450", "0,125"], N), keep=True)[1][0] == 0.23


def test_three_decimals_at_one_site():
    texts = np.where(SITES == "A", "1,594", "1.594")
    assert learned(texts, keep=True)[1].unique().tolist() == [1.594]


def test_units_are_not_mixed():
    texts = np.where(SITES == "B", "77 kg", np.where(SITES == "C", "170 lb", "71 kg"))
    assert learned(texts)[0].kind == "category"
    column, _ = learned(np.resize(["70 kg", "81 kg"], N))
    rows = NewRows(Columns.of([column])).add(pd.DataFrame({"v": ["150 lb"]}))
    assert any(finding.serious for finding in rows.findings())


def test_the_decimal_sign_of_a_file(tmp_path):
    rng = np.random.default_rng(7)
    lab = [f"{value:.3f}".replace(".", ",") for value in rng.uniform(1, 9, N)]
    df = table(lab=lab, lab2=["unknown", *lab[1:]])
    df["x"] = df["x"].astype(str).str.replace(".", ",")
    df["y"] = df["y"].astype(str).str.replace(".", ",")
    df.to_csv(tmp_path / "t.csv", sep=";", index=False)
    options = {"site": "site", "target": "A", "label": "y"}
    X = TableOptions(data=tmp_path / "t.csv", **options).read(seed=0).sources[0].X
    assert X["lab"].to_list() == X["lab2"].to_list()


@pytest.mark.parametrize("made", [int, float, lambda v: Decimal(int(v))])
def test_numbers_as_objects(made):
    ages = pd.Series([made(v) for v in np.resize([40, 51, 62], N)], dtype=object)
    ages[3] = None
    column, values = learned(ages)
    assert column.kind == "number"
    assert values.dtype == float


def test_time_zones():
    local = pd.date_range("2024-01-01 23:00", periods=N, freq="7h", tz="Asia/Tokyo")
    column, values = learned(pd.Series(local))
    texts = pd.Series(local.astype(str))
    pd.testing.assert_series_equal(values, learned(texts)[1], check_dtype=False)
    rows = pd.DataFrame({"v": local})
    read = NewRows(Columns.of([column])).add(rows).read(rows)
    assert read["v_hour"].to_list() == values.dt.hour.to_list()


def test_dates_as_whole_numbers():
    days = pd.date_range("2024-01-01", periods=N).strftime("%Y%m%d").astype(int)
    assert learned(days, date_format="%Y%m%d")[0].kind == "date"


def test_a_format_that_was_asked_for_is_not_questioned():
    texts = np.resize(["03/04/2024", "05/06/2024", "07/08/2024"], N)
    assert "would fit as well" in learned(texts)[0].remark
    assert "would fit as well" not in learned(texts, date_format="%d/%m/%Y")[0].remark


# ------------------------------------------------------------ categories and codes


def test_blank_and_na_are_missing_as_in_files():
    column, values = learned(np.resize(["a", "b ", "b", "", "NA"], N))
    assert sorted(values.dropna().unique()) == ["a", "b"]
    assert column.distinct == 2


@pytest.mark.parametrize("dtype", ["category", object])
def test_codes_of_categories(dtype):
    df = table(s=np.resize(["a", "b", "unk"], N)).astype({"s": dtype})
    problem = problem_of(df, missing={"s": "unk"})
    assert problem.read(df)["s"].isna().sum() == N / 3


def test_codes_of_dates():
    seen = pd.Series(pd.date_range("2024-01-01 08:15", periods=N, freq="30h"))
    seen[::6] = pd.Timestamp("1900-01-01")
    df = table(seen=seen)
    problem = problem_of(df, missing={"seen": "1900-01-01"})
    assert problem.read(df)["seen_hour"].isna().sum() == N / 6


def test_a_file_for_each_site(tmp_path):
    codes = np.resize(["101", "102", "V45", "E9", "V7"], N // 4)
    for site in "ABCD":
        own = table(code=np.tile(codes, 4)).query("site == @site").drop(columns="site")
        if site != "B":
            own["code"] = own["code"].where(own["code"].str.isdigit())
        own.to_csv(tmp_path / f"{site}.csv", index=False)
    options = {"data": tmp_path / "*.csv", "target": "A", "label": "y"}
    columns = TableOptions(**options).read(seed=0).columns
    assert columns["code"].levels == ("101", "102", "E9", "V45", "V7")


# ------------------------------------------------------------ labels and names


def test_hidden_labels_decide_nothing():
    df = table().assign(y=np.resize(["1", "2", "3", "-"], N))
    found = []
    for own in ("1", "pos", "0.5"):
        hidden = df.assign(y=df["y"].mask(df["site"] == "A", own))
        problem = problem_of(hidden, missing_labels="drop")
        found.append((problem.task, problem.classes.tolist(), len(problem.sources[0])))
    assert found[0] == found[1] == found[2] == ("classification", [1, 2, 3], 45)


def test_an_oracle_decides_nothing():
    df = table().assign(y=np.resize(["yes", "no"], N))
    df["y"] = df["y"].mask(df["site"] == "A", np.resize(["YES", "No"], N))
    problem = problem_of(df, target_labels="oracle")
    assert problem.classes.tolist() == ["no", "yes"]
    assert sorted(set(problem.oracle.labels)) == ["no", "yes"]


def test_hidden_labels_choose_no_spelling():
    """Both occur alike often in the sources, and the first is taken."""
    df = table().assign(y=np.resize(["yes", "YES", "no"], N))
    df["y"] = df["y"].mask(df["site"] == "A", "YES")
    assert problem_of(df).classes.tolist() == ["no", "yes"]


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_text_of_any_type_as_labels_that_the_target_lacks(dtype):
    df = table().assign(y=np.resize(["yes", "no", "no "], N))
    df["y"] = df["y"].mask(df["site"] == "A").astype(dtype)
    assert problem_of(df).classes.tolist() == ["no", "yes"]


def test_names_that_are_no_text():
    df = table().rename(columns={"x": 1})
    df[1] = np.round(df[1], 2)
    df.loc[::7, 1] = 999
    problem = problem_of(df, missing={1: 999})
    assert list(problem.columns) == ["1"]
    assert problem.target.X[1].max() < 999
    with pytest.raises(DataError, match="occur more than once"):
        problem_of(df.assign(**{"1": 0.5}))


def test_a_part_of_a_date_with_the_name_of_a_column():
    df = table(seen=pd.date_range("2024-01-01", periods=N), seen_month=1.5)
    with pytest.raises(DataError, match="'seen_month' would be made of the date 'seen'"):
        problem_of(df)


def test_nothing_can_be_asked_where_nothing_is_decided():
    with pytest.raises(SettingsError, match="decides nothing"):
        problem_of(table(), columns="as given", keep=["x"])


@pytest.mark.parametrize("lowest", [18, 5])
def test_ages_are_no_classes(lowest):
    df = table().assign(y=np.resize(np.arange(lowest, lowest + 50), N))
    with pytest.raises(DataError, match=r"'y' has 50 different numbers.*task='regression'"):
        problem_of(df, task="classification")


def test_dates_of_a_column_that_is_not_there():
    with pytest.raises(DataError, match="there is no column 'sen'; did you mean 'seen'"):
        problem_of(table(seen="03/12/2020"), dates={"sen": "%d/%m/%Y"})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"missing": 999}, "missing must be a mapping"),
        ({"dates": ["seen"]}, "dates must be a format, or a mapping"),
        ({"keep": None}, "keep must be a list of columns"),
        ({"dates": "DD/MM/YYYY"}, "no column has dates written as DD/MM/YYYY"),
        ({"dates": {"seen": "%d.%m.%Y"}}, "'seen' has no dates written as %d.%m.%Y"),
        ({"dates": {"x": "%Y"}}, "'x' has no dates written as %Y"),
    ],
)
def test_options_that_fit_nothing(options, error):
    with pytest.raises((DataError, SettingsError), match=error):
        problem_of(table(seen=np.resize(["13/01/2024", "02/03/2024", "25/12/2023"], N)), **options)
