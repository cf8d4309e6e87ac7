"""Numbers written as text: decimal commas, thousands, currencies, per cent, units."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.tables.distinct import counted, on_distinct
from shiftune.tables.tally import Tally

MISSING_TEXTS = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN")
).union(("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"))
"""Texts that pandas takes for missing in CSV files, the empty one included."""
MISSING_CODES = frozenset(
    (".", "..", "?", "-", "--", "\u2013", "\u2014", "*", "N.A.", "n.a.")
).union(("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"))
"""Texts that mean missing among numbers and dates; among categories they may mean anything."""

_SIGN = r"\s*(?P<before>[€$£¥]|EUR|USD|GBP|CHF|JPY)?\s*(?P<number>[+-]?[\d.,' \u00a0\u202f]*\d[.,]?"
_PARTS = re.compile(
    _SIGN + r"(?:[eE][+-]?\d+)?)\s*(?P<after>%|‰|[€$£¥°µ]?[A-Za-z]{0,6}(?:/[A-Za-z]{1,6})?)\s*"
)
_GROUPS = {".": r"[,'\s]", ",": r"[.'\s]"}
_STYLES = {
    decimal: re.compile(
        rf"[+-]?(?:\d{{1,3}}(?:{group}\d{{3}})+|\d+)?(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?"
    )
    for decimal, group in _GROUPS.items()
}


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How the numbers of one column are written.

    Attributes
    ----------
    decimal : "." or ","
    affix : str
        Currency, per cent sign or unit of all values; empty if none.
    grouped : bool
        Whether thousands may be separated.

    Examples
    --------
    >>> written = NumberFormat(",", "€", grouped=True)
    >>> written.read(pd.Series(["1.234,50 €", "3 €", "much"])).to_list()
    [1234.5, 3.0, nan]
    """

    decimal: str = "."
    affix: str = ""
    grouped: bool = False

    def read(self, text: pd.Series) -> pd.Series:
        """Return floats; what is no number of this format is NaN."""
        if self == PLAIN:
            return on_distinct(text, as_numbers)
        return on_distinct(
            text, lambda texts: [_value(_parts(str(each)), self) for each in texts]
        ).astype(float)

    def reads(self, text: str) -> bool:
        """Whether a text is a number of this format."""
        return bool(self.read(pd.Series([text])).notna().all())

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

    Parameters
    ----------
    low, high : float
        Values to expect: they decide whether 1,234 has thousands or decimals.
    decimal : "." or ","
        Decimal sign of the file, which decides where the values do not.

    Examples
    --------
    >>> found = NumberFormats()
    >>> found.add(pd.Series(["3,5", "4", "unknown"]))
    >>> found.add(pd.Series(["12,25"]))
    >>> found.decided(), found.strange.shown
    (NumberFormat(decimal=',', affix='', grouped=False), "'unknown'")
    """

    def __init__(self, low: float = -np.inf, high: float = np.inf, decimal: str = ".") -> None:
        self.low, self.high, self.decimal = low, high, decimal
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
        self.either += n
        self.affixes[parts[1]] += n
        for style, value in values.items():
            self._count((style,), np.array([value]), np.array([n]))
            self.grouped[style] += bool(re.search(_GROUPS[style], parts[0]))

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
        if not self.odd.total:
            return PLAIN
        units = {each for each in self.affixes if each}
        if len(units) > 1 or (units and not _may_be_partial(*units) and self.affixes[""]):
            return PLAIN
        styles = [style for style in _STYLES if self.read[style] == self.either]
        if not styles:
            return PLAIN
        best = max(styles, key=lambda style: (self._inside(style), style == self.decimal))
        return NumberFormat(best, next(iter(units), ""), self.grouped[best] > 0)

    def _inside(self, style: str) -> int:
        return self.read[style] - self.below[style] - self.above[style]

    @property
    def strange(self) -> Tally:
        """Texts that the format does not read."""
        return self._no_numbers + self.odd if self.decided() == PLAIN else self._no_numbers

    @property
    def outside(self) -> tuple[int, int]:
        """Numbers below and above what is expected, in the format."""
        written = self.decided()
        style = "plain" if written == PLAIN else written.decimal
        return self.below[style], self.above[style]


def read_numbers(text: pd.Series) -> pd.Series:
    """Return floats, in whatever format all texts have; NaN for texts that are no numbers.

    >>> read_numbers(pd.Series(["1,5", "2", "many"])).to_list()
    [1.5, 2.0, nan]
    """
    formats = NumberFormats()
    formats.add(text)
    return formats.decided().read(text)


def formats_by_site(given: pd.Series, sites: pd.Series) -> dict[str, NumberFormat]:
    """Return the format of every site, such as decimal commas at some of them.

    >>> found = formats_by_site(pd.Series(["3,5", "4", "3.5"]), pd.Series(["A", "A", "B"]))
    >>> found["A"].decimal, found["B"].decimal
    (',', '.')
    """
    plain = PLAIN.read(given)
    low, high = (-np.inf, np.inf) if plain.isna().all() else (plain.min(), plain.max())
    found = {}
    for site, texts in given.groupby(sites[given.index]):
        formats = NumberFormats(float(low), float(high))
        formats.add(texts)
        found[str(site)] = formats.decided()
    return found


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


def _may_be_partial(affix: str) -> bool:
    """Whether numbers without the affix are of the same unit: a currency is, "kg" may not be."""
    return not affix[0].isalpha() or affix.isupper()
