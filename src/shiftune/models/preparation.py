"""From a user's columns to the numbers that any model can learn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shiftune.errors import ProblemError
from shiftune.problem.columns import days_in, kind_of
from shiftune.tables.codes import without_zeros
from shiftune.tables.columns import as_dates
from shiftune.tables.whole_numbers import are_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shiftune.problem.columns import ColumnKind

# The rest of a column's categories share one.
MOST_CATEGORIES = 20
MISSING = "(missing)"


class ColumnReader(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Pick the columns that a model knows, from any table that has them, and read them as before.

    Numbers are numbers (text among them is missing), dates are days since 1970, everything else
    is text, codes without their leading zeros, which `pandas.read_csv` drops. So a stored model
    reads the user's next file just as it comes from there.

    Parameters
    ----------
    kinds : mapping from column names to "number", "category" or "date"
    spellings : mapping from column names to formats, optional
        How dates that come as text are written, as `pandas.to_datetime` takes it; default ISO8601.

    Examples
    --------
    >>> reader = ColumnReader({"age": "number", "seen": "date", "sex": "category"})
    >>> table = pd.DataFrame({"id": [7, 8], "sex": ["f", None], "seen": ["1970-01-11", "?"],
    ...                       "age": ["50", "unknown"]})
    >>> reader.fit_transform(table)
        age  seen        sex
    0  50.0  10.0          f
    1   NaN   NaN  (missing)
    """

    def __init__(
        self, kinds: Mapping[str, ColumnKind], spellings: Mapping[str, str] | None = None
    ) -> None:
        self.kinds = kinds
        self.spellings = spellings

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Learn nothing."""
        self.fitted_ = True
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the known columns as floats and text."""
        if not isinstance(X, pd.DataFrame):
            raise ProblemError(
                f"the model reads a DataFrame with the columns {list(self.kinds)}, got "
                f"{type(X).__name__}"
            )
        if lacking := [name for name in self.kinds if name not in X.columns]:
            raise ProblemError(f"the table lacks the column(s) {lacking}, which the model reads")
        return pd.DataFrame({name: self._read(X[name], kind) for name, kind in self.kinds.items()})

    def _read(self, column: pd.Series, kind: ColumnKind) -> pd.Series:
        if kind == "category":
            if types.is_float_dtype(column) and are_whole(column.dropna()):
                column = column.astype("Int64")
            return column.astype("string").fillna(MISSING).map(without_zeros).astype(object)
        if kind == "date":
            spelling = (self.spellings or {}).get(str(column.name), "ISO8601")
            dates = column if kind_of(column) == "date" else as_dates(column, spelling)
            return pd.Series(days_in(dates), column.index)
        if kind_of(column) == "number":
            return pd.Series(column.to_numpy(dtype=float, na_value=np.nan), column.index)
        return pd.to_numeric(column, errors="coerce").astype(float)


def preparation(
    kinds: Mapping[str, ColumnKind], spellings: Mapping[str, str] | None = None
) -> Pipeline:
    """Return a pipeline from columns of any kind to a float array without gaps.

    Numbers and dates: the median where they are missing, with a 0/1 column that says so; scaled to
    mean 0 and standard deviation 1. Categories: a 0/1 column for each of the 20 most frequent,
    missing being one of them, and one for all others.

    >>> table = pd.DataFrame({"age": [40.0, 60.0, None], "sex": ["f", "m", "f"]})
    >>> preparation({"age": "number", "sex": "category"}).fit_transform(table).shape
    (3, 4)
    """
    numbers = [name for name, kind in kinds.items() if kind != "category"]
    categories = [name for name, kind in kinds.items() if kind == "category"]
    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    levels = OneHotEncoder(
        max_categories=MOST_CATEGORIES + 1,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    )
    encoder = ColumnTransformer(
        [
            ("numbers", Pipeline([("fill", filled), ("scale", StandardScaler())]), numbers),
            ("categories", levels, categories),
        ]
    )
    return Pipeline(
        [("read", ColumnReader(dict(kinds), dict(spellings or {}))), ("encode", encoder)]
    )
