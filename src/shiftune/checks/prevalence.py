"""Check that the classes are as frequent at the target as the model expects."""

from __future__ import annotations

from shiftune.checks.check import NOTHING_TO_DO, Check
from shiftune.level import Level
from shiftune.stability.label_shift import LabelShift
from shiftune.wording import percent

# Differences of the likely from the expected frequency.
SMALL, LARGE = 0.05, 0.07
# The same as a factor, for rare classes.
TWICE = 2.0
# With fewer, how likely it is is a guess.
FEWEST_SOURCES = 5

NAME = "frequency of the classes"


def prevalence_check(found: LabelShift) -> Check:
    """Check whether another frequency of the classes explains the target's rows.

    Where rows of a class look alike at every site and only the classes' frequencies differ, the
    model expects the wrong frequency at the target (`shiftune.stability.label_shift`). A caution:
    the frequency is likely to be 5 percentage points higher than expected, or twice as high, as
    far as that would have been right at the sources. A problem: 7 points, at worst outside the
    range of the sources, of which there are at least five.
    """
    apart = found.likely - found.expected
    outside = not found.lowest <= found.mixed <= found.highest
    numbers = {
        "expected": found.expected,
        "mixed": found.mixed,
        "lowest": found.lowest,
        "highest": found.highest,
        "trust": found.trust,
    }
    about = (
        f"By what they have in common with the sources' rows, {percent(found.expected)} of the "
        f"target's are {found.label!r}"
    )
    if apart < SMALL and found.likely < TWICE * found.expected:
        return Check(NAME, Level.OK, f"{about}; nothing contradicts it.", NOTHING_TO_DO, numbers)
    finding = (
        f"{about}. But it may be {percent(found.likely)}, or {percent(found.mixed)} if only the "
        "classes' frequencies differ between sites, as they partly do at the sources (there "
        f"{percent(found.lowest)} to {percent(found.highest)})."
    )
    advice = (
        f"Find out how frequent {found.label!r} is at the target. If it is not as expected, "
        "probabilities and the estimated risk are wrong there; some ten labels (search.update) "
        "correct the level."
    )
    sure = apart >= LARGE and outside and found.sources >= FEWEST_SOURCES
    level = Level.PROBLEM if sure else Level.CAUTION
    headline = f"{found.label!r} may be far more frequent at the target than the sources suggest"
    return Check(NAME, level, finding, advice, numbers, headline)
