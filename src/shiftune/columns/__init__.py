"""Columns of a table: how they are written, read and compared; kept by problems and models."""

from shiftune.columns._column import Column
from shiftune.columns._columns import Columns, Finding

__all__ = ["Column", "Columns", "Finding"]
