"""Text that a spreadsheet would take for a formula, written so that it stays text."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pandas as pd

from shiftune.errors import DataWarning
from shiftune.wording import listed

# A lone sign is shown as it is.
FORMULA = re.compile(r"[=+\-@\t\r].", re.DOTALL)
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?\s*%?\Z", re.IGNORECASE)


def safe_text(value: Any) -> Any:
    """Put an apostrophe before text that begins like a formula; anything else stays as it is.

    >>> [safe_text(each) for each in ("=1+1", "-2.5", "-", "@SUM(A1)", -3.0, "B-7")]
    ["'=1+1", '-2.5', '-', "'@SUM(A1)", -3.0, 'B-7']
    """
    if not isinstance(value, str) or not FORMULA.match(value) or NUMBER.match(value):
        return value
    return f"'{value}"


def safe_for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts and column names are no formulas; a note names what changed."""
    found = frame.copy()
    changed = []
    for at, name in enumerate(frame.columns):
        column = frame.iloc[:, at]
        if column.dtype.kind not in "biufcmM":
            values = column.tolist()
            safe = [safe_text(value) for value in values]
            if any(now is not value for now, value in zip(safe, values, strict=True)):
                found.isetitem(at, safe)
                changed.append(str(name))
    names = [safe_text(name) for name in frame.columns]
    changed += [str(name) for name, safe in zip(frame.columns, names, strict=True) if name != safe]
    if changed:
        where = listed(dict.fromkeys(changed))
        warnings.warn(
            f"text in {where} begins like a formula of a spreadsheet and is "
            "written with ' before it; --no-safe-csv writes it as it is",
            DataWarning,
            stacklevel=2,
        )
    found.columns = pd.Index(names, name=frame.columns.name)
    return found
