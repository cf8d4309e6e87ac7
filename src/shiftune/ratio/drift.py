"""Distance of new rows from the target's rows, of which only summaries by column are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.problem.columns import kind_of
from shiftune.ratio.column_shift import ks_distance
from shiftune.rows.levels import MISSING, MOST_LEVELS

# Values of a column of numbers that stand for all: the distance is exact to 1/400.
MOST_VALUES = 200
# A smaller distance is no drift: 0.15 is that of two normal distributions 0.4 standard deviations
# apart. Nor is one that chance gives once in a thousand columns, 1.95 sqrt(1/n + 1/m).
SMALL = 0.15
CHANCE = 1.95


@dataclass(frozen=True)
class ColumnSummaries:
    """Distribution of each column, without its rows.

    Attributes
    ----------
    rows : int
    values : dict from names of number columns to arrays of at most 200 values
        Quantiles, NaN where missing.
    shares : dict from names of category columns to shares of their most frequent levels

    Examples
    --------
    >>> table = pd.DataFrame({"age": np.arange(100.0), "sex": ["f", "m"] * 50})
    >>> ColumnSummaries.of(table).distances(table.assign(age=table["age"] + 75)).to_dict()
    {'age': 0.75, 'sex': 0.0}
    """

    rows: int
    values: dict[str, NDArray[np.float64]]
    shares: dict[str, dict[str, float]]

    @classmethod
    def of(cls, table: pd.DataFrame) -> Self:
        """Summarise a table of floats and text, as `Schema.read` returns it."""
        names = list(map(str, table.columns))
        texts = [name for name in names if kind_of(table[name]) == "category"]
        return cls(
            len(table),
            {name: _quantiles(table[name]) for name in names if name not in texts},
            {name: _level_shares(table[name]) for name in texts},
        )

    def distances(self, table: pd.DataFrame) -> pd.Series:
        """Return the distance of every column from 0 (alike) to 1, as `column_shifts` does."""
        found = {
            name: ks_distance(values, table[name].to_numpy(dtype=float))
            for name, values in self.values.items()
        } | {
            name: _total_variation(shares, table[name].fillna(MISSING).value_counts(normalize=True))
            for name, shares in self.shares.items()
        }
        return pd.Series(found, dtype=float).sort_values(ascending=False, kind="stable")

    def drifted(self, distances: pd.Series, rows: int) -> pd.Series:
        """Return the distances that are neither small nor chance, in so many new rows."""
        limit = max(SMALL, CHANCE * np.sqrt(1 / self.rows + 1 / rows))
        return pd.Series(distances[distances > limit])


def _quantiles(column: pd.Series) -> NDArray[np.float64]:
    values = np.sort(np.asarray(column, dtype=np.float64))  # NaN comes last
    if len(values) <= MOST_VALUES:
        return values
    middles = (np.arange(MOST_VALUES) + 0.5) / MOST_VALUES
    return np.asarray(values[(middles * len(values)).astype(int)])


def _level_shares(column: pd.Series) -> dict[str, float]:
    shares = column.fillna(MISSING).value_counts(normalize=True).head(MOST_LEVELS)
    return {str(level): float(share) for level, share in shares.items()}


def _total_variation(shares: dict[str, float], new: pd.Series) -> float:
    """Distance over the levels that were kept, and the rest as one."""
    pairs = [(share, float(new.get(level, 0.0))) for level, share in shares.items()]
    a, b = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    return float((np.abs(a - b).sum() + abs(a.sum() - b.sum())) / 2)
