"""Numbers and dates as text writes them: decimal signs, thousands, day and month order.

Every text is read once, however many rows have it. What follows from all texts of a column is
counted part by part (`NumberFormats`, `DateFormats`), so that a file need not be in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune._wording import listed
from shiftune.errors import SettingsError

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

TRUTH = frozenset(("true", "True", "TRUE", "false", "False", "FALSE"))
"""Texts that pandas takes for booleans in CSV files, if a column has no others."""


@dataclass
class Tally:
    """Number of texts in several parts of a column."""

    total: int = 0
    texts: Counter[str] = field(default_factory=Counter)

    def count(self, counts: pd.Series | dict[str, int]) -> None:
        """Add how often some texts occur."""
        for text, n in counts.items():
            self.total += int(n)
            if text in self.texts or len(self.texts) < _MOST_TEXTS:
                self.texts[str(text)] += int(n)

    @property
    def shown(self) -> str:
        """The most frequent texts, in words."""
        return listed([text for text, _ in self.texts.most_common()], 4)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.total + other.total, self.texts + other.texts)


def stripped(text: pd.Series, missing: Collection[str] = ()) -> pd.Series:
    """Return texts without spaces around them, as a categorical column without some of them."""
    codes, texts = distinct(text)
    texts = texts.str.strip()
    return _categorical(text, codes, texts.mask(texts.isin(missing)))


def with_levels(text: pd.Series, change: Callable[[str], str | None]) -> pd.Series:
    """Return a categorical column with its levels changed; they may become equal, or missing."""
    levels = [change(level) for level in text.cat.categories]
    return _categorical(text, text.cat.codes.to_numpy(), levels)


def _categorical(like: pd.Series, codes: NDArray[Any], levels: Iterable[str | None]) -> pd.Series:
    unique, texts = pd.factorize(pd.Series(levels, dtype=object))
    values = pd.Categorical.from_codes(np.append(unique, -1)[codes], pd.Index(texts, dtype=object))
    return pd.Series(values, like.index, name=like.name)


def distinct(text: pd.Series) -> tuple[NDArray[np.intp], pd.Series]:
    """Return the number of every row's text, and the texts; rows without one have -1."""
    if isinstance(text.dtype, pd.CategoricalDtype):
        codes: Any = text.cat.codes.to_numpy(dtype=np.intp)
        texts = text.cat.categories
        if len(np.unique(codes[codes >= 0])) < len(texts):  # categories without a row
            codes, texts = pd.factorize(text)
    else:
        codes, texts = pd.factorize(text)
    return codes, pd.Series(np.asarray(texts, dtype=object), dtype=object, name=text.name)


def counted(text: pd.Series) -> pd.Series:
    """Return how often every text occurs, the most frequent first; missing ones do not count."""
    codes, texts = distinct(text)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    order = np.argsort(-counts, kind="stable")
    return pd.Series(counts[order], pd.Index(texts.iloc[order], dtype=object))


def on_distinct(text: pd.Series, compute: Callable[[pd.Series], Any]) -> pd.Series:
    """Compute a column from another one, text by text."""
    codes, texts = distinct(text)
    computed = pd.Series(compute(texts))
    return pd.Series(computed.array.take(codes, allow_fill=True), text.index, name=text.name)


# ------------------------------------------------------------ numbers

