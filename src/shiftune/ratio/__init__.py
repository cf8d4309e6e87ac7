"""Density ratios w_j(x) = p_T(x) / p_j(x), of the target to every source."""

from shiftune.ratio._base import DensityRatio, EncodedRatio, site_weights
from shiftune.ratio._classifier import ClassifierRatio, ratio_named
from shiftune.ratio._least_squares import ULSIF
from shiftune.ratio._overlap import (
    Guard,
    column_shifts,
    diagnose,
    effective_rows,
    overlap,
    uncovered_shares,
)

__all__ = [
    "ULSIF",
    "ClassifierRatio",
    "DensityRatio",
    "EncodedRatio",
    "Guard",
    "column_shifts",
    "diagnose",
    "effective_rows",
    "overlap",
    "ratio_named",
    "site_weights",
    "uncovered_shares",
]
