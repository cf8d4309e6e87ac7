"""Judgement of a result as a whole, from its checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from shiftune.checks.check import Check
from shiftune.level import Level


class Trust(StrEnum):
    """Whether a result can be used at the target.

    >>> Trust.WITH_CARE == "with care"
    True
    """

    TRUST = "trust"
    WITH_CARE = "with care"
    DO_NOT_USE = "do not use"


_TRUST_AT = {
    Level.OK: Trust.TRUST,
    Level.CAUTION: Trust.WITH_CARE,
    Level.PROBLEM: Trust.DO_NOT_USE,
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a result can be used at the target, and the checks that decide it.

    Attributes
    ----------
    trust : Trust
        "trust": no check found anything. "with care": a caution; what it says limits what the
        figures mean. "do not use": a problem, which can make the estimate or the model worthless.
    reasons : tuple of Check
        Those of the deciding level; empty for "trust".
    """

    trust: Trust
    reasons: tuple[Check, ...]

    @property
    def reason(self) -> str:
        """First sentence of the first deciding check; empty for "trust"."""
        return _first_sentence(self.reasons[0].finding) if self.reasons else ""

    def __str__(self) -> str:
        return f"{self.trust}: {self.reason}" if self.reasons else str(self.trust)


def judgement(checks: Sequence[Check]) -> Judgement:
    """Judge a result by its checks: the most serious level decides.

    >>> fine = Check("overlap", Level.OK, "Fine.", "", {})
    >>> bad = Check("skill", Level.PROBLEM, "No better than a constant (0.07). Or so.", "", {})
    >>> print(judgement([fine, bad]), "|", judgement([fine]))
    do not use: No better than a constant (0.07). | trust
    """
    for level in (Level.PROBLEM, Level.CAUTION):
        found = tuple(check for check in checks if check.level is level)
        if found:
            return Judgement(_TRUST_AT[level], found)
    return Judgement(Trust.TRUST, ())


def _first_sentence(text: str) -> str:
    """Return the text up to its first full stop.

    >>> _first_sentence("It is 0.5 of 1. The rest")
    'It is 0.5 of 1.'
    """
    head, stop, _ = text.partition(". ")
    return head + stop.rstrip()
