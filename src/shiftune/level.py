"""Levels of a finding: ok, caution, problem."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """Level of a finding; equal to its word, so tables and JSON hold plain text.

    >>> Level.CAUTION == "caution"
    True
    """

    OK = "ok"
    CAUTION = "caution"
    PROBLEM = "problem"
