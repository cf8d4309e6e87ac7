"""Choose hyperparameters, and know the error, for a site you have no labels from."""

from shiftune.problem import ShiftProblem

__version__ = "0.1.0"
__all__ = ["ShiftProblem", "__version__"]
