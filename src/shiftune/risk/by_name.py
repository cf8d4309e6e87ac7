"""Risk estimators by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.typing import ArrayLike

from shiftune.names import RISKS, RiskName, complete
from shiftune.risk.adjusted import RegressionAdjusted
from shiftune.risk.estimate import Method, estimate
from shiftune.risk.estimator import FunctionRisk, RiskEstimator
from shiftune.risk.result import RiskEstimate
from shiftune.spelling import check_choice


class WeightedRisk(RiskEstimator):
    """Method of `shiftune.risk.estimate` that weights losses by density ratios, with its defaults.

    >>> WeightedRisk("unbiased").estimate([[1.0, 3.0]], [[1.0, 1.0]]).value
    2.0
    """

    def __init__(self, method: Method = "variance_reduced") -> None:
        self.method = method

    def estimate(
        self,
        losses: Sequence[ArrayLike],
        weights: Sequence[ArrayLike] | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> RiskEstimate:
        """Estimate the target risk of one model."""
        return estimate(losses, weights, self.method, names=names)


class NaiveRisk(RiskEstimator):
    """Mean loss over the rows of all sources, without correction."""

    method: Method = "naive"
    needs_ratio = False
    corrects = False

    def estimate(
        self,
        losses: Sequence[ArrayLike],
        weights: Sequence[ArrayLike] | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> RiskEstimate:
        """Return the mean loss; weights are not read."""
        return estimate(losses, None, self.method, names=names)


class OracleRisk(NaiveRisk):
    """Mean loss over the target's rows, whose labels were kept aside (experiments only)."""

    method: Method = "oracle"
    uses_target_labels = True


ESTIMATORS: dict[RiskName, RiskEstimator] = complete(
    RISKS,
    {
        "adjusted": RegressionAdjusted(),
        "naive": NaiveRisk(),
        "unbiased": WeightedRisk("unbiased"),
        "variance_reduced": WeightedRisk("variance_reduced"),
        "self_normalised": WeightedRisk("self_normalised"),
        "random_effects": WeightedRisk("random_effects"),
        "oracle": OracleRisk(),
    },
)


def risk_named(risk: str | RiskEstimator | Callable[..., RiskEstimate]) -> RiskEstimator:
    """Return a risk estimator from its name, as it is, or from a user's function.

    >>> risk_named("naive").needs_ratio, risk_named(estimate).needs_ratio
    (False, True)
    """
    if isinstance(risk, RiskEstimator):
        return risk
    if callable(risk):
        return FunctionRisk(risk)
    return ESTIMATORS[check_choice(risk, ESTIMATORS, "risk estimator")]
