"""Density ratios w_j(x) = p_T(x) / p_j(x), of the target to every source."""

from shiftune.ratio._density import (
    ULSIF,
    ClassifierRatio,
    DensityRatio,
    EncodedRatio,
    ratio_named,
    site_weights,
)
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
