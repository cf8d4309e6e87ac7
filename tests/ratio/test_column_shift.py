"""How differently a column is distributed, against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from shiftune.ratio import column_shifts


def test_numbers_are_compared_as_scipy_does(rng):
    target, near, far = (rng.normal(m, 1, (n, 2)) for m, n in ((0, 80), (0.2, 50), (2, 70)))
    found = column_shifts(target, [near, far], ["near", "far"])
    for column in (0, 1):
        for site, X in (("near", near), ("far", far)):
            expected = ks_2samp(target[:, column], X[:, column]).statistic
            assert found.loc[str(column), site] == pytest.approx(expected)


def test_categories_missing_values_and_the_order():
    target = pd.DataFrame({"ward": ["icu"] * 6 + [None] * 4, "dose": [1.0, 2.0] * 5, "same": "x"})
    other = pd.DataFrame({"ward": ["icu"] * 3 + ["er"] * 7, "dose": [np.nan] * 10, "same": "x"})
    found = column_shifts(target, [other], ["B"])
    # half of |.6 - .3| + |0 - .7| + |.4 - 0|; all doses missing have nothing in common with none
    assert found["B"].to_dict() == pytest.approx({"dose": 1.0, "ward": 0.7, "same": 0.0})
    assert found.index.to_list() == ["dose", "ward", "same"]


def test_rare_levels_count_together():
    target = pd.DataFrame({"town": [f"t{i}" for i in range(300)]})
    other = pd.DataFrame({"town": [f"o{i}" for i in range(300)]})
    # 600 towns that occur once are no shift that anyone could see
    assert column_shifts(target, [other], ["B"]).loc["town", "B"] < 0.1


def test_every_source_is_read_by_itself():
    """Time zones and forms of numbers may differ from source to source."""
    days = pd.date_range("2024-01-01", periods=10)
    target = pd.DataFrame({"day": days, "code": pd.Series([1, 2] * 5, dtype=object)})
    zoned = target.assign(day=days.tz_localize("UTC"))
    empty = target.assign(day=pd.Series([None] * 10, dtype=object))
    found = column_shifts(target, [target, zoned, empty], ["B", "C", "D"])
    assert found.loc["day"].tolist() == [0.0, 0.0, 1.0]
