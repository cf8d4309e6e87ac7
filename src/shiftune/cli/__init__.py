"""The command line. NumPy, pandas, scikit-learn and Optuna load only when a command runs."""

from shiftune.cli._app import app

# Each registers its commands, in the order of the help.
from shiftune.cli import (  # noqa: F401  # isort: skip
    diagnose,
    tune,
    predict,
    report,
    label_plan,
    update,
    models,
    demo,
)

__all__ = ["app"]
