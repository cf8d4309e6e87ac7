"""Colours of the paper's figures, and whether they can be drawn."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

from shiftune.errors import DataWarning, MissingPackageError

BLUE, GREY, RED = "#1f5fa8", "#9a9a9a", "#b3362b"


def can_draw() -> bool:
    """Return whether Matplotlib is installed; if not, warn before hours of work are done."""
    if find_spec("matplotlib") is not None:
        return True
    warnings.warn(
        "Matplotlib is not installed, so the figures are left out: pip install matplotlib, then "
        "rerun the command; finished runs are not repeated",
        DataWarning,
        stacklevel=3,
    )
    return False


def need_matplotlib() -> None:
    """Raise a MissingPackageError where a figure cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise MissingPackageError("the figures need Matplotlib; pip install matplotlib")