_PARTS = (
    r"\A\s*(?P<before>[€$£¥]|EUR|USD|GBP|CHF|JPY)?\s*"
    r"(?P<number>[+-]?[\d.,' \u00a0\u202f]*\d[.,]?(?:[eE][+-]?\d+)?)"
    r"\s*(?P<after>%|‰|[€$£¥°µ]?[A-Za-z]{0,6}(?:/[A-Za-z]{1,6})?)\s*\Z"
)
_GROUPS = {".": r"[,'\s]", ",": r"[.'\s]"}
_STYLES = {
    decimal: (
        rf"[+-]?(?:[1-9]\d{{0,2}}(?:{group}\d{{3}})+|\d+)?(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?"
    )
    for decimal, group in _GROUPS.items()
}


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How the numbers of one column are written."""

    decimal: str = "."
    affix: str = ""
    """Currency, per cent sign or unit of all values; empty if none."""
    grouped: bool = False
    """Whether thousands may be separated."""

    def read(self, text: pd.Series) -> pd.Series:
        """Return floats; values that are not numbers of this format are NaN."""

        def read(texts: pd.Series) -> pd.Series:
            digits, affixes = _split(texts)
            fits = affixes.isin(["", self.affix])
            if not self.grouped:
                fits &= ~_has_groups(digits, self.decimal)
            return _values(digits.where(fits), self.decimal)

        return on_distinct(text, as_numbers if self == PLAIN else read)

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
    """Return floats; values that are not plain numbers are NaN."""
    return pd.to_numeric(text, errors="coerce").astype(float)


@dataclass
class NumberFormats:
    """How the texts of a column can be read as numbers: counts, from all its parts.

    `low` and `high` are the values to expect, which decide whether 1,234 has thousands or decimals;
    where they do not, `decimal` does, the decimal sign of the file. A format that is `known` stays
    if it reads nearly all texts, whatever else would; other units than its own are never read.
    """

    low: float = -np.inf
    high: float = np.inf
    decimal: str = "."
    known: NumberFormat = PLAIN

    def __post_init__(self) -> None:
        # By style: numbers that it reads, and those below and above what is expected.
        self._counts = {style: np.zeros(3, dtype=int) for style in ("plain", *_STYLES)}
        self._grouped = dict.fromkeys(_STYLES, False)
        self._affixes: set[str] = set()
        self._largest = 0.0  # number without a unit, by its size
        self.odd, self._no_numbers = Tally(), Tally()
        self._telling, self._unread = 0, Tally()

    def add(self, text: pd.Series) -> None:
        """Count the texts of a part, without missing ones."""
        counts = counted(text)
        texts, n = pd.Series(counts.index, dtype=object), counts.to_numpy()
        numbers = as_numbers(texts).to_numpy()
        plain = ~np.isnan(numbers)
        fraction = plain & texts.str.contains("[.eE]").to_numpy(dtype=bool)
        self.add_numbers(numbers[plain], n[plain], fraction[plain])
        digits, affixes = _split(texts[~plain])
        odd = pd.Index([], dtype=int)
        for style in _STYLES:
            read = _values(digits, style).dropna()
            self._count(style, read.to_numpy(), n[read.index])
            self._grouped[style] |= bool(_has_groups(digits[read.index], style).any())
            odd = odd.union(read.index)
        self._affixes |= set(affixes[odd])
        self._largest = max(self._largest, _values(digits[affixes == ""], ",").abs().max())
        self.odd.count(counts.iloc[odd])
        self._no_numbers.count(counts.iloc[digits.index.difference(odd)])
        if self.known != PLAIN:
            telling = counts.iloc[odd.union(pd.Index(np.flatnonzero(fraction)))]
            self._telling += int(telling.sum())
            self._unread.count(telling[self.known.read(telling.index.to_series()).isna()])

    def add_numbers(self, values: NDArray[np.float64], n: Any = 1, fraction: Any = False) -> None:
        """Count values that are numbers already, or without a format."""
        self._affixes |= {""} if len(values) else set()
        self._largest = max(self._largest, float(np.abs(values).max(initial=0)))
        for style in self._counts:
            self._count(style, values, np.where(fraction & (style == ","), 0, n))

    def _count(self, style: str, values: NDArray[np.float64], n: Any) -> None:
        sides = np.ones_like(values), values < self.low, values > self.high
        self._counts[style] += np.array([np.sum(n * side) for side in sides], dtype=int)

    def decided(self) -> NumberFormat:
        """Return the format that reads all that is a number in any; the plain one if none does."""
        few = self._unread.total <= MOST_STRANGE * self._telling
        if self.known != PLAIN and self._telling and few:
            return self.known
        units = [*self._affixes - {""}]
        unit = units[0] if units else ""
        # Numbers without it are of the same unit if it is a currency or a sign; "kg" may not be,
        # and beside 12 % and 14 %, 0.13 may be a share.
        may_lack = not unit[:1].isalpha() or unit.isupper()
        if unit in ("%", "‰"):
            may_lack = self._largest > 1
        other = unit and self.known.affix not in ("", unit)
        if len(units) > 1 or other or ("" in self._affixes and not may_lack):
            return PLAIN
        numbers = self._counts["plain"][0] + self.odd.total
        ranked = {
            style: (read - below - above, style == self.decimal)
            for style, (read, below, above) in self._counts.items()
            if read == numbers and style != "plain"
        }
        if not ranked or not self.odd.total:
            return PLAIN
        best = max(ranked, key=lambda style: ranked[style])
        return NumberFormat(best, unit, self._grouped[best])

    @property
    def strange(self) -> Tally:
        """Texts that the format does not read."""
        form = self.decided()
        if form == PLAIN:
            return self._no_numbers + self.odd
        return self._no_numbers + self._unread if form == self.known else self._no_numbers

    @property
    def outside(self) -> tuple[int, int]:
        """Numbers below and above what is expected, in the format."""
        written = self.decided()
        style = "plain" if written == PLAIN else written.decimal
        _, below, above = self._counts[style].tolist()
        return below, above


def read_numbers(text: pd.Series, decimal: str = ".") -> pd.Series:
    """Return floats, in whatever format all texts have; NaN for texts that are not numbers."""
    formats = NumberFormats(decimal=decimal)
    formats.add(text)
    return formats.decided().read(text)


def number_formats_by_site(column: pd.Series, sites: pd.Series) -> dict[str, NumberFormat]:
    """Return the format of every site, such as decimal commas at some of them."""
    plain = PLAIN.read(column)
    low, high = (-np.inf, np.inf) if plain.isna().all() else (plain.min(), plain.max())
    by_site, are_shares = {}, False
    for site, texts in column.groupby(sites[column.index]):
        formats = NumberFormats(float(low), float(high))
        formats.add(texts)
        by_site[str(site)] = formats.decided()
        are_shares |= not by_site[str(site)].affix and 0 < formats._largest <= 1
    units = {written.affix for written in by_site.values() if written.affix}
    mixed = len(units) > 1 or (are_shares and units & {"%", "‰"})  # 0.13 beside 14 %
    return dict.fromkeys(by_site, PLAIN) if mixed else by_site


def _split(texts: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return the digits and the affix of numbers; other texts have no digits."""
    parts = texts.astype(object).str.extract(_PARTS)
    before, after = parts["before"].fillna(""), parts["after"].fillna("")
    return parts["number"].str.strip().where((before == "") | (after == "")), before + after


