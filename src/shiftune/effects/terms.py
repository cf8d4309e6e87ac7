"""Terms of a site's effect: intercept, slope of the answer, columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shiftune.effects.scale import strength
from shiftune.problem.site import Features
from shiftune.rows.encoding import RowEncoder

Floats = NDArray[np.float64]

# Columns and answers beyond so many units count as this: ten labels must not extrapolate.
MOST_UNITS = 4.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of the effects between sites.

    Attributes
    ----------
    intercept : float
        On the scale of the effects: the label's unit, or log odds.
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
    """Terms of the effect for rows of any site.

    Attributes
    ----------
    centre_, width_ : float
        Mean and standard deviation of the sources' answers, on the scale of the effects.
    encoder_ : RowEncoder
        Of the columns.
    names_ : list of str
        "intercept", "slope", and the encoded columns by number.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Terms().fit([X, X], X).transform(X, X).round(2)
    array([[ 1.  , -1.34, -1.6 ],
           [ 1.  , -0.45, -0.53],
           [ 1.  ,  0.45,  0.53],
           [ 1.  ,  1.34,  1.6 ]])
    """

    encoder_: RowEncoder
    centre_: float
    width_: float

    def fit(self, tables: Sequence[Features], scaled: Floats) -> Self:
        """Learn units from the rows of the target (first) and of all sources, and their answers."""
        self.encoder_ = RowEncoder().fit(tables)
        answers = strength(scaled)
        self.centre_, self.width_ = float(answers.mean()), float(answers.std())
        return self

    def transform(self, X: Features, scaled: Floats) -> Floats:
        """Return the terms of rows with these answers, shape (n, 2 + encoded columns)."""
        Z = np.clip(self.encoder_.transform(X), -MOST_UNITS, MOST_UNITS)
        slope = (strength(scaled) - self.centre_) / (self.width_ or 1.0)
        return np.column_stack(
            [
                np.ones(len(Z)),
                np.clip(slope, -MOST_UNITS, MOST_UNITS),
                Z / np.sqrt(max(Z.shape[1], 1)),
            ]
        )
