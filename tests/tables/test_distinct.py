"""Texts are read once each, however many rows have them."""

from __future__ import annotations

import pandas as pd
import pytest

from shiftune import ShiftProblem
from shiftune.cli._options import shell_option
from shiftune.columns._formats import (
    are_whole,
    counted,
    find_format,
    format_in_words,
    number_formats_by_site,
    on_distinct,
    read_numbers,
    stripped,
    without_zeros,
)
from shiftune.problem._table import TableSettings

ROWS = 400


def site_table(df, notes=(), **settings):
    """Read a table as the command line does."""
    return ShiftProblem.of_table(
        df.rename(columns=str), TableSettings(option=shell_option, **settings), notes, warn=False
    )


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
        {
            "x": x,
            "site": ["A", "A", "B", "B"] * (ROWS // 4),
            "y": ["yes", "no", "no"] * 133 + ["no"],
        }
    )
    site_table(df, site="site", target="A", label="y")
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


def test_numbers_in_whatever_format_all_texts_have():
    found = read_numbers(pd.Series(["1,5", "2", "many"]))
    assert found.dropna().to_list() == [1.5, 2.0]
    by_site = number_formats_by_site(pd.Series(["3,5", "4", "3.5"]), pd.Series(["A", "A", "B"]))
    assert {site: each.decimal for site, each in by_site.items()} == {"A": ",", "B": "."}


def test_whole_numbers_that_floats_have_exactly():
    assert are_whole(pd.Series([17.0, 3.0]))
    assert not are_whole(pd.Series([0.5]))
    assert not are_whole(pd.Series([1e20]))


def test_zeros_in_front_of_digits_only():
    assert [without_zeros(code) for code in ("007", "000", "A01")] == ["7", "0", "A01"]


def test_the_first_format_that_fits():
    assert find_format(pd.Series(["31/12/2024", "1/2/2025"])) == "%d/%m/%Y"
    assert format_in_words("%d/%m/%Y %H:%M") == "day/month/year time"
