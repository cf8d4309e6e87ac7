"""Tune models for a site without labels, and estimate their error there."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftune.models import load_model, spaces
    from shiftune.problem import ShiftProblem
    from shiftune.search import ShiftSearch

__version__ = "0.1.0"
__all__ = [
    "ShiftProblem",
    "ShiftSearch",
    "__version__",
    "load_model",
    "spaces",
]

_HOMES = {
    "ShiftProblem": "shiftune.problem",
    "ShiftSearch": "shiftune.search",
    "load_model": "shiftune.models",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Load a part of the package when it is first used: each worker process imports this module."""
    if name == "spaces":
        return import_module("shiftune.models.spaces")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if not name.startswith("_") and find_spec(f"shiftune.{name}"):
        return import_module(f"shiftune.{name}")
    raise AttributeError(f"module 'shiftune' has no attribute {name!r}")
