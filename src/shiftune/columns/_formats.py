"""Numbers and dates as text writes them: decimal signs, thousands, day and month order.

Every text is read once, however many rows have it. What follows from all texts of a column is
counted part by part (`NumberFormats`, `DateFormats`), so that a file need not be in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune._wording import listed

# Texts that a tally tells apart.
_MOST_TEXTS = 10_000
# A column has a format if at most this share of its texts does not fit.
MOST_STRANGE = 0.1

MISSING_TEXTS = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN")
).union(("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"))
"""Texts that pandas takes for missing in CSV files, the empty one included."""
MISSING_CODES = frozenset(
    (".", "..", "?", "-", "--", "\u2013", "\u2014", "*", "N.A.", "n.a.")
).union(("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"))
"""Texts that mean missing among numbers and dates; among categories they may mean anything."""


class Tally:
    """Number of texts in several parts of a column."""

    def __init__(self) -> None:
        self.total = 0
        self.texts: Counter[str] = Counter()

    def count(self, text: str, n: int) -> None:
        """Count a text."""
        self.total += n
        if text in self.texts or len(self.texts) < _MOST_TEXTS:
            self.texts[text] += n

    @property
    def shown(self) -> str:
        """The most frequent texts, in words."""
        return listed([text for text, _ in self.texts.most_common()], 4)

    def __add__(self, other: Tally) -> Tally:
        both = Tally()
        both.total, both.texts = self.total + other.total, self.texts + other.texts
        return both


def stripped(text: pd.Series) -> pd.Series:
    """Return texts without spaces around them, as a categorical column; none may be missing."""
    codes, texts = distinct(text)
    own, shorter = pd.factorize(texts.str.strip())
    return pd.Series(
        pd.Categorical.from_codes(own[codes], pd.Index(shorter, dtype=object)),
        text.index,
        name=text.name,
    )


def distinct(text: pd.Series) -> tuple[NDArray[np.intp], pd.Series]:
    """Return the number of every row's text, and the texts, in the order in which they occur."""
    codes, texts = pd.factorize(text)
    return codes, pd.Series(np.asarray(texts, dtype=object), dtype=object, name=text.name)


def counted(text: pd.Series) -> pd.Series:
    """Return how often every text occurs, the most frequent first."""
    codes, texts = distinct(text)
    counts = np.bincount(codes, minlength=len(texts))
    order = np.argsort(-counts, kind="stable")
    return pd.Series(counts[order], pd.Index(texts.iloc[order], dtype=object))


def on_distinct(text: pd.Series, compute: Callable[[pd.Series], Any]) -> pd.Series:
    """Compute a column from another one, text by text."""
    codes, texts = distinct(text)
    found = pd.Series(compute(texts))
    return pd.Series(found.array.take(codes, allow_fill=True), text.index, name=text.name)


# ------------------------------------------------------------ numbers

