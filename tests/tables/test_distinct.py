"""Texts are read once each, however many rows have them."""

from __future__ import annotations

import pandas as pd
import pytest

from shiftune.tables import TableSettings, site_table
from shiftune.tables._formats import counted, on_distinct, stripped

ROWS = 400


@pytest.mark.parametrize(
    "texts",
    [
        ["red", "green", "blue"],
        ["1", "2.5", "unknown", *map(str, range(10))],
        ["3,5", "4"],
        ["2024-03-04", "2024-12-31"],
        ["04/03/2024", "31/12/2024"],
    ],
)
def test_a_column_costs_what_its_texts_cost(texts, monkeypatch):
    read = []
    for name in ("to_numeric", "to_datetime"):
        parse = getattr(pd, name)

        def noted(values, *args, parse=parse, **options):
            read.append(len(values))
            return parse(values, *args, **options)

        monkeypatch.setattr(pd, name, noted)
    x = pd.Series([texts[i % len(texts)] for i in range(ROWS)])
    df = pd.DataFrame(
        {"x": x, "site": ["A", "B"] * (ROWS // 2), "y": ["yes", "no", "no"] * 133 + ["no"]}
    )
    site_table(df, TableSettings(site="site", target="A", label="y"))
    assert 0 < max(read) <= len(texts)


def test_missing_texts_stay_missing():
    text = pd.Series(["1", None, "1", "x"], index=[5, 6, 7, 8])
    found = on_distinct(text, lambda texts: pd.to_numeric(texts, errors="coerce"))
    assert found.index.to_list() == [5, 6, 7, 8]
    assert found.isna().to_list() == [False, True, False, True]


def test_texts_are_counted_as_they_stand_without_spaces():
    text = stripped(pd.Series([" b", "a", "b", "c"]))
    assert counted(text).to_dict() == {"b": 2, "a": 1, "c": 1}
    assert counted(text[text != "b"]).to_dict() == {"a": 1, "c": 1}
