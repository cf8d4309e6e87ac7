"""Risk estimators by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from shiftune._names import RISKS, RiskName, complete
from shiftune._wording import check_choice
from shiftune.errors import SettingsError
from shiftune.risk._adjusted import RegressionAdjusted
from shiftune.risk._estimate import Method, estimate
from shiftune.risk._estimator import Arrays, RiskEstimator
from shiftune.risk._result import RiskEstimate


@dataclass(eq=False, repr=False)
class MethodRisk(RiskEstimator):
    """Method of `shiftune.risk.estimate` that weights losses by density ratios."""

    method: Method = "variance_reduced"

    def estimate(
        self, losses: Arrays, weights: Arrays | None = None, *, names: Sequence[str] | None = None
    ) -> RiskEstimate:
        """Estimate the target risk of one model."""
        return estimate(losses, weights, self.method, names=names)


@dataclass(eq=False, repr=False)
class NaiveRisk(MethodRisk):
    """Mean loss over the rows of all sources, without correction; weights are not read."""

    method: Method = field(default="naive", init=False)
    needs_ratio = False
    corrects = False


@dataclass(eq=False, repr=False)
class OracleRisk(NaiveRisk):
    """Mean loss over the target's rows, whose labels were kept aside (experiments only)."""

    method: Method = field(default="oracle", init=False)
    uses_target_labels = True


class FunctionRisk(RiskEstimator):
    """Adapter for a function of (losses, weights, names=...) that returns a `RiskEstimate`."""

    def __init__(self, function: Callable[..., RiskEstimate]) -> None:
        self.function = function

    def estimate(
        self, losses: Arrays, weights: Arrays | None = None, *, names: Sequence[str] | None = None
    ) -> RiskEstimate:
        """Return the function's result, which must be a `RiskEstimate`."""
        found = self.function(losses, weights, names=names)
        if not isinstance(found, RiskEstimate):
            raise SettingsError(
                f"risk must return a RiskEstimate, got {type(found).__name__}; build it with "
                "shiftune.risk.estimate"
            )
        return found

    def __sklearn_clone__(self) -> Self:
        # A function learns nothing, and what it holds may not be copyable.
        return self


ESTIMATORS: dict[RiskName, RiskEstimator] = complete(
    RISKS,
    {
        "adjusted": RegressionAdjusted(),
        "naive": NaiveRisk(),
        "unbiased": MethodRisk("unbiased"),
        "variance_reduced": MethodRisk("variance_reduced"),
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
