"""Names of models, losses, metrics, risk estimators and density ratios; none of them is loaded.

The command line's help and shell completion need the names alone. The table behind each list is
made with `complete`, so a name without its entry, or the reverse, fails on import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal, TypeVar, get_args

Task = Literal["classification", "regression"]
ModelName = Literal[
    "lightgbm",
    "lightgbm_l1",
    "xgboost",
    "hist_gradient_boosting",
    "random_forest",
    "linear",
    "kernel",
    "ridge",
    "elastic_net",
    "logistic",
    "svm",
    "knn",
    "mlp",
]
ClassLossName = Literal["log_loss", "brier", "zero_one"]
QuantityLossName = Literal["squared", "half_squared", "absolute", "pinball"]
LossName = Literal[ClassLossName, QuantityLossName]
RatioName = Literal["logistic", "ulsif"]
RiskName = Literal["adjusted", "naive", "unbiased", "variance_reduced", "oracle"]
FinalName = Literal["ensemble", "best"]
TASKS: tuple[Task, ...] = get_args(Task)
FINALS: tuple[FinalName, ...] = get_args(FinalName)
MODELS: tuple[ModelName, ...] = get_args(ModelName)
# Stands for several models.
AUTO = "auto"
LOSSES: tuple[LossName, ...] = get_args(LossName)
LOSSES_OF: dict[Task, tuple[LossName, ...]] = {
    "classification": get_args(ClassLossName),
    "regression": get_args(QuantityLossName),
}
METRICS = (
    "auc",
    "average_precision",
    "accuracy",
    "balanced_accuracy",
    "f1",
    "sensitivity",
    "specificity",
    "net_benefit",
    "brier",
    "log_loss",
    "calibration_slope",
    "o_e",
    "rmse",
    "mae",
    "bias",
    "r2",
    "coverage",
)
RATIOS: tuple[RatioName, ...] = get_args(RatioName)
RISKS: tuple[RiskName, ...] = get_args(RiskName)

_Name = TypeVar("_Name", bound=str)
_Entry = TypeVar("_Entry")


def complete(names: Sequence[_Name], table: Mapping[_Name, _Entry]) -> dict[_Name, _Entry]:
    """Return the table in the order of the names, which must be its keys."""
    if odd := sorted(set(names) ^ set(table)):
        raise ValueError(f"names {odd} are in the list or in the table, but not in both")
    return {name: table[name] for name in names}


class Level(StrEnum):
    """Level of a finding; equal to its word, so tables and JSON hold plain text.

    >>> Level.CAUTION == "caution"
    True
    """

    OK = "ok"
    CAUTION = "caution"
    PROBLEM = "problem"
