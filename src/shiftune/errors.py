"""What can go wrong with a user's data, each as a class that can be caught or filtered."""

from __future__ import annotations


class ProblemError(ValueError):
    """Input that cannot be used; the message names the site and column and says what to do."""


class DataWarning(UserWarning):
    """The data was accepted, but something was decided that the user should know of."""


class OverlapWarning(UserWarning):
    """The sources do not cover the target well enough for the estimate that was asked for."""
