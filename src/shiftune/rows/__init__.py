"""Rows as numbers, for density ratios, adjustments and checks."""

from shiftune.rows._encoding import RowEncoder, subsample
from shiftune.rows._moments import Moments

__all__ = ["Moments", "RowEncoder", "subsample"]
