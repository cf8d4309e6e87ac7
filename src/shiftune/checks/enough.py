"""Check that there are enough sites and rows for an interval."""

from __future__ import annotations

import numpy as np

from shiftune.checks.check import MOST_NAMES, NOTHING_TO_DO, Check
from shiftune.evaluate.fitting import StudyData
from shiftune.level import Level
from shiftune.risk.result import RiskEstimate
from shiftune.wording import count, listed, percent

# From fewer sites the variance between sites is hardly known.
FEW_SOURCES = 4
# Rows of a class with which the loss is judged.
FEW_OF_A_CLASS = 20
# Share of the rows that one site has.
GIANT = 0.8
# Share of the estimate's sampling variance that comes from one row in a hundred.
HEAVY_TAIL = 0.75

NAME = "enough sites and rows"


def enough_check(risk: RiskEstimate, data: StudyData) -> Check:
    """Check whether sites and rows are enough to see how far a new site may differ.

    A caution: fewer than four sources; a class with fewer than 20 rows among those that judge the
    model; one source with more than 80 % of the training rows; or one row in a hundred makes up
    three quarters of the sampling error.
    """
    sources = len(risk.source_names)
    names, rows = np.unique(data.source_rows, return_counts=True)
    giant = float(rows.max() / rows.sum()) if len(rows) > 1 else 0.0
    squares = np.sort(risk.influence**2)[::-1]
    top = max(len(squares) // 100, 1)
    tail = float(squares[:top].sum() / squares.sum()) if squares.sum() else 0.0
    numbers = {"sources": float(sources), "largest_source": giant, "tail": tail}
    found = []
    if sources < FEW_SOURCES:
        found.append(
            f"{count(sources, 'source')} hardly show how far sites differ, so the interval itself "
            "is a guess"
        )
    if data.classes is not None:
        y = np.concatenate(data.y_validation)
        counts = {str(c): int(np.sum(y == c)) for c in data.classes}
        numbers["fewest_of_a_class"] = float(min(counts.values()))
        rare = [name for name, rows in counts.items() if rows < FEW_OF_A_CLASS]
        if rare:
            found.append(
                f"class {listed(rare, MOST_NAMES)} has only {count(counts[rare[0]], 'row')} among "
                "those that judge the model"
            )
    if giant > GIANT:
        found.append(
            f"{percent(giant)} of the training rows are of {str(names[rows.argmax()])!r}, so the "
            "model is mostly one of that site"
        )
    if tail > HEAVY_TAIL:
        found.append(
            f"1 % of the rows make up {percent(tail)} of the sampling error: a few large losses "
            "decide the estimate"
        )
    if not found:
        finding = f"{count(sources, 'source')} show how far sites differ."
        return Check(NAME, Level.OK, finding, NOTHING_TO_DO, numbers)
    finding = "; ".join(found) + "."
    advice = (
        "The true uncertainty may be larger than the interval. More sites, more rows, or a few "
        "target labels would show more."
    )
    return Check(NAME, Level.CAUTION, finding[0].upper() + finding[1:], advice, numbers)