def _has_groups(digits: pd.Series, decimal: str) -> pd.Series:
    return digits.str.contains(_GROUPS[decimal]).eq(True)


def _values(digits: pd.Series, decimal: str) -> pd.Series:
    """Return the numbers with a decimal sign, which may have groups of thousands; others NaN."""
    digits = digits.where(digits.str.fullmatch(_STYLES[decimal]).eq(True))
    digits = digits.str.replace(_GROUPS[decimal], "", regex=True)
    return as_numbers(digits.str.replace(decimal, ".", regex=False))


# ------------------------------------------------------------ dates

# Where several fit, the first is taken: with slashes the month stands first, otherwise the day.
_DAYS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y")
_SHORT = tuple(days.replace("%Y", "%y") for days in _DAYS[:5])
_FORMATS = (
    "ISO8601",
    *(days + time for days in (*_DAYS, *_SHORT) for time in ("", " %H:%M", " %H:%M:%S")),
)
_DAY_AND_MONTH = re.compile(r"^\s*(\d{1,2})[/-](\d{1,2})[/-]\d")
_LIKE_A_DATE = re.compile(r"\s*\d{1,4}[-/. ](?:\d{1,2}|[A-Za-z]{3})[-/. ]\d{1,4}")


def are_like_dates(texts: pd.Series) -> NDArray[np.bool_]:
    """Mark the texts with three parts, as a day, a month and a year are."""
    return texts.str.match(_LIKE_A_DATE).to_numpy(dtype=bool)


def find_format(column: pd.Series, preferred: str | None = None) -> str | None:
    """Return the first format that fits nearly all texts.

    If none does, the first that fits most of them, since others may be clear in themselves
    (`DateFormats`); None if few are dates.
    """
    counts = counted(column)
    texts = pd.Series(counts.index, dtype=object)
    shares = counts.to_numpy() / len(column)
    like_dates = shares[are_like_dates(texts)].sum()
    if preferred is None and like_dates < 1 - MOST_STRANGE:
        return None
    best, fewest = None, 1 - 1e-9
    for form in dict.fromkeys([preferred, *_FORMATS] if preferred else _FORMATS):
        unread = float(shares[parse_dates(texts, form).isna().to_numpy()].sum())
        if unread < fewest:
            best, fewest = form, unread
        if fewest <= MOST_STRANGE:
            break
    return best


def date_formats_by_site(column: pd.Series, sites: pd.Series) -> dict[str, str]:
    """Return a format for every site where some write the day first, and others the month.

    It is the one that reads most texts of the site; where several do, since no day is above 12, the
    order of most other sites decides. Empty if no two sites contradict.
    """
    codes, texts = distinct(column)
    if not (texts.str.extract(_DAY_AND_MONTH).astype(float) > 12).any().all():
        return {}
    by_site = pd.Series(codes).groupby(sites[column.index].to_numpy())
    some = texts[by_site.head(10).unique()]
    tried = [form for form in _FORMATS if parse_dates(some, form).notna().any()]
    read = pd.DataFrame({form: parse_dates(texts, form).notna() for form in tried}).iloc[codes]
    shares = read.groupby(sites[column.index].to_numpy()).mean()
    fits = shares.eq(shares.max(axis=1), axis=0)
    clear = fits[fits.sum(axis=1) == 1].idxmax(axis=1)
    orders = clear.astype(str).str.extract("^(%[dm])[/-]%[dm]", expand=False).value_counts()
    if len(orders) < 2:
        return {}
    usual = fits.columns.str.startswith((f"{orders.index[0]}/", f"{orders.index[0]}-"))
    best = (fits * (1 + usual)).idxmax(axis=1)
    return {str(site): str(form) for site, form in best.items()}


