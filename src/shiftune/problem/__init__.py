"""The data: labelled sources, an unlabelled target, and their three-way split."""

from shiftune.problem._problem import ShiftProblem
from shiftune.problem._site import Site, pooled
from shiftune.problem._split import PAPER_SHARES, Split

__all__ = ["PAPER_SHARES", "ShiftProblem", "Site", "Split", "pooled"]
