"""Density ratios w_j(x) = p_T(x) / p_j(x), of the target to every source."""

from shiftune.ratio._auto import AutoRatio, ClassifierRatio, default_candidates, ratio_named
from shiftune.ratio._base import (
    DensityRatio,
    EncodedRatio,
    KnownRatio,
    held_out_scores,
    site_weights,
)
from shiftune.ratio._least_squares import RULSIF, ULSIF
from shiftune.ratio._overlap import (
    Guard,
    column_shifts,
    diagnose,
    effective_rows,
    overlap,
    uncovered_shares,
)

__all__ = [
    "RULSIF",
    "ULSIF",
    "AutoRatio",
    "ClassifierRatio",
    "DensityRatio",
    "EncodedRatio",
    "Guard",
    "KnownRatio",
    "column_shifts",
    "default_candidates",
    "diagnose",
    "effective_rows",
    "held_out_scores",
    "overlap",
    "ratio_named",
    "site_weights",
    "uncovered_shares",
]
