"""Spellings of one name: texts that differ by spaces around them, or by capitals."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd
from pandas.api import types

from shiftune.tables.distinct import counted
from shiftune.wording import count, listed


def without_spaces(column: pd.Series, what: str) -> tuple[pd.Series, list[str]]:
    """Remove spaces around texts, with a note if that joins names; blank texts become missing.

    >>> found, notes = without_spaces(pd.Series(["B", "B ", " "]), "the site column 'ward'")
    >>> found.dropna().to_list()
    ['B', 'B']
    >>> for note in notes:
    ...     print(note)
    the site column 'ward' has spaces in 1 row: 'B ' is read as 'B'
    the site column 'ward' is blank in 1 row, which counts as missing
    """
    texts = [value for value in column.dropna().unique() if isinstance(value, str)]
    spaced = {text: text.strip() for text in texts if text != text.strip()}
    if not spaced:
        return column, []
    notes = []
    joined = {old: new for old, new in spaced.items() if new}
    if joined:
        rows = count(int(column.isin(list(joined)).sum()), "row")
        shown = listed([f"{old!r} is read as {new!r}" for old, new in joined.items()], quoted=False)
        notes.append(f"{what} has spaces in {rows}: {shown}")
    if len(joined) < len(spaced):
        rows = count(int(column.isin([old for old, new in spaced.items() if not new]).sum()), "row")
        notes.append(f"{what} is blank in {rows}, which counts as missing")
    return _renamed(column, {old: new or None for old, new in spaced.items()}), notes


def in_one_spelling(column: pd.Series, what: str) -> tuple[pd.Series, list[str]]:
    """Give texts that differ by capitals the most frequent spelling, with a note.

    >>> found, notes = in_one_spelling(pd.Series(["yes", "YES", "yes", "no"]), "the label 'ill'")
    >>> found.to_list(), notes
    (['yes', 'yes', 'yes', 'no'], ["the label 'ill' has several spellings: 'YES' is read as 'yes'"])
    """
    if types.is_numeric_dtype(column):
        return column, []
    alike: dict[str, list[str]] = defaultdict(list)
    for text in counted(column.dropna()).index:  # the most frequent first
        if isinstance(text, str):
            alike[text.casefold()].append(text)
    renamed = {text: texts[0] for texts in alike.values() for text in texts[1:]}
    if not renamed:
        return column, []
    shown = listed([f"{old!r} is read as {new!r}" for old, new in renamed.items()], quoted=False)
    return _renamed(column, renamed), [f"{what} has several spellings: {shown}"]


def _renamed(column: pd.Series, names: dict[str, str | None] | dict[str, str]) -> pd.Series:
    return column.astype(object).map(lambda value: names.get(value, value))
