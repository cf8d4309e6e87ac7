"""Colours of the paper's figures, and whether they can be drawn."""

from __future__ import annotations

from shiftune.errors import MissingPackageError

BLUE, GREY, RED = "#1f5fa8", "#9a9a9a", "#b3362b"


def need_matplotlib() -> None:
    """Raise a MissingPackageError where figures cannot be drawn, before hours of work are done."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingPackageError("the figures need Matplotlib; pip install matplotlib") from error
