"""Estimates of the target risk from losses and weights."""

from shiftune.ratio._overlap import Guard
from shiftune.risk._adjusted import RegressionAdjusted
from shiftune.risk._by_name import ESTIMATORS, risk_named
from shiftune.risk._estimate import (
    METHODS,
    RiskEstimator,
    estimate,
    optimal_lambda,
    unbiased_lambda,
)
from shiftune.risk._heterogeneity import (
    Heterogeneity,
    heterogeneity,
    heterogeneity_of,
    without_source,
)
from shiftune.risk._result import Estimate, RiskEstimate, by_group

__all__ = [
    "ESTIMATORS",
    "METHODS",
    "Estimate",
    "Guard",
    "Heterogeneity",
    "RegressionAdjusted",
    "RiskEstimate",
    "RiskEstimator",
    "by_group",
    "estimate",
    "heterogeneity",
    "heterogeneity_of",
    "optimal_lambda",
    "risk_named",
    "unbiased_lambda",
    "without_source",
]
