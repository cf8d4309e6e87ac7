"""Which trial wins, and which cannot be told apart from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shiftune.errors import ProblemError
from shiftune.risk.result import Estimate, RiskEstimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


def tied_with_best(risks: Sequence[RiskEstimate], level: float = 0.95) -> NDArray[np.bool_]:
    """Mark the trials that cannot be told apart from the one of lowest risk, shape (T,).

    The differences are paired: both models were judged on the same rows, so what makes a row
    hard for both cancels. A trial is told apart if the interval of its difference lies above 0.
    The best itself is marked. (The best was chosen for being lowest, so it looks a little better
    than it is; ties are rather too few than too many.)
    """
    best = risks[int(np.argmin([risk.value for risk in risks]))]
    return np.array(
        [risk is best or paired_difference(risk, best).interval(level)[0] <= 0 for risk in risks]
    )


def paired_difference(risk: RiskEstimate, best: RiskEstimate) -> Estimate:
    """Difference to the best; unpaired where an own estimator judged the two on other rows."""
    try:
        return risk.minus(best)
    except ProblemError:
        variance = risk.variance + best.variance
        return Estimate(risk.value - best.value, variance, min(risk.dof, best.dof))


def winner(
    risks: Sequence[RiskEstimate],
    params: Sequence[Mapping[str, Any]],
    complexity: Callable[[Mapping[str, Any]], float] | None,
) -> int:
    """Return the position of the winning trial.

    Without `complexity` the lowest estimated risk; with it the simplest trial whose risk is within
    one standard error of the (paired) difference to the lowest.
    """
    values = np.array([risk.value for risk in risks])
    best = int(np.argmin(values))
    if complexity is None:
        return best
    differences = [paired_difference(risk, risks[best]) for risk in risks]
    near = [t for t, d in enumerate(differences) if t == best or d.value <= d.stderr]
    return min(near, key=lambda t: (complexity(params[t]), values[t]))
