"""Dates written as text: format of a column, and how it is read."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pandas as pd

from shiftune.tables.tally import Tally

FORMATS = ("ISO8601", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M")
DAYS = ("%m", "%d")  # what stands first where slashes separate
LIKE_A_DATE = re.compile(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")


def find_format(given: pd.Series, most_strange: float, preferred: str | None = None) -> str | None:
    """Return the first format that fits all but a share of the texts.

    If none does, the first that fits most of them, since others may be clear in themselves
    (`DateFormats`); None if few are dates.

    >>> find_format(pd.Series(["31/12/2024", "1/2/2025"]), 0.1)
    '%d/%m/%Y'
    """
    if preferred is None and given.str.match(LIKE_A_DATE).mean() < 1 - most_strange:
        return None
    formats = dict.fromkeys([preferred, *FORMATS] if preferred else FORMATS)
    unread = {each: float(parse_dates(given, each).isna().mean()) for each in formats}
    fitting = (each for each in formats if unread[each] <= most_strange)
    best = next(fitting, None) or min(formats, key=lambda each: unread[each])
    return best if unread[best] < 1 else None


def formats_by_site(given: pd.Series, sites: pd.Series, most_strange: float) -> dict[str, str]:
    """Return a format for every site where some write the day first, and others the month.

    A site that fits both is read like most of the others. Empty if no two sites contradict.

    >>> given = pd.Series(["31/12/2024", "1/2/2025", "12/31/2024", "1/2/2025"])
    >>> formats_by_site(given, pd.Series(["A", "A", "B", "B"]), 0.1)
    {'A': '%d/%m/%Y', 'B': '%m/%d/%Y'}
    """
    dates = given.str.match(LIKE_A_DATE)
    if dates.mean() < 1 - most_strange or not given.str.contains("/", regex=False).any():
        return {}
    read = pd.DataFrame({each: parse_dates(given, each).notna() for each in FORMATS})
    fits = read.groupby(sites[given.index]).mean() >= 1 - most_strange
    orders = {first: [each for each in FORMATS if each.startswith(f"{first}/")] for first in DAYS}
    fitting = pd.DataFrame({first: fits[each].any(axis=1) for first, each in orders.items()})
    clear = fitting[fitting.sum(axis=1) == 1]
    if not clear.any().all():
        return {}
    usual = orders[str(clear.sum().idxmax())]
    ranked = [*usual, *(each for each in FORMATS if each not in usual)]
    return {str(site): ranked[int(np.argmax(own[ranked]))] for site, own in fits.iterrows()}


def parse_dates(column: pd.Series, date_format: str) -> pd.Series:
    """Read text as dates in UTC without time zone; anything else becomes missing."""
    dates = pd.to_datetime(column, format=date_format, errors="coerce", utc=True)
    return dates.dt.tz_localize(None)


class DateFormats:
    """How the texts of a column can be read as dates: counts, from all its parts.

    A date with the year first, or with dots, is clear in itself. With slashes, day and month are
    told apart by the expected format or, where that does not read all, by the only one that does.

    Parameters
    ----------
    expected : str
        Format of `pandas.to_datetime`.

    Examples
    --------
    >>> found = DateFormats("%d/%m/%Y")
    >>> found.add(pd.Series(["03/04/2024", "2024-12-31"]))
    >>> found.read(pd.Series(["03/04/2024"])).dt.month.to_list(), found.others
    ([4], {'ISO8601': 1})
    """

    def __init__(self, expected: str) -> None:
        self.expected = expected
        clear = [expected, "ISO8601", "%d.%m.%Y"]
        self._chain = list(dict.fromkeys(clear))
        self._read = Counter(dict.fromkeys(self._chain, 0))
        self._whole = Counter({each: 0 for each in FORMATS if each not in self._chain})
        self._total = 0
        self._strange = Tally()

    def add(self, text: pd.Series) -> None:
        """Count the texts of a part, without missing ones."""
        counts = text.value_counts()
        texts = pd.Series(counts.index, dtype=object)
        self._total += len(text)
        for each in self._whole:
            self._whole[each] += int(counts[_parsed(texts, each).notna().to_numpy()].sum())
        for each in self._chain:
            read = _parsed(texts, each).notna().to_numpy()
            self._read[each] += int(counts[read].sum())
            texts, counts = texts[~read], counts[~read]
        for left, n in counts.items():
            self._strange.count(str(left), int(n))

    def read(self, text: pd.Series) -> pd.Series:
        """Return the dates of a part that was added; NaT where there is none."""
        if self._other is not None:
            return _parsed(text, self._other)
        dates = _parsed(text, self._chain[0])
        for each in self._chain[1:]:
            if self._read[each]:
                dates = dates.fillna(_parsed(text, each))
        return dates

    @property
    def _other(self) -> str | None:
        """The only other format that reads all texts, where the clear ones do not."""
        whole = [each for each, n in self._whole.items() if n == self._total]
        return whole[0] if self._strange.total and len(whole) == 1 else None

    @property
    def strange(self) -> Tally:
        """Texts that are no dates."""
        return self._strange if self._other is None else Tally()

    @property
    def others(self) -> dict[str, int]:
        """Number of dates in other formats than the expected one."""
        if self._other is not None:
            return {self._other: self._total}
        return {each: n for each, n in self._read.items() if n and each != self.expected}


def _parsed(text: pd.Series, date_format: str) -> pd.Series:
    if date_format == "ISO8601":  # which a year alone would fit
        text = text.where(text.str.match(LIKE_A_DATE))
    return parse_dates(text, date_format)


def format_in_words(date_format: str) -> str:
    """Describe a format in words.

    >>> format_in_words("%d/%m/%Y %H:%M")
    'day/month/year time'
    """
    words = {"ISO8601": "year-month-day", "%d": "day", "%m": "month", "%Y": "year", "%H:%M": "time"}
    for sign, word in words.items():
        date_format = date_format.replace(sign, word)
    return date_format
