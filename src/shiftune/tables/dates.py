"""Dates written as text: format of a column, and how it is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from shiftune.tables.distinct import counted, distinct, on_distinct
from shiftune.tables.tally import Tally

# Where several fit, the first is taken: with slashes the month stands first, otherwise the day.
DAYS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y")
SHORT = tuple(each.replace("%Y", "%y") for each in DAYS[:5])
TIMES = ("", " %H:%M", " %H:%M:%S")
FORMATS = ("ISO8601", *(each + time for each in (*DAYS, *SHORT) for time in TIMES))
DAY_AND_MONTH = re.compile(r"^\s*(\d{1,2})[/-](\d{1,2})[/-]\d")
LIKE_A_DATE = re.compile(r"\s*\d{1,4}[-/. ](?:\d{1,2}|[A-Za-z]{3})[-/. ]\d{1,4}")


def find_format(
    given: pd.Series,
    most_strange: float,
    preferred: str | None = None,
    among: Sequence[str] = FORMATS,
) -> str | None:
    """Return the first format that fits all but a share of the texts.

    If none does, the first that fits most of them, since others may be clear in themselves
    (`DateFormats`); None if few are dates.

    >>> find_format(pd.Series(["31/12/2024", "1/2/2025"]), 0.1)
    '%d/%m/%Y'
    """
    counts = counted(given)
    texts = pd.Series(counts.index, dtype=object)
    shares = counts.to_numpy() / len(given)
    like_dates = shares[texts.str.match(LIKE_A_DATE).to_numpy(dtype=bool)].sum()
    if preferred is None and like_dates < 1 - most_strange:
        return None
    unread: dict[str, float] = {}
    for each in dict.fromkeys([preferred, *among] if preferred else among):
        unread[each] = float(shares[parse_dates(texts, each).isna().to_numpy()].sum())
        if unread[each] <= most_strange:
            return each
    best = min(unread, key=lambda each: unread[each])
    return best if unread[best] < 1 - 1e-9 else None


def formats_by_site(given: pd.Series, sites: pd.Series, most_strange: float) -> dict[str, str]:
    """Return a format for every site where some write the day first, and others the month.

    Days above 12 decide; a site without any is read like most of the others, unless it writes dates
    with dots or the year first. Empty if no two sites contradict.

    >>> given = pd.Series(["31/12/2024", "1/2/2025", "12/31/2024", "1/2/2025"])
    >>> formats_by_site(given, pd.Series(["A", "A", "B", "B"]), 0.1)
    {'A': '%d/%m/%Y', 'B': '%m/%d/%Y'}
    """
    codes, texts = distinct(given)
    numbers = texts.str.extract(DAY_AND_MONTH).astype(float)
    if not (numbers[0] > 12).any() or not (numbers[1] > 12).any():
        return {}
    above = pd.DataFrame({"%d": numbers[0] > 12, "%m": numbers[1] > 12}).iloc[codes]
    shares = above.groupby(sites[given.index].to_numpy()).mean()
    first = shares.idxmax(axis=1).where(shares.any(axis=1))
    counts = first.value_counts()
    if len(counts) < 2:
        return {}
    orders = {
        order: [each for each in FORMATS if each.startswith((f"{order}/", f"{order}-"))]
        for order in counts.index
    }
    most = str(counts.index[0])
    orders["unclear"] = [*orders[most], *FORMATS]
    first = first.fillna("unclear")
    formats = {
        site: find_format(own, most_strange, among=orders[str(first[site])])
        for site, own in given.groupby(sites[given.index])
    }
    usual = Counter(each for site, each in formats.items() if first[site] == most and each)
    # A site that has few dates is read like most; what is none becomes missing there.
    return {str(site): each or usual.most_common(1)[0][0] for site, each in formats.items()}


def parse_dates(column: pd.Series, date_format: str) -> pd.Series:
    """Read text as dates in UTC without time zone; anything else becomes missing."""

    def parsed(texts: pd.Series) -> pd.Series:
        dates = pd.to_datetime(texts, format=date_format, errors="coerce", utc=True)
        return dates.dt.tz_localize(None)

    return on_distinct(column, parsed)


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
        self._whole = [each for each in FORMATS if each not in self._chain]
        self._total = 0
        self._strange = Tally()

    def add(self, text: pd.Series) -> None:
        """Count the texts of a part, without missing ones."""
        counts = counted(text)
        texts = pd.Series(counts.index, dtype=object)
        self._total += len(text)
        for start in (slice(0, 10), slice(None)):  # most formats fit none of the first
            fits = [_parsed(texts[start], each).notna().all() for each in self._whole]
            self._whole = [each for each, fit in zip(self._whole, fits, strict=True) if fit]
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
        return self._whole[0] if self._strange.total and len(self._whole) == 1 else None

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
    words = {"ISO8601": "year-month-day", "%d": "day", "%m": "month", "%Y": "year"}
    words |= {"%b": "name of the month", "%y": "year in two digits"}
    words |= {" %H:%M:%S": " time", " %H:%M": " time"}
    for sign, word in words.items():
        date_format = date_format.replace(sign, word)
    return date_format
