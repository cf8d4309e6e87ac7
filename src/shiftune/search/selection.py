"""The winning trial, and those that cannot be distinguished from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import ProblemError
from shiftune.risk.result import Estimate, RiskEstimate


def tied_with_best(risks: Sequence[RiskEstimate], level: float = 0.95) -> NDArray[np.bool_]:
    """Mark the trials that cannot be distinguished from the one of lowest risk, shape (T,).

    The differences are paired: both models were evaluated on the same rows, so what makes a row
    hard for both cancels. A trial is worse if the interval of its difference lies above 0. The
    best itself is marked. (It was chosen for being lowest and looks a little better than it is, so
    there are too few ties rather than too many.)
    """
    best = risks[winner(risks)]
    return np.array(
        [risk is best or paired_difference(risk, best).interval(level)[0] <= 0 for risk in risks]
    )


def paired_difference(risk: RiskEstimate, best: RiskEstimate) -> Estimate:
    """Difference to the best; unpaired where an estimator evaluated the two on different rows."""
    try:
        return risk.minus(best)
    except ProblemError:
        variance = risk.variance + best.variance
        return Estimate(risk.value - best.value, variance, min(risk.dof, best.dof))


def winner(risks: Sequence[RiskEstimate]) -> int:
    """Return the position of the trial of lowest estimated risk."""
    return int(np.argmin([risk.value for risk in risks]))
