"""Errors and warnings about a user's input, each a class that can be caught or filtered."""

from __future__ import annotations


class ProblemError(ValueError):
    """Input that cannot be used; the message names what is wrong and what to do about it."""


class DataError(ProblemError):
    """Rows, columns or labels that cannot be used; the message names the site and the column."""


class SettingsError(ProblemError):
    """A setting, option or call that cannot work, alone or together with the others."""


class StorageError(ProblemError):
    """A file or folder that cannot be read or written, is damaged, or belongs to another run."""


class NoWorkersError(ProblemError):
    """Workers that cannot be started or reached; finished trials are kept, and a search resumes."""


class MissingPackageError(ProblemError, ImportError):
    """A package that is not installed; the message has the command that installs it."""


class DataWarning(UserWarning):
    """Data that was accepted after a decision that the user should know of."""


class SearchWarning(UserWarning):
    """Models of a search that have no part in its result."""


class OverlapWarning(UserWarning):
    """Sources that do not cover the target well enough for the estimate."""
