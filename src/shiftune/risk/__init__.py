"""Estimates of the target risk from losses and weights."""

from shiftune.ratio.guard import Guard
from shiftune.risk.adjusted import RegressionAdjusted
from shiftune.risk.by_name import ESTIMATORS, risk_named
from shiftune.risk.estimate import METHODS, estimate
from shiftune.risk.estimator import RiskEstimator
from shiftune.risk.grouped import by_group
from shiftune.risk.heterogeneity import Heterogeneity, heterogeneity, heterogeneity_of
from shiftune.risk.influence import leave_one_source_out, without_source
from shiftune.risk.result import Estimate, RiskEstimate
from shiftune.risk.theory import (
    divergence,
    optimal_lambda,
    optimal_variance,
    regret_bound,
    unbiased_lambda,
    variance_of_lambda,
    variance_of_unbiased,
)

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
    "divergence",
    "estimate",
    "heterogeneity",
    "heterogeneity_of",
    "leave_one_source_out",
    "optimal_lambda",
    "optimal_variance",
    "regret_bound",
    "risk_named",
    "unbiased_lambda",
    "variance_of_lambda",
    "variance_of_unbiased",
    "without_source",
]
