"""How optional packages are installed, as errors and notes tell it."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra of `pyproject.toml`.

    shiftune is not on a package index, so the command is for a clone of its repository.

    >>> how_to_install("parquet")
    "pip install '.[parquet]' in a clone of shiftune"
    """
    return f"pip install '.[{extra}]' in a clone of shiftune"
