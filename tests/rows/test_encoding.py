"""Columns are read all at once where they can be, to the same numbers as one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shiftune.errors import ProblemError
from shiftune.problem._reading import align, of_one_kind
from shiftune.rows._encoding import (
    _center_and_spread,
    in_batches,
    kinds_of,
    number_columns,
    one_hot,
    subsample,
)


@pytest.fixture
def mixed(rng) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "x": rng.normal(size=40),
            "sex": rng.choice(["f", "m"], 40),
            "seen": pd.date_range("2024-01-01", periods=40),
            "visits": rng.integers(0, 9, 40),
            "score": pd.array([None, 2, 3, 5] * 10, dtype="Int64"),
            "on": rng.random(40) < 0.5,
            "gaps": np.where(np.arange(40) % 3, rng.normal(size=40), np.nan),
            "small": rng.normal(size=40).astype("float32"),
            "empty": pd.array([None] * 40, dtype="Float64"),
        }
    )


def test_a_name_may_be_missing():
    """Among names that are numbers pandas would take None for NaN, and find no such column."""
    X = pd.DataFrame([["u", 1.5, 2.5]])
    X.columns = pd.Index([True, 0.5, None], dtype=object)
    assert number_columns(X, kinds_of(X)).tolist() == [[1.5, 2.5]]


def test_numbers_keep_their_order(mixed):
    found = number_columns(mixed, kinds_of(mixed))
    days = (mixed["seen"] - pd.Timestamp("1970-01-01")).dt.days
    wanted = [mixed["x"], days, mixed["visits"], mixed["score"], mixed["gaps"], mixed["small"]]
    for column, expected in zip(found.T, wanted, strict=False):
        np.testing.assert_array_equal(column, expected.to_numpy(float, na_value=np.nan))
    assert np.isnan(found[:, 6]).all()
    assert found.shape == (40, 7)


def test_text_where_numbers_were(mixed):
    kinds = kinds_of(mixed)
    with pytest.raises(ProblemError, match="column 'x' had numbers in the rows of fit"):
        number_columns(mixed.assign(x="a"), kinds)


def test_kinds_are_those_of_each_column(mixed):
    empty = mixed.assign(x=None, visits=pd.Series([None] * 40, dtype=object))
    tables = of_one_kind({"B": mixed, "C": empty})
    assert kinds_of(tables["C"]) == kinds_of(mixed)
    with pytest.raises(ProblemError, match="column 'visits' holds numbers in site 'B' but"):
        of_one_kind({"B": mixed, "C": mixed.assign(visits="many")})


def test_the_first_infinite_column_is_named(mixed):
    mixed.loc[3, "gaps"] = np.inf
    mixed.loc[5, "small"] = -np.inf
    with pytest.raises(ProblemError, match="column 'gaps' has 1 infinite"):
        align({"B": mixed})


def test_centres_and_spreads(rng):
    """With gaps, without, constant, constant but for one row, empty; of any size."""
    X = rng.normal(size=(50, 7)) * [1, 1, 0, 0, 1, 1e200, 1e-200]
    X[::3, 1], X[7, 3], X[:, 4] = np.nan, 5.0, np.nan
    center, spread = _center_and_spread(X)
    for c in (0, 1, 2, 3, 5, 6):
        x = X[~np.isnan(X[:, c]), c]
        low, middle, high = np.quantile(x, [0.1, 0.5, 0.9])
        assert center[c] == middle
        assert spread[c] == ((high - low) / 2.563 if c != 3 else pytest.approx(x.std()))
    assert (center[4], spread[4]) == (0, 0)


def test_rare_levels_share_a_column():
    letters = np.array([*"abcdefghijklmnopqrstuvwxyz", *"xyz"])[:, None]
    assert one_hot().fit_transform(letters).sum(axis=0).max() == 6


def test_small_tables_are_read_together():
    tables = [np.ones((n, 1)) for n in (2, 3, 9, 1)]
    assert [list(map(len, some)) for some in in_batches(tables, 5)] == [[2, 3], [9], [1]]


def test_drawn_rows_keep_their_order():
    drawn = subsample(np.arange(10.0)[:, None], 3).ravel()
    assert len(set(drawn)) == 3
    assert (np.diff(drawn) > 0).all()
