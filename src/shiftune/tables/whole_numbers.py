"""Whole numbers stored as floats, as pandas does where some are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def are_whole(numbers: pd.Series) -> bool:
    """Whether all are whole numbers small enough for floats to be exact.

    >>> import pandas as pd
    >>> are_whole(pd.Series([17.0, 3.0])), are_whole(pd.Series([0.5])), are_whole(pd.Series([1e20]))
    (True, False, False)
    """
    return bool(np.array_equal(numbers, np.round(numbers)) and numbers.abs().max() < 2**53)
