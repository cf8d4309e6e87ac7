"""Counts of texts: the total, and the most frequent ones, in bounded memory."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from shiftune.wording import listed

MOST_TEXTS = 10_000


class Tally:
    """Number of texts in several parts of a column.

    >>> tally = Tally()
    >>> tally.add(pd.Series(["x", "y", "x"]))
    >>> tally.total, tally.shown
    (3, "'x' and 'y'")
    """

    def __init__(self) -> None:
        self.total = 0
        self.texts: Counter[str] = Counter()

    def add(self, texts: pd.Series) -> None:
        """Count the texts of a part."""
        for text, n in texts.value_counts().items():
            self.count(str(text), int(n))

    def count(self, text: str, n: int) -> None:
        """Count a text."""
        self.total += n
        if text in self.texts or len(self.texts) < MOST_TEXTS:
            self.texts[text] += n

    @property
    def shown(self) -> str:
        """The most frequent texts, in words."""
        return listed([text for text, _ in self.texts.most_common()], 4)

    def __add__(self, other: Tally) -> Tally:
        both = Tally()
        both.total, both.texts = self.total + other.total, self.texts + other.texts
        return both
