"""Density ratios w_j(x) = p_T(x) / p_j(x), of the target to every source."""

from shiftune.ratio.auto import AutoRatio, default_candidates, ratio_named
from shiftune.ratio.base import DensityRatio, EncodedRatio, site_weights
from shiftune.ratio.classifier import ClassifierRatio
from shiftune.ratio.column_shift import column_shifts
from shiftune.ratio.guard import Guard, effective_rows
from shiftune.ratio.known import KnownRatio
from shiftune.ratio.least_squares import RULSIF, ULSIF
from shiftune.ratio.overlap import diagnose, overlap, uncovered_shares
from shiftune.ratio.score import held_out_scores

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
