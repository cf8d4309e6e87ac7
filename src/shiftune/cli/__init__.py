"""The command line. NumPy, pandas, scikit-learn and Optuna load only when a command runs."""

from shiftune.cli._app import app

__all__ = ["app"]
