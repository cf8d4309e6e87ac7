"""The columns that a model reads, with their kinds and date formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from pandas.api import types

from shiftune.errors import DataError
from shiftune.problem.columns import ColumnKind, days_in, kind_of
from shiftune.tables.codes import are_whole, without_zeros
from shiftune.tables.dates import parse_dates


@dataclass(frozen=True)
class Schema:
    """Names, kinds and date formats of columns: enough to read the next file in the same way.

    Attributes
    ----------
    kinds : mapping from column names to "number", "category" or "date"
    date_formats : mapping from column names to formats of `pandas.to_datetime`
        For dates written as text; default ISO8601.
    number_formats : mapping from column names to text
        What is unusual about numbers written as text (`NumberFormat.words`).
    missing_texts : mapping from column names to lists of texts
        What counted as missing among numbers and dates.

    Examples
    --------
    >>> schema = Schema({"age": "number", "seen": "date", "sex": "category"})
    >>> table = pd.DataFrame({"id": [7, 8], "sex": ["f", None], "seen": ["1970-01-11", "?"],
    ...                       "age": ["50", "unknown"]})
    >>> schema.read(table)
        age  seen   sex
    0  50.0  10.0     f
    1   NaN   NaN  None
    """

    kinds: Mapping[str, ColumnKind]
    date_formats: Mapping[str, str] = field(default_factory=dict)
    number_formats: Mapping[str, str] = field(default_factory=dict)
    missing_texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def categories(self) -> list[str]:
        """Names of the category columns."""
        return [str(name) for name, kind in self.kinds.items() if kind == "category"]

    @property
    def numbers(self) -> list[str]:
        """Names of the other columns: numbers, and dates as days."""
        return [str(name) for name, kind in self.kinds.items() if kind != "category"]

    def read(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return these columns of any table that has them, as floats and text.

        Numbers are floats (text among them is missing), dates are days since 1970. Categories are
        text; codes lose their leading zeros, which `pandas.read_csv` drops. A stored model can
        therefore read the user's next file directly. Names become text.
        """
        if not isinstance(table, pd.DataFrame):
            raise DataError(
                f"the model reads a DataFrame with the columns {list(self.kinds)}, got "
                f"{type(table).__name__}"
            )
        if lacking := [name for name in self.kinds if name not in table.columns]:
            raise DataError(f"the table lacks the column(s) {lacking}, which the model reads")
        return pd.DataFrame(
            {str(name): self._read(table[name], kind) for name, kind in self.kinds.items()}
        )

    def _read(self, column: pd.Series, kind: ColumnKind) -> pd.Series:
        if kind == "category":
            return as_text(column)
        if kind == "date":
            date_format = self.date_formats.get(str(column.name), "ISO8601")
            dates = column if kind_of(column) == "date" else parse_dates(column, date_format)
            return pd.Series(days_in(dates), column.index)
        if kind_of(column) == "number":
            return pd.Series(column.to_numpy(dtype=float, na_value=np.nan), column.index)
        return pd.to_numeric(column, errors="coerce").astype(float)


def as_text(column: pd.Series) -> pd.Series:
    """Return categories as text, None where they are missing; codes lose their leading zeros.

    >>> as_text(pd.Series(["007", "A1", None])).to_list()
    ['7', 'A1', None]
    """
    if types.is_float_dtype(column) and are_whole(column.dropna()):
        column = column.astype("Int64")
    codes, texts = pd.factorize(column.astype("string"))
    levels = np.array([*map(without_zeros, texts), None], dtype=object)
    return pd.Series(levels[codes], column.index, dtype=object)
