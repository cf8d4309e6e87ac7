"""Preparation of a user's columns: numbers that any model can learn from."""

from __future__ import annotations

from typing import Any, Self

import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from shiftune.rows.levels import MISSING, one_hot
from shiftune.tables import Schema


class ColumnReader(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scikit-learn transformer that reads the columns of a schema; missing categories are text.

    >>> import pandas as pd
    >>> reader = ColumnReader(Schema({"age": "number", "sex": "category"}))
    >>> reader.fit_transform(pd.DataFrame({"sex": ["f", None], "age": ["50", "unknown"]}))
        age        sex
    0  50.0          f
    1   NaN  (missing)
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Learn nothing."""
        self.fitted_ = True
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the schema's columns as floats and text."""
        return self.schema.read(X).fillna(dict.fromkeys(self.schema.categories, MISSING))


def preparation(schema: Schema | None) -> Pipeline:
    """Return a pipeline from columns of any kind to a float array without gaps.

    Without a schema the rows are arrays of numbers.

    Numbers and dates: the median where they are missing, with a 0/1 column that marks it; scaled to
    mean 0 and standard deviation 1. Categories: a 0/1 column for each of the 20 most frequent,
    missing being one of them, and one for all others.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [40.0, 60.0, None], "sex": ["f", "m", "f"]})
    >>> preparation(Schema({"age": "number", "sex": "category"})).fit_transform(table).shape
    (3, 4)
    """
    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    numbers = Pipeline([("fill", filled), ("scale", StandardScaler())])
    if schema is None:
        return numbers
    encoder = ColumnTransformer(
        [
            ("numbers", numbers, schema.numbers),
            ("categories", one_hot(), schema.categories),
        ]
    )
    return Pipeline([("read", ColumnReader(schema)), ("encode", encoder)])
