"""Check that there are enough sites and rows for an interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shiftune.checks.check import MOST_NAMES, NOTHING_TO_DO, Check
from shiftune.evaluate.fitting import StudyData
from shiftune.level import Level
from shiftune.search.result import SearchResult
from shiftune.wording import count, listed, percent

# From fewer sites the variance between sites is hardly known.
FEW_SOURCES = 4
# Rows of a class with which the loss is judged.
FEW_OF_A_CLASS = 20
# Share of the rows that one site has.
GIANT = 0.8
# Share of the losses' variance within sites that comes from one row in a hundred.
HEAVY_TAIL = 0.75

NAME = "enough sites and rows"


def enough_check(result: SearchResult) -> Check:
    """Check whether sites and rows are enough to see how far a new site may differ.

    A caution: fewer than four sources; a class with fewer than 20 rows among those that judge the
    model; one source with more than 80 % of the training rows; or one row in a hundred makes up
    three quarters of the losses' variance within sites.
    """
    data, risk = result.context.data, result.choice.risk
    sources = int(np.sum(risk.lam[: len(risk.source_names)] > 0))
    found: list[str] = []
    numbers = {"sources": float(sources)}
    if sources < FEW_SOURCES:
        found.append(f"{count(sources, 'source')} only, too few to show how far sites differ")
    for words, figures in (_rare(data), _giant(data), _tail(result)):
        numbers |= figures
        found += words
    if not found:
        finding = f"{count(sources, 'source')}, no rare class, no giant site, no heavy tail."
        return Check(NAME, Level.OK, finding, NOTHING_TO_DO, numbers)
    advice = (
        "Add sites or rows, or label a few target rows: the true uncertainty may be larger than "
        "the interval."
    )
    return Check(NAME, Level.CAUTION, f"There are {'; '.join(found)}.", advice, numbers, found[0])


def _rare(data: StudyData) -> tuple[list[str], dict[str, float]]:
    if data.classes is None:
        return [], {}
    y = np.concatenate(data.y_validation)
    counts = {str(c): int(np.sum(y == c)) for c in data.classes}
    rare = [f"{rows} of {name!r}" for name, rows in counts.items() if rows < FEW_OF_A_CLASS]
    words = f"only few rows of a class to judge the model: {listed(rare, MOST_NAMES, quoted=False)}"
    return [words] if rare else [], {"fewest_of_a_class": float(min(counts.values()))}


def _giant(data: StudyData) -> tuple[list[str], dict[str, float]]:
    names, rows = np.unique(data.source_rows, return_counts=True)
    share = float(rows.max() / rows.sum()) if len(rows) > 1 else 0.0
    words = (
        f"few training rows besides those of {str(names[rows.argmax()])!r}, which has "
        f"{percent(share)} of them, so the model is mostly one of that site"
    )
    return [words] if share > GIANT else [], {"largest_source": share}


def _tail(result: SearchResult) -> tuple[list[str], dict[str, float]]:
    answers = result.choice.answers
    if answers is None:
        return [], {}
    share = tail_share(result.context.data.losses(answers, result.loss))
    words = f"a few large losses that decide: 1 % of the rows have {percent(share)} of the variance"
    return [words] if share > HEAVY_TAIL else [], {"tail": share}


def tail_share(losses: list[NDArray[np.float64]]) -> float:
    """Share of the variance within sites that one row in a hundred makes up.

    >>> round(tail_share([np.r_[np.zeros(99), 100.0]]), 2)
    0.99
    """
    squares = np.sort(np.concatenate([(own - own.mean()) ** 2 for own in losses]))[::-1]
    total = float(squares.sum())
    return float(squares[: max(len(squares) // 100, 1)].sum()) / total if total > 0 else 0.0
