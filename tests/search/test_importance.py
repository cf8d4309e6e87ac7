"""Importance of columns is what theory says, at the target, whatever the columns and the loss."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import SettingsError
from shiftune.evaluate import Loss

ALPHA = {"alpha": [1e-3, 1e-2]}
C = {"C": [1.0, 10.0]}
SLOPES = np.array([3.0, 1.0, 0.0])


def rows(rng, n, mean=0.0, sd=1.0):
    return rng.normal(mean, sd, (n, 3))


def linear(rng, k=8, n=500, target=(0.0, 1.0), spread=0.0):
    """Problem in which y is linear in x, with slopes of x_0 that differ between sites."""
    sites = {}
    for j in range(k):
        X = rows(rng, n)
        slopes = SLOPES + np.array([spread * rng.normal(), 0, 0])
        sites[f"s{j}"] = (X, X @ slopes + rng.normal(size=n))
    return ShiftProblem.from_sites(sites, rows(rng, 1000, *target))


def searched(problem, model=None, space=ALPHA, **options):
    options = {"n_trials": 2, "progress": False, **options}
    return ShiftSearch(Ridge() if model is None else model, space, **options).fit(problem)


def fields(table):
    return table[["importance", "low", "high"]].to_numpy()


@pytest.mark.parametrize("target", [(0.0, 1.0), (0.0, 1.5), (1.0, 1.0)])
def test_linear_model(rng, target):
    r"""Squared error rises by :math:`2 b^2 Var(x)`, with the variance of the target's rows.

    Given these, the increase of a row has at most 3 times its mean as standard deviation, 4,000
    rows have 5 % for that of the mean; the adjustment triples that where the target is elsewhere.
    """
    problem = linear(rng, target=target)
    table = searched(problem).importance()
    assert table.index.tolist() == [0, 1, 2]
    truth = 2 * SLOPES**2 * problem.target.X.var(axis=0)
    np.testing.assert_allclose(table["importance"], truth, rtol=0.1, atol=0.03)
    assert (table["low"] < truth).all()
    assert (table["high"] > truth).all()
    assert (table["note"] == "").all()
    shift = searched(problem).result_.shifts.mean(axis=1)
    assert table["shift"].to_dict() == {0: shift["0"], 1: shift["1"], 2: shift["2"]}


def test_the_interval_includes_differences_between_sites(rng):
    """The increase at site j is :math:`2 b b_j`: standard deviation 6 between sites."""
    alike = searched(linear(rng, spread=0.0)).importance()
    apart = searched(linear(rng, spread=1.0)).importance()
    width = apart["high"] - apart["low"]
    assert width[0] > 2 * 2 * 6
    assert width[0] > 3 * (alike["high"] - alike["low"])[0]


def test_categories_and_dates_are_one_column_each(rng):
    """A column is as important as its effect varies, however many features it has."""
    n = 3000
    effects = {"a": 0.0, "b": 1.0, "c": 4.0}
    table = pd.DataFrame(
        {
            "site": rng.choice(list("ABCDE"), n),
            "ward": rng.choice(list(effects), n, p=[0.5, 0.3, 0.2]),
            "seen": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 730, n), "D"),
            "age": rng.normal(size=n),
        }
    )
    month = table["seen"].dt.month
    table["y"] = table["ward"].map(effects) + 0.3 * month + rng.normal(0, 0.5, n)
    own = table["site"] == "A"
    table.loc[own, "y"] = np.nan
    problem = ShiftProblem.from_frame(table, site="site", target="A", label="y")
    assert "seen_month" in problem.target.X
    steps = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    given = table.copy()
    search = searched(problem, make_pipeline(steps, Ridge()), {"ridge__alpha": [1e-3, 1e-2]})
    found = search.importance()
    truth = [2 * table["ward"].map(effects)[own].var(), 2 * 0.09 * month[own].var()]
    np.testing.assert_allclose(found["importance"][["ward", "seen"]], truth, rtol=0.12)
    assert found.index.tolist() == ["ward", "seen", "age"]
    assert found["importance"]["age"] == pytest.approx(0, abs=0.02)
    pd.testing.assert_frame_equal(table, given)


def test_bits_repeat_and_nothing_else_changes(rng):
    search = searched(linear(rng, k=4, n=100))
    before, predicted = search.problem_.fingerprint(), search.predict(np.eye(3))
    first = search.importance()
    pd.testing.assert_frame_equal(first, search.importance(), check_exact=True)
    assert search.problem_.fingerprint() == before
    np.testing.assert_array_equal(search.predict(np.eye(3)), predicted)
    wider = search.importance(level=0.99)
    assert (wider["high"] > first["high"]).all()


def test_the_time_limit(rng, monkeypatch):
    """The clock is read once, then before every column but the first."""
    search = searched(linear(rng, k=4, n=100))
    whole = search.importance()
    clock = SimpleNamespace(monotonic=map(float, itertools.count()).__next__)
    monkeypatch.setattr("shiftune.search._importance.time", clock)
    found = search.importance(timeout=2.0)
    order = whole.sort_values("shift", ascending=False).index
    assert found["note"][order].tolist() == ["", "", "not done: the time limit was reached"]
    pd.testing.assert_frame_equal(found.loc[order[:2]], whole.loc[order[:2]])
    assert found.index[-1] == order[-1]
    assert found.loc[order[-1], ["importance", "low", "high", "adjustment"]].isna().all()
    assert found["shift"][order].tolist() == whole["shift"][order].tolist()


@pytest.mark.filterwarnings("ignore:there is only one source")
def test_one_source_has_no_interval(rng):
    table = searched(linear(rng, k=1, n=2000)).importance()
    np.testing.assert_allclose(table["importance"], [18, 2, 0], rtol=0.15, atol=0.05)
    assert table[["low", "high"]].isna().all().all()
    assert (table["note"] == "no interval: there is only one source").all()


def test_large_tables_are_sampled(rng, monkeypatch):
    search = searched(linear(rng))
    whole = search.importance()
    monkeypatch.setattr("shiftune.search._importance._MOST_ROWS", 800)
    some = search.importance()
    assert not np.array_equal(fields(whole), fields(some))
    np.testing.assert_allclose(some["importance"], whole["importance"], rtol=0.25, atol=0.1)


def framed(rng, n=100, **columns):
    X = rows(rng, 5 * n)
    y = X @ SLOPES + rng.normal(size=5 * n)
    table = pd.DataFrame(X, columns=list("abc")).assign(site=np.repeat(list("ABCDE"), n), y=y)
    table.loc[: n - 1, "y"] = np.nan
    return table.assign(**columns)


def problem_of(table, **names):
    return ShiftProblem.from_frame(table, site="site", target="A", label="y", **names)


def test_groups_count_once(rng):
    """Every row is there four times, as four rows or as a group: the latter knows less."""
    table = framed(rng).loc[np.repeat(np.arange(500), 4)].reset_index(drop=True)
    table["patient"] = np.arange(2000) // 4
    alone = searched(problem_of(table.drop(columns="patient"))).importance()
    grouped = searched(problem_of(table, subject="patient")).importance()
    np.testing.assert_allclose(grouped["importance"], alone["importance"], rtol=1e-6, atol=1e-9)
    assert (grouped["high"] - grouped["low"] > alone["high"] - alone["low"]).all()


def test_weights_of_rows(rng):
    """Only their ratios count, and rows of weight 0 not at all."""
    wrong = np.tile([False, True], 250)
    table = framed(rng, w=np.where(wrong, 0.001, 1.0))
    table.loc[wrong, "a"] *= 5
    found = searched(problem_of(table, sample_weight="w")).importance()
    np.testing.assert_allclose(found["importance"]["a"], 18, rtol=0.4)
    tripled = searched(problem_of(table.assign(w=3 * table["w"]), sample_weight="w"))
    np.testing.assert_allclose(fields(tripled.importance()), fields(found), rtol=1e-3)


def test_labelled_rows_of_the_target_are_no_source(rng):
    table = framed(rng)
    table.loc[:9, "y"] = 0.0
    found = searched(problem_of(table, target_labels="use")).importance()
    np.testing.assert_allclose(found["importance"], [18, 2, 0], rtol=0.4, atol=0.1)


@pytest.mark.parametrize("loss", ["log_loss", "brier", "zero_one"])
def test_classes(rng, loss):
    """Of probabilities and decisions; the first column makes them, the third is luck."""
    sites = {}
    for j in range(6):
        X = rows(rng, 200)
        sites[f"s{j}"] = (X, np.where(3 * X[:, 0] + rng.logistic(size=200) > 0, "yes", "no"))
    problem = ShiftProblem.from_sites(sites, rows(rng, 500))
    search = searched(problem, LogisticRegression(), C, loss=loss)
    table = search.importance()
    assert table.index[0] == 0
    assert table["low"][0] > 0
    assert abs(table["importance"][2]) < 0.02


def test_an_ensemble_is_its_members(rng):
    problem = linear(rng, k=4, n=60)
    search = searched(problem, ["linear", "kernel"], None, n_trials=6)
    assert len(search.members_) > 1
    table = search.importance()
    np.testing.assert_allclose(table["importance"], [18, 2, 0], rtol=0.5, atol=0.2)


class Zero(RegressorMixin, BaseEstimator):
    def __init__(self, theta=0.0):
        self.theta = theta

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_the_columns_by_which_the_error_differs(rng):
    r"""Losses :math:`(1 + x_0)^2 e^2` have the mean 2 at the sources, 5 where x_0 is 1 higher.

    The second column is higher as well, which changes nothing; the standard error is that of the
    mean of x_0 and of its slope, about 0.15.
    """
    sites = {}
    for j in range(10):
        X = rows(rng, 500)
        sites[f"s{j}"] = (X, (1 + X[:, 0]) * rng.normal(size=500))
    problem = ShiftProblem.from_sites(sites, rows(rng, 1000, [1.0, 1.0, 0.0]))
    table = searched(problem, Zero(), {"theta": [0.0, 1.0]}).importance()
    assert table["adjustment_low"][0] < 3.0 < table["adjustment_high"][0]
    assert table["adjustment_low"][0] > 1.5
    assert (table["adjustment_low"][1:] < 0).all()
    assert (table["adjustment_high"][1:] > 0).all()
    assert np.abs(table["adjustment"].to_numpy() - [3.0, 0.0, 0.0]).max() < 0.6
    np.testing.assert_allclose(fields(table), 0, atol=1e-12)  # of a constant


class Scores(LogisticRegression):
    def predict(self, X):
        return self.decision_function(X)


def test_what_has_no_importance(rng):
    problem = linear(rng, k=3, n=60)
    with pytest.raises(SettingsError, match="search with risk='adjusted'"):
        searched(problem, risk="naive").importance()
    X = rows(rng, 180)
    sites = [(own, np.where(own[:, 0] > 0, "yes", "no")) for own in np.split(X, 3)]
    scores = Loss(lambda y, p: np.abs((y == "yes") - p), "distance")
    search = searched(ShiftProblem.from_sites(sites, X[:50]), Scores(), C, loss=scores)
    with pytest.raises(SettingsError, match="a loss that reads these"):
        search.importance()


def test_results_have_it_once_it_is_computed(rng):
    """On request of the search, or after a call with the intervals that all reports have."""
    problem = linear(rng, k=3, n=40)
    search = searched(problem)
    assert search.summary()["column_importance"] is None
    search.importance(level=0.8)
    assert search.summary()["column_importance"] is None
    table = search.importance()
    assert table.equals(search.result_.column_importance)
    records = search.summary()["column_importance"]
    assert [each["column"] for each in records] == table.index.tolist()
    assert [each["low"] for each in records] == table["low"].tolist()
    asked = searched(problem, importance_timeout=60)
    assert asked.summary()["column_importance"] == records


def test_a_search_that_cannot_estimate_it_does_not_begin(rng):
    with pytest.raises(SettingsError, match="importance_timeout= needs risk='adjusted'"):
        searched(linear(rng, k=3, n=40), risk="naive", importance_timeout=60)


def test_targets_share_the_fits(rng):
    """Of several targets, the second costs no fit, and has what a search for it alone has."""
    df = pd.DataFrame(rng.normal(size=(300, 2)), columns=["x", "z"])
    df["y"], df["site"] = df["x"] + rng.normal(size=300), np.repeat(list("ABCDEF"), 50)
    df.loc[df["site"].isin(["A", "B"]), "y"] = np.nan
    roles = {"site": "site", "label": "y"}
    search = searched(ShiftProblem.from_frame(df, target=["A", "B"], **roles))
    a, b = search.at("A"), search.at("B")
    assert a.importance() is not b.importance()
    assert a.result_.fold_models is b.result_.fold_models is search.result_.fold_models
    alone = searched(ShiftProblem.from_frame(df[df["site"] != "A"], target="B", **roles))
    pd.testing.assert_frame_equal(b.importance(), alone.importance())
