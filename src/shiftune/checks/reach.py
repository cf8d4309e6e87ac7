"""Check that the estimate does not depend on how it is continued beyond the sources."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from shiftune.checks.check import MOST_NAMES, NOTHING_TO_DO, Check
from shiftune.level import Level
from shiftune.rows.columns import kinds_of, number_columns
from shiftune.search.result import SearchResult
from shiftune.wording import figures, listed, percent

Floats = NDArray[np.float64]

# The sources' range of a column: the middle 98 % of their rows.
TAIL = 0.01
# Share of the target's rows outside of it, and distance of the estimates without and with full
# adjustment in half widths of the 90 % interval: a caution; a problem; a problem, too.
SOME_OUTSIDE, MANY_OUTSIDE, MOST_OUTSIDE = 0.1, 0.25, 0.6
SOME_APART, FAR_APART, STILL_APART = 0.4, 0.6, 0.2
LEVEL = 0.9

NAME = "within reach"


def reach_check(result: SearchResult) -> Check:
    """Compare estimates that differ in how far they are continued beyond the sources.

    Where the target lies at the edge of the sources or beyond, what happens there follows from
    the adjustment alone, and the rows do not show how much of it is right. So the mean loss
    without any adjustment is compared with that adjusted fully, without a cautious prior. A
    problem: a quarter of the target's rows lie outside the sources' range in some column (that of
    98 % of their rows), and the two are 0.6 half widths of the 90 % interval apart; or 60 % of the
    rows, and 0.2. A caution: a tenth of the rows, and 0.4. Labelled rows of the target lessen the
    distance by their share in the estimate.
    """
    outside = outside_shares(result)
    names = [name for name, share in outside.items() if share >= SOME_OUTSIDE]
    most = max(outside.values(), default=0.0)
    answers, context, risk = result.choice.answers, result.context, result.risk
    estimates = None
    if answers is not None:
        losses = context.data.losses(answers, result.loss)
        estimates = context.risk.least_and_most_adjusted(losses)
    if estimates is None:
        return _unlike(names, most)
    ends = sorted(estimates)
    half = float(stdtrit(risk.dof, 0.5 + LEVEL / 2)) * risk.stderr
    own = float(risk.lam[-1] * risk.n[-1]) if risk.labelled_target else 0.0
    apart = (1 - own) * (ends[1] - ends[0]) / half if half > 0 else 0.0
    numbers = {"outside": most, "apart": apart, "lowest": ends[0], "highest": ends[1]}
    far = (most >= MANY_OUTSIDE and apart >= FAR_APART) or (
        most >= MOST_OUTSIDE and apart >= STILL_APART
    )
    if not far and (most < SOME_OUTSIDE or apart < SOME_APART):
        finding = "The estimate does not depend on how it is continued beyond the sources."
        return Check(NAME, Level.OK, finding, NOTHING_TO_DO, numbers)
    low, high = figures(*ends)
    beyond = (
        f"{percent(most)} of the target's rows lie at the edge of the sources' range or beyond in "
        f"{listed(names, MOST_NAMES)}"
    )
    finding = (
        f"{beyond}, and the estimated risk depends on how far the losses are adjusted for it: "
        f"{low} without, {high} fully."
    )
    advice = (
        "Add a source that reaches as far as the target, or label some target rows: both figures "
        "may be wrong by far where the loss bends outside the sources' range."
    )
    level = Level.PROBLEM if far else Level.CAUTION
    return Check(NAME, level, finding, advice, numbers, beyond)


def outside_shares(result: SearchResult) -> dict[str, float]:
    """Share of the target's rows outside the sources' range, by column, the largest first."""
    target, sources = result.problem.target.X, result.context.data.X_train
    kinds = kinds_of([target, sources])
    X, rows = number_columns(target, kinds), number_columns(sources, kinds)
    names = [name for name, kind in kinds.items() if kind != "category"] or range(X.shape[1])
    found = {str(name): _outside(own, x) for name, own, x in zip(names, X.T, rows.T, strict=True)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _outside(target: Floats, sources: Floats) -> float:
    """Share of the target's values outside the middle 98 % of the sources' values.

    >>> _outside(np.array([50.0, 200.0]), np.arange(101.0))
    0.5
    """
    known, seen = target[~np.isnan(target)], sources[~np.isnan(sources)]
    if not len(known) or not len(seen):
        return 0.0
    low, high = np.quantile(seen, [TAIL, 1 - TAIL])
    if low == high:  # the sources' values hardly differ, so they have no range
        return 0.0
    return float(np.sum((known < low) | (known > high)) / len(target))


def _unlike(names: list[str], most: float) -> Check:
    """Check the range alone, for estimates that are not adjusted."""
    if most < MANY_OUTSIDE:
        finding = "Most of the target's rows lie within the sources' range of every column."
        return Check(NAME, Level.OK, finding, NOTHING_TO_DO, {"outside": most})
    finding = (
        f"{percent(most)} of the target's rows lie at the edge of the sources' range or beyond in "
        f"{listed(names, MOST_NAMES)}."
    )
    advice = "Add a source that has such rows, or label some: the estimate knows little of them."
    headline = finding.removesuffix(".")
    return Check(NAME, Level.CAUTION, finding, advice, {"outside": most}, headline)
