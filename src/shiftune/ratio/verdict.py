"""Verdict on a source: a level, a reason code and one figure, worded here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from shiftune.level import Level


class Reason(Enum):
    """Reason of a verdict, with a level and a template for its words.

    With "doubtful: " before it a text has at most 50 characters, which is what pandas shows.
    """

    OVERLAPS = Level.OK, "overlaps well"
    SOME_OUT_OF_REACH = Level.CAUTION, "overlaps; {:.0%} of target rows out of reach"
    MANY_OUT_OF_REACH = Level.CAUTION, "covers part: {:.0%} of target rows out of reach"
    LITTLE_OVERLAP = Level.CAUTION, "overlaps little: {:.0%} of its rows count"
    FEW_ROWS = Level.CAUTION, "too few rows to tell: {:.0f}"
    ONE_ROW = Level.PROBLEM, "one row only, no variance"
    NO_TARGET_LIKE_ROWS = Level.PROBLEM, "no target-like rows: mean weight {:.3g}"
    FEW_TARGET_LIKE_ROWS = Level.PROBLEM, "few target-like rows: mean weight {:.3g}"
    RATIO_FAILED = Level.PROBLEM, "density ratio failed: mean weight {:.3g}"
    FEW_EFFECTIVE_ROWS = Level.PROBLEM, "only {:.1f} effective rows"
    SET_ASIDE = Level.PROBLEM, "set aside"

    @property
    def level(self) -> Level:
        """OK, CAUTION, or PROBLEM for a source that density ratios cannot use."""
        return self.value[0]

    @property
    def overlaps_in_part(self) -> bool:
        """Whether the source covers a part of the target, or only by few of its rows."""
        return self in (Reason.MANY_OUT_OF_REACH, Reason.LITTLE_OVERLAP)

    @property
    def overlaps(self) -> bool:
        """Whether the source covers most of the target."""
        return self in (Reason.OVERLAPS, Reason.SOME_OUT_OF_REACH)

    @property
    def code(self) -> str:
        """The reason as a word for tables and files."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Finding about one source.

    Attributes
    ----------
    reason : Reason
    figure : float
        The number that decided: a mean weight, a share or a count of rows.

    Examples
    --------
    >>> found = Verdict(Reason.NO_TARGET_LIKE_ROWS, 2e-7)
    >>> found.level.value, str(found)
    ('problem', 'no target-like rows: mean weight 2e-07')
    """

    reason: Reason
    figure: float = 0.0

    @property
    def level(self) -> Level:
        """Level of the reason."""
        return self.reason.level

    def __str__(self) -> str:
        words: str = self.reason.value[1]
        return words.format(self.figure).replace("%", " %")

    def to_record(self) -> tuple[str, float]:
        """Return code and figure, which JSON can hold."""
        return self.reason.code, self.figure

    @classmethod
    def from_record(cls, record: tuple[str, float]) -> Verdict:
        """Read what `to_record` wrote.

        >>> Verdict.from_record(("one_row", 0.0)).reason is Reason.ONE_ROW
        True
        """
        code, figure = record
        return cls(Reason[code.upper()], figure)
