"""Weights of rows: read from every form of data, checked, and no feature."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.errors import DataError, DataWarning, SettingsError


@pytest.fixture
def df(rng):
    w = np.tile([1.0, 2.5], 20)
    return pd.DataFrame(
        {"site": np.repeat(list("ABCD"), 10), "x": rng.normal(size=40), "w": w, "y": w - 3 * w**2}
    )


def read(df, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of labels that are hidden
        return ShiftProblem.from_frame(
            df, site="site", label="y", target="A", sample_weight="w", **options
        )


def test_every_form_of_data(df):
    X, y, w, sites = df[["x"]], df["y"], df["w"], df["site"]
    inside = sites == "A"
    table = read(df)
    assert list(table.columns) == ["x"]
    assert "rows have weights from 1 to 2.5" in table.notes[-1]
    arrays = ShiftProblem.from_arrays(
        X[~inside], y[~inside], sites[~inside], X[inside], sample_weight=w[~inside]
    )
    pairs = {n: (X[sites == n], y[sites == n], w[sites == n]) for n in "BCD"}
    several = ShiftProblem.from_sites(pairs, X[inside])
    domains = sites.map({"A": -1, "B": 2, "C": 3, "D": 4})
    skada = ShiftProblem.from_sample_domain(X, y, domains, sample_weight=w, task="regression")
    for problem in (table, arrays, several, skada):
        for site in problem.sources:
            assert site.sample_weight.tolist() == [1, 2.5] * 5
            assert site.take(np.array([1])).sample_weight.tolist() == [2.5]
    assert table.target.sample_weight.tolist() == [1, 2.5] * 5
    assert arrays.target.sample_weight.tolist() == [1] * 10


def test_a_target_without_weights_counts_every_row_once(df):
    df.loc[df["site"] == "A", "w"] = np.nan
    assert read(df).target.sample_weight.tolist() == [1] * 10
    assert read(df, target_labels="use").labelled_target.sample_weight.tolist() == [1] * 10


def test_weights_are_part_of_the_data(df):
    other = df.assign(w=np.where(df["w"] == 1, 1.5, df["w"]))
    assert read(df).fingerprint() != read(other).fingerprint()
    alike = read(df.assign(w=1))
    assert alike.sources[0].sample_weight is None
    assert "every row has the weight 1" in alike.notes[-1]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-2, "-2"),
        (np.nan, "missing"),
        (np.inf, "inf"),
        (1e207, r"1e\+207"),
        (1e-114, "1e-114"),
    ],
)
def test_weights_that_are_none(df, value, shown):
    df.loc[23, "w"] = value
    with pytest.raises(DataError, match=rf"site 'C': the weight of row 23 is {shown}; leave"):
        read(df)


def test_other_mistakes(df):
    X, y, sites = df[["x"]], df["y"], df["site"]
    with pytest.raises(SettingsError, match=r"X has 40 rows, and sample_weight has the shape \(3,"):
        ShiftProblem.from_arrays(X, y, sites, X, sample_weight=[1, 2, 3])
    with pytest.raises(DataError, match="site 'B': the weights of rows are not numbers"):
        ShiftProblem.from_arrays(X[10:], y[10:], sites[10:], X, sample_weight=["a"] * 30)
    with pytest.raises(DataError, match="site '2': the weight of row 0 is missing"):
        ShiftProblem.from_sites([(X, y, df["w"]), (X, y)], X)
    with pytest.raises(SettingsError, match="site and sample_weight are both 'site'"):
        ShiftProblem.from_frame(df, site="site", label="y", target="A", sample_weight="site")
    with pytest.raises(SettingsError, match="'w' is the sample weight; leave it out of features"):
        ShiftProblem.from_frame(
            df, site="site", label="y", target="A", sample_weight="w", features=["w"]
        )