def parse_dates(column: pd.Series, date_format: str) -> pd.Series:
    """Read text as dates in UTC without time zone; anything else becomes missing."""

    def parsed(texts: pd.Series) -> pd.Series:
        if date_format == "ISO8601":  # which a year alone would fit
            texts = texts.where(are_like_dates(texts))
        dates = pd.to_datetime(texts, format=date_format, errors="coerce", utc=True)
        return dates.dt.tz_localize(None)

    return on_distinct(column, parsed)


def check_date_format(date_format: str) -> None:
    """Refuse what is not a date format."""
    try:
        pd.to_datetime(["-"], format=date_format, errors="coerce")
    except Exception as error:  # re.error for %d%d
        raise SettingsError(
            f"{date_format!r} is not a date format ({error}); formats look like %d/%m/%Y"
        ) from error


class DateFormats:
    """How the texts of a column can be read as dates: counts, from all its parts.

    A date with the year first, or with dots, is clear in itself. With slashes, day and month are
    told apart by the expected format or, where that does not read all, by the only one that does.
    """

    def __init__(self, expected: str) -> None:
        self.expected = expected
        self._read = Counter({expected: 0, "ISO8601": 0, "%d.%m.%Y": 0})  # in this order
        self._whole = [form for form in _FORMATS if form not in self._read]
        self._strange = Tally()

    def add(self, text: pd.Series) -> None:
        """Count the texts of a part, without missing ones."""
        counts = counted(text)
        texts = pd.Series(counts.index, dtype=object)
        for start in (texts[:10], texts):  # most formats fit none of the first
            self._whole = [w for w in self._whole if parse_dates(start, w).notna().all()]
        for form in self._read:
            read = parse_dates(texts, form).notna().to_numpy()
            self._read[form] += int(counts[read].sum())
            texts, counts = texts[~read], counts[~read]
        self._strange.count(counts)

    def read(self, text: pd.Series) -> pd.Series:
        """Return the dates of a part that was added; NaT where there is none."""
        others = [] if self._other else self.others
        dates = parse_dates(text, self.usual)
        for form in others:
            dates = dates.fillna(parse_dates(text, form))
        return dates

    @property
    def _other(self) -> str | None:
        """The only other format that reads all texts, where the clear ones do not."""
        return self._whole[0] if self._strange.total and len(self._whole) == 1 else None

    @property
    def usual(self) -> str:
        """The format of most texts that need one to be told apart."""
        return self._other or self.expected

    @property
    def strange(self) -> Tally:
        """Texts that are not dates."""
        return Tally() if self._other else self._strange

    @property
    def others(self) -> dict[str, int]:
        """Number of dates in other formats than the expected one."""
        if self._other:
            return {self._other: self._read.total() + self._strange.total}
        return {form: n for form, n in self._read.items() if n and form != self.expected}


def format_in_words(date_format: str) -> str:
    """Describe a format in words, such as day/month/year time."""
    words = {"ISO8601": "year-month-day", "%d": "day", "%m": "month", "%Y": "year"}
    words |= {"%b": "name of the month", "%y": "year in two digits"}
    words |= {" %H:%M:%S": " time", " %H:%M": " time"}
    for sign, word in words.items():
        date_format = date_format.replace(sign, word)
    return date_format


def first_code(values: pd.Series | NDArray[Any]) -> str | None:
    """Return the first text made of digits with a leading zero; None if there is none."""
    texts = (v for v in pd.unique(values) if isinstance(v, str) and v[:1] == "0" and v[1:])
    return next((text for text in texts if text.isascii() and text.isdigit()), None)


def without_zeros(code: str) -> str:
    """Return digits without leading zeros (0 for 000); any other text unchanged."""
    return str(int(code)) if code.isascii() and code.isdigit() else code


def are_whole(numbers: pd.Series) -> bool:
    """Whether all are whole numbers small enough for floats to be exact."""
    return bool(np.array_equal(numbers, np.round(numbers)) and numbers.abs().max() < 2**53)
