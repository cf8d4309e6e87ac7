"""Codes that look like numbers: digits with a leading zero, as in identifiers and postcodes."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
