"""The command line. Modules of this package load what computes only when a command runs."""

from shiftune.cli import diagnose, tune, report, models, demo, reproduce  # noqa: F401, I001  in the order of the help
from shiftune.cli.app import app, main

__all__ = ["app", "main"]
