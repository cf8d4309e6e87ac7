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


def judgement(checks: Sequence[Check]) -> Judgement:
    """Judge a result by its checks: the most serious level decides.

    >>> fine = Check("overlap", Level.OK, "Fine.", "", {})
    >>> bad = Check("skill", Level.PROBLEM, "It is ...", "", {}, "no better than a constant")
    >>> print(judgement([fine, bad]), "|", judgement([fine]))
    do not use: no better than a constant | trust
    """
    for level in (Level.PROBLEM, Level.CAUTION):
        found = tuple(check for check in checks if check.level is level)
        if found:
            return Judgement(_TRUST_AT[level], found)
    return Judgement(Trust.TRUST, ())
