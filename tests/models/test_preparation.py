"""The columns of the next file are read as those that the model has learned from."""

from __future__ import annotations

import pandas as pd
import pytest

from shiftune.models._by_name import ColumnReader
from shiftune.rows._encoding import MISSING
from shiftune.tables import Schema


@pytest.mark.parametrize(
    ("learned", "next_file"),
    [
        (["01067", "80331", None], [1067, 80331, None]),
        (["01067", "80331"], [1067, 80331]),
        (["a", "007", "0.5"], ["a", "007", "0.5"]),
        ([3, 5], [3.0, None]),
    ],
)
def test_codes_come_as_text_or_as_numbers(learned, next_file):
    reader = ColumnReader(Schema({"code": "category"}))
    first, later = (reader.fit_transform(pd.DataFrame({"code": c})) for c in (learned, next_file))
    known = set(first["code"]) | {MISSING}
    assert set(later["code"]) <= known
    assert first["code"].iloc[0] == later["code"].iloc[0]
