"""A check of one assumption, and the verdict on a result that follows from all of them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from shiftune._names import Level

# The usual level of a test.
SIGNIFICANT = 0.05
# A sentence names no more sites than this.
MOST_NAMES = 3
NOTHING_TO_DO = "Nothing to do."
_WIDTH, _INDENT = 96, " " * 9


@dataclass(frozen=True, slots=True)
class Check:
    """One assumption behind a result: what was found, and what to do.

    Attributes
    ----------
    name : str
        For example "overlap" or "site effects".
    level : Level
        "ok", "caution" or "problem".
    finding, advice : str
        What was found, in a sentence or two, and what to do.
    figures : dict
        The numbers behind it.
    headline : str
        The finding in a few words, for the verdict; empty where nothing was found.
    """

    name: str
    level: Level
    finding: str
    advice: str
    figures: dict[str, float]
    headline: str = ""

    def __str__(self) -> str:
        lines = [f"{self.level.upper():8} {self.name}"]
        for text, lead in ((self.finding, _INDENT), (self.advice, f"{_INDENT}-> ")):
            later = " " * len(lead)
            lines.append(textwrap.fill(text, _WIDTH, initial_indent=lead, subsequent_indent=later))
        return "\n".join(lines)


class Checks(list[Check]):
    """Checks of a result, printed as text."""

    def __str__(self) -> str:
        return "\n\n".join(str(check) for check in self)

    __repr__ = __str__


class Trust(StrEnum):
    """Whether a result can be used at the target.

    >>> Trust.WITH_CARE == "with care"
    True
    """

    TRUST = "trust"
    WITH_CARE = "with care"
    DO_NOT_USE = "do not use"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a result can be used at the target, and the checks that decide it.

    Attributes
    ----------
    trust : Trust
        "trust": no check found anything. "with care": a caution, which limits what the
        figures mean. "do not use": a problem, which can make the estimate or the model worthless.
    reasons : tuple of Check
        Those of the deciding level; empty for "trust".
    """

    trust: Trust
    reasons: tuple[Check, ...]

    @property
    def reason(self) -> str:
        """What decided, in a few words; empty for "trust"."""
        return "; ".join(check.headline or check.finding for check in self.reasons)

    def __str__(self) -> str:
        return f"{self.trust}: {self.reason}" if self.reasons else str(self.trust)


def verdict_of(checks: Sequence[Check]) -> Verdict:
    """Sum up the checks of a result: the most serious level decides.

    >>> fine = Check("overlap", Level.OK, "Fine.", "", {})
    >>> bad = Check("skill", Level.PROBLEM, "It is ...", "", {}, "no better than a constant")
    >>> print(verdict_of([fine, bad]), "|", verdict_of([fine]))
    do not use: no better than a constant | trust
    """
    for level, trust in ((Level.PROBLEM, Trust.DO_NOT_USE), (Level.CAUTION, Trust.WITH_CARE)):
        reasons = tuple(check for check in checks if check.level is level)
        if reasons:
            return Verdict(trust, reasons)
    return Verdict(Trust.TRUST, ())


def chance(p_value: float) -> str:
    """Write a p value: p < 0.001, p = 0.031."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
