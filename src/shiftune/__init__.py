"""Choose hyperparameters, and know the error, for a site you have no labels from."""

from typing import TYPE_CHECKING, Any

from shiftune.problem import ShiftProblem

if TYPE_CHECKING:
    from shiftune.models import load_model
    from shiftune.search import LeaveSourcesOut, PooledFit, ShiftSearch, spaces

__version__ = "0.1.0"
__all__ = [
    "LeaveSourcesOut",
    "PooledFit",
    "ShiftProblem",
    "ShiftSearch",
    "__version__",
    "load_model",
    "spaces",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Load what brings Optuna and scikit-learn when it is first asked for."""
    if name in ("LeaveSourcesOut", "PooledFit", "ShiftSearch", "spaces"):
        import shiftune.search

        return getattr(shiftune.search, name)
    if name == "load_model":
        from shiftune.models import load_model

        return load_model
    raise AttributeError(f"module 'shiftune' has no attribute {name!r}")
