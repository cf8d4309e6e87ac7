"""Terms of a site's effect: intercept, slope of the answer, columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer

from shiftune.effects.scale import moderate, strength
from shiftune.models.preparation import preparation
from shiftune.problem.site import Features
from shiftune.tables import Schema

Floats = NDArray[np.float64]

# Rows x columns of the sources, 160 MB, and coefficients of columns (for every class), beyond which
# columns are no terms: the intercept and the slope remain.
MOST_CELLS = 20_000_000
MOST_COEFFICIENTS = 300
# Columns and answers beyond so many units count as this: ten labels must not extrapolate.
MOST_UNITS = 4.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of the effects between sites.

    Attributes
    ----------
    intercept : float
        On the scale of the effects: the label's unit, or that of a class's log probability (log
        odds of two classes have 1.4 times as much).
    slope : float
        Of one standard deviation of the answer.
    columns : float
        Of all columns together, at a row that is one unit from the centre in each.
    """

    intercept: float = 0.0
    slope: float = 0.0
    columns: float = 0.0

    def by_term(self, terms: int) -> Floats:
        """Return the standard deviation of every term, shape (terms,)."""
        return np.concatenate([[self.intercept, self.slope], np.full(terms - 2, self.columns)])


class Terms:
    """Terms of the effect for rows of any site: 1, the answer, the columns as numbers.

    Parameters
    ----------
    schema : Schema or None
        Of the columns; None for arrays of numbers.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Terms(None).fit(X, X).transform(X, X).round(2)
    array([[ 1.  , -1.34, -1.34],
           [ 1.  , -0.45, -0.45],
           [ 1.  ,  0.45,  0.45],
           [ 1.  ,  1.34,  1.34]])
    """

    centre_: float
    width_: float
    with_columns_: bool

    def __init__(self, schema: Schema | None) -> None:
        self.preparation = preparation(schema)

    @property
    def names(self) -> list[str]:
        """Names of the terms."""
        names = ["intercept", "slope"]
        if not self.with_columns_:
            return names
        encode = self.preparation[-1]
        prefixed = isinstance(encode, ColumnTransformer)  # by the name of the transformer
        columns = [str(name) for name in encode.get_feature_names_out()]
        return names + [name.split("__", 1)[1] if prefixed else name for name in columns]

    def fit(self, X: Features, scaled: Floats) -> Self:
        """Learn units from the rows of all sources and their answers."""
        columns = self.preparation.fit(X).transform(X[:1]).shape[1]
        coefficients = columns * scaled.shape[1]
        self.with_columns_ = len(X) * columns <= MOST_CELLS and coefficients <= MOST_COEFFICIENTS
        answers = strength(moderate(scaled))
        self.centre_, self.width_ = float(answers.mean()), float(answers.std())
        return self

    def transform(self, X: Features, scaled: Floats) -> Floats:
        """Return the terms of rows with these answers, shape (n, 2 + columns)."""
        Z = np.empty((len(X), 0))
        if self.with_columns_:
            Z = np.asarray(self.preparation.transform(X), dtype=float)
        slope = (strength(moderate(scaled)) - self.centre_) / (self.width_ or 1.0)
        both = np.clip(np.column_stack([slope, Z]), -MOST_UNITS, MOST_UNITS)
        both[:, 1:] /= np.sqrt(max(Z.shape[1], 1))
        return np.column_stack([np.ones(len(Z)), both])
