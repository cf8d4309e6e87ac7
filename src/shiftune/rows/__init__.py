"""Rows as numbers, for density ratios, adjustments and checks."""

from shiftune.rows.encoding import RowEncoder
from shiftune.rows.moments import Moments
from shiftune.rows.subsample import subsample

__all__ = ["Moments", "RowEncoder", "subsample"]
