"""Codes that look like numbers, such as 007 in identifiers, and numbers that may be codes."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

CODE = re.compile(r"0[0-9]+")


def has_codes(values: Iterable[object]) -> bool:
    """Whether any value is text made of digits with a leading zero.

    >>> has_codes(["12", "007"]), has_codes(["0", "0.5", "00:30", "01.02.2024", None, 7])
    (True, False)
    """
    return first_code(values) is not None


def first_code(values: Iterable[object]) -> str | None:
    """Return the first text made of digits with a leading zero; None if there is none."""
    return next((v for v in values if isinstance(v, str) and CODE.fullmatch(v)), None)


def without_zeros(code: str) -> str:
    """Return digits without leading zeros; any other text unchanged.

    >>> without_zeros("007"), without_zeros("000"), without_zeros("A01")
    ('7', '0', 'A01')
    """
    return str(int(code)) if code.isascii() and code.isdigit() else code


def are_whole(numbers: pd.Series) -> bool:
    """Whether all are whole numbers small enough for floats to be exact.

    Pandas stores whole numbers as floats where some are missing.

    >>> are_whole(pd.Series([17.0, 3.0])), are_whole(pd.Series([0.5])), are_whole(pd.Series([1e20]))
    (True, False, False)
    """
    return bool(np.array_equal(numbers, np.round(numbers)) and numbers.abs().max() < 2**53)
