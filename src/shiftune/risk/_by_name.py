"""Risk estimators by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from shiftune._names import RISKS, RiskName, complete
from shiftune._wording import check_choice
from shiftune.errors import SettingsError
from shiftune.risk._adjusted import RegressionAdjusted
from shiftune.risk._estimate import Arrays, RiskEstimator, estimate
from shiftune.risk._result import RiskEstimate


class FunctionRisk(RiskEstimator):
    """Adapter for a function of (losses, weights, names=...) that returns a `RiskEstimate`.

    The other parameters are attributes of a `RiskEstimator`.
    """

    def __init__(
        self,
        function: Callable[..., RiskEstimate],
        *,
        needs_ratio: bool = True,
        corrects: bool = True,
        uses_target_labels: bool = False,
    ) -> None:
        self.function = function
        self.needs_ratio = needs_ratio
        self.corrects = corrects
        self.uses_target_labels = uses_target_labels

    def estimate(
        self, losses: Arrays, weights: Arrays | None = None, *, names: Sequence[str] | None = None
    ) -> RiskEstimate:
        """Return the function's result, which must be a `RiskEstimate`."""
        risk = self.function(losses, weights, names=names)
        if not isinstance(risk, RiskEstimate):
            raise SettingsError(
                f"risk must return a RiskEstimate, got {type(risk).__name__}; build it with "
                "shiftune.risk.estimate"
            )
        return risk

    def __sklearn_clone__(self) -> Self:
        # A function learns nothing, and what it holds may not be copyable.
        return self


# Mean losses without correction: they read no weights.
_mean_loss = partial(FunctionRisk, needs_ratio=False, corrects=False)

ESTIMATORS: dict[RiskName, RiskEstimator] = complete(
    RISKS,
    {
        "adjusted": RegressionAdjusted(),
        "naive": _mean_loss(partial(estimate, method="naive")),
        "unbiased": FunctionRisk(partial(estimate, method="unbiased")),
        "variance_reduced": FunctionRisk(estimate),
        "oracle": _mean_loss(partial(estimate, method="oracle"), uses_target_labels=True),
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