_SIGN = r"\s*(?P<before>[€$£¥]|EUR|USD|GBP|CHF|JPY)?\s*(?P<number>[+-]?[\d.,' \u00a0\u202f]*\d[.,]?"
_PARTS = re.compile(
    _SIGN + r"(?:[eE][+-]?\d+)?)\s*(?P<after>%|‰|[€$£¥°µ]?[A-Za-z]{0,6}(?:/[A-Za-z]{1,6})?)\s*"
)
_GROUPS = {".": r"[,'\s]", ",": r"[.'\s]"}
_STYLES = {
    decimal: re.compile(
        rf"[+-]?(?:[1-9]\d{{0,2}}(?:{group}\d{{3}})+|\d+)?(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?"
    )
    for decimal, group in _GROUPS.items()
}


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How the numbers of one column are written.

    >>> written = NumberFormat(",", "€", grouped=True)
    >>> written.read(pd.Series(["1.234,50 €", "3 €", "much"])).to_list()
    [1234.5, 3.0, nan]
    """

    decimal: str = "."
    affix: str = ""
    """Currency, per cent sign or unit of all values; empty if none."""
    grouped: bool = False
    """Whether thousands may be separated."""

    def read(self, text: pd.Series) -> pd.Series:
        """Return floats; what is no number of this format is NaN."""
        if self == PLAIN:
            return on_distinct(text, as_numbers)
        return on_distinct(
            text, lambda texts: [_value(_parts(str(each)), self) for each in texts]
        ).astype(float)

    @property
    def words(self) -> str:
        """What is unusual about it; empty if nothing."""
        parts = [
            "a decimal comma" if self.decimal == "," else "",
            "separators of thousands" if self.grouped else "",
            repr(self.affix) if self.affix else "",
        ]
        return " and ".join(filter(None, parts))


PLAIN = NumberFormat()


def as_numbers(text: pd.Series) -> pd.Series:
    """Return floats; what is no number without a format is NaN."""
    return pd.to_numeric(text, errors="coerce").astype(float)


class NumberFormats:
    """How the texts of a column can be read as numbers: counts, from all its parts.

    `low` and `high` are the values to expect, which decide whether 1,234 has thousands or decimals;
    where they do not, `decimal` does, the decimal sign of the file. A format that is `known` stays
    if it reads nearly all texts, whatever else would; other units than its own are never read.

    >>> found = NumberFormats()
    >>> found.add(pd.Series(["3,5", "4", "unknown"]))
    >>> found.add(pd.Series(["12,25"]))
    >>> found.decided(), found.strange.shown
    (NumberFormat(decimal=',', affix='', grouped=False), "'unknown'")
    """

    def __init__(
        self,
        low: float = -np.inf,
        high: float = np.inf,
        decimal: str = ".",
        known: NumberFormat = PLAIN,
    ) -> None:
        self.low, self.high, self.decimal, self.known = low, high, decimal, known
        self._telling, self._unread = 0, Tally()
        self.read: Counter[str] = Counter()
        self.below: Counter[str] = Counter()
        self.above: Counter[str] = Counter()
        self.grouped: Counter[str] = Counter()
        self.affixes: Counter[str] = Counter()
        self.either = 0
        self.odd = Tally()
        self._no_numbers = Tally()

    def add(self, text: pd.Series) -> None:
        """Count the texts of a part, without missing ones."""
        counts = counted(text)
        texts, n = pd.Series(counts.index, dtype=object), counts.to_numpy()
        numbers = as_numbers(texts).to_numpy()
        plain = ~np.isnan(numbers)
        fractions = ["." in each or "e" in each or "E" in each for each in texts]
        whole = plain & ~np.array(fractions, dtype=bool)
        rows = int(n[plain].sum())
        self.affixes[""] += rows
        self.either += rows
        self._count(("plain", "."), numbers[plain], n[plain])
        self._count((",",), numbers[whole], n[whole])
        for each, times in counts[~plain].items():
            self._add_odd(str(each), int(times))
        if self.known != PLAIN:
            for each, times in counts[plain & ~whole].items():
                self._compare(str(each), int(times))

    def add_numbers(self, values: NDArray[np.float64]) -> None:
        """Count values that are numbers already."""
        self.either += len(values)
        self.affixes[""] += len(values)
        self._count(("plain", ".", ","), values, np.ones(len(values), dtype=np.intp))

    def _add_odd(self, text: str, n: int) -> None:
        parts = _parts(text)
        found = {d: _value(parts, NumberFormat(d, parts[1], True)) for d in _STYLES}
        values = {d: value for d, value in found.items() if not np.isnan(value)}
        if not values:
            self._no_numbers.count(text, n)
            return
        self.odd.count(text, n)
        self._compare(text, n)
        self.either += n
        self.affixes[parts[1]] += n
        for style, value in values.items():
            self._count((style,), np.array([value]), np.array([n]))
            self.grouped[style] += bool(re.search(_GROUPS[style], parts[0]))

    def _compare(self, text: str, n: int) -> None:
        """Count texts that tell formats apart, and those that the known one does not read."""
        self._telling += n
        if np.isnan(_value(_parts(text), self.known)):
            self._unread.count(text, n)

    def _count(
        self, styles: tuple[str, ...], values: NDArray[np.float64], n: NDArray[np.intp]
    ) -> None:
        below, above = int(n[values < self.low].sum()), int(n[values > self.high].sum())
        for style in styles:
            self.read[style] += int(n.sum())
            self.below[style] += below
            self.above[style] += above

    def decided(self) -> NumberFormat:
        """Return the format that reads all that is a number in any; the plain one if none does."""
        few = self._unread.total <= MOST_STRANGE * self._telling
        if self.known != PLAIN and self._telling and few:
            return self.known
        if not self.odd.total:
            return PLAIN
        units = [affix for affix in self.affixes if affix]
        unit = units[0] if units else ""
        # Numbers without it are of the same unit if it is a currency or a sign; "kg" may not be.
        may_lack = not unit[:1].isalpha() or unit.isupper()
        other = unit and self.known.affix not in ("", unit)
        if len(units) > 1 or other or (self.affixes[""] and not may_lack):
            return PLAIN
        styles = [style for style in _STYLES if self.read[style] == self.either]
        if not styles:
            return PLAIN
        inside = {
            style: self.read[style] - self.below[style] - self.above[style] for style in styles
        }
        best = max(styles, key=lambda style: (inside[style], style == self.decimal))
        return NumberFormat(best, unit, self.grouped[best] > 0)

    @property
    def strange(self) -> Tally:
        """Texts that the format does not read."""
        found = self.decided()
        if found == PLAIN:
            return self._no_numbers + self.odd
        return self._no_numbers + self._unread if found == self.known else self._no_numbers

    @property
    def outside(self) -> tuple[int, int]:
        """Numbers below and above what is expected, in the format."""
        written = self.decided()
        style = "plain" if written == PLAIN else written.decimal
        return self.below[style], self.above[style]


def read_numbers(text: pd.Series) -> pd.Series:
    """Return floats, in whatever format all texts have; NaN for texts that are no numbers."""
    formats = NumberFormats()
    formats.add(text)
    return formats.decided().read(text)


def number_formats_by_site(given: pd.Series, sites: pd.Series) -> dict[str, NumberFormat]:
    """Return the format of every site, such as decimal commas at some of them."""
    plain = PLAIN.read(given)
    low, high = (-np.inf, np.inf) if plain.isna().all() else (plain.min(), plain.max())
    found = {}
    for site, texts in given.groupby(sites[given.index]):
        formats = NumberFormats(float(low), float(high))
        formats.add(texts)
        found[str(site)] = formats.decided()
    units = {written.affix for written in found.values() if written.affix}
    return dict.fromkeys(found, PLAIN) if len(units) > 1 else found


def _parts(text: str) -> tuple[str, str]:
    """Return the digits and the affix of a number; empty digits if there are none."""
    found = _PARTS.fullmatch(text)
    if found is None or (found["before"] and found["after"]):
        return "", ""
    return found["number"].strip(), found["before"] or found["after"] or ""


def _value(parts: tuple[str, str], written: NumberFormat) -> float:
    digits, affix = parts
    if not digits or affix not in ("", written.affix):
        return np.nan
    if not _STYLES[written.decimal].fullmatch(digits):
        return np.nan
    if not written.grouped and re.search(_GROUPS[written.decimal], digits):
        return np.nan
    plain = re.sub(_GROUPS[written.decimal], "", digits)
    return float(plain.replace(written.decimal, "."))


# ------------------------------------------------------------ dates

# Where several fit, the first is taken: with slashes the month stands first, otherwise the day.
_DAYS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y")
_SHORT = tuple(each.replace("%Y", "%y") for each in _DAYS[:5])
_FORMATS = (
    "ISO8601",
    *(each + time for each in (*_DAYS, *_SHORT) for time in ("", " %H:%M", " %H:%M:%S")),
)
_DAY_AND_MONTH = re.compile(r"^\s*(\d{1,2})[/-](\d{1,2})[/-]\d")
_LIKE_A_DATE = re.compile(r"\s*\d{1,4}[-/. ](?:\d{1,2}|[A-Za-z]{3})[-/. ]\d{1,4}")


def find_format(
    given: pd.Series, preferred: str | None = None, among: Sequence[str] = _FORMATS
) -> str | None:
    """Return the first format that fits nearly all texts.

    If none does, the first that fits most of them, since others may be clear in themselves
    (`DateFormats`); None if few are dates.
    """
    counts = counted(given)
    texts = pd.Series(counts.index, dtype=object)
    shares = counts.to_numpy() / len(given)
    like_dates = shares[texts.str.match(_LIKE_A_DATE).to_numpy(dtype=bool)].sum()
    if preferred is None and like_dates < 1 - MOST_STRANGE:
        return None
    unread: dict[str, float] = {}
    for each in dict.fromkeys([preferred, *among] if preferred else among):
        unread[each] = float(shares[parse_dates(texts, each).isna().to_numpy()].sum())
        if unread[each] <= MOST_STRANGE:
            return each
    best = min(unread, key=lambda each: unread[each])
    return best if unread[best] < 1 - 1e-9 else None


def date_formats_by_site(given: pd.Series, sites: pd.Series) -> dict[str, str]:
    """Return a format for every site where some write the day first, and others the month.

    Days above 12 decide; a site without any is read like most of the others, unless it writes dates
    with dots or the year first. Empty if no two sites contradict.
    """
    codes, texts = distinct(given)
    numbers = texts.str.extract(_DAY_AND_MONTH).astype(float)
    if not (numbers[0] > 12).any() or not (numbers[1] > 12).any():
        return {}
    above = pd.DataFrame({"%d": numbers[0] > 12, "%m": numbers[1] > 12}).iloc[codes]
    shares = above.groupby(sites[given.index].to_numpy()).mean()
    first = shares.idxmax(axis=1).where(shares.any(axis=1))
    counts = first.value_counts()
    if len(counts) < 2:
        return {}
    orders = {
        order: [each for each in _FORMATS if each.startswith((f"{order}/", f"{order}-"))]
        for order in counts.index
    }
    most = str(counts.index[0])
    orders["unclear"] = [*orders[most], *_FORMATS]
    first = first.fillna("unclear")
    formats = {
        site: find_format(own, among=orders[str(first[site])])
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

    >>> found = DateFormats("%d/%m/%Y")
    >>> found.add(pd.Series(["03/04/2024", "2024-12-31"]))
    >>> found.read(pd.Series(["03/04/2024"])).dt.month.to_list(), found.others
    ([4], {'ISO8601': 1})
    """

    def __init__(self, expected: str) -> None:
        self.expected = expected
        self._chain = list(dict.fromkeys([expected, "ISO8601", "%d.%m.%Y"]))
        self._read = Counter(dict.fromkeys(self._chain, 0))
        self._whole = [each for each in _FORMATS if each not in self._chain]
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
        text = text.where(text.str.match(_LIKE_A_DATE))
    return parse_dates(text, date_format)


def format_in_words(date_format: str) -> str:
    """Describe a format in words, such as day/month/year time."""
    words = {"ISO8601": "year-month-day", "%d": "day", "%m": "month", "%Y": "year"}
    words |= {"%b": "name of the month", "%y": "year in two digits"}
    words |= {" %H:%M:%S": " time", " %H:%M": " time"}
    for sign, word in words.items():
        date_format = date_format.replace(sign, word)
    return date_format


def first_code(values: Iterable[object]) -> str | None:
    """Return the first text made of digits with a leading zero; None if there is none."""
    return next((v for v in values if isinstance(v, str) and re.fullmatch("0[0-9]+", v)), None)


def without_zeros(code: str) -> str:
    """Return digits without leading zeros (0 for 000); any other text unchanged."""
    return str(int(code)) if code.isascii() and code.isdigit() else code


def are_whole(numbers: pd.Series) -> bool:
    """Whether all are whole numbers small enough for floats to be exact."""
    return bool(np.array_equal(numbers, np.round(numbers)) and numbers.abs().max() < 2**53)
