"""What the training rows held in every column that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from shiftune.problem.columns import ColumnKind
from shiftune.tables.schema import Schema

# Columns with more levels are not compared level by level.
MOST_LEVELS = 5_000


@dataclass(frozen=True)
class ColumnProfile:
    """Values of one column in the rows of a search.

    Attributes
    ----------
    kind : {"number", "category", "date"}
    date_format : str
        Of dates written as text; empty otherwise.
    number_format : str
        What is unusual about numbers written as text; empty if nothing.
    missing_texts : list of str
        Texts that count as missing among numbers and dates.
    missing : (lowest, highest)
        Shares of rows without a value, over all sites.
    low, high : float
        Smallest and largest number, or day since 1970, of all sites; NaN for categories.
    levels : list of str, or None
        Categories in the rows with labels, as text; None where there are too many.
    """

    kind: ColumnKind
    date_format: str = ""
    number_format: str = ""
    missing_texts: list[str] = field(default_factory=list)
    missing: tuple[float, float] = (0.0, 1.0)
    low: float = np.nan
    high: float = np.nan
    levels: list[str] | None = None


@dataclass(frozen=True)
class Profile:
    """Values of the columns that a model reads, and the names of those that it does not read.

    Attributes
    ----------
    columns : dict from names to ColumnProfile
    others : list of str
        Further columns of the training table: site, label, what was left out.
    """

    columns: dict[str, ColumnProfile]
    others: list[str]


def profile_of(
    labelled: Sequence[pd.DataFrame],
    target: pd.DataFrame,
    schema: Schema,
    others: Sequence[str] = (),
) -> Profile:
    """Return the profile of the rows with labels, and of the target's.

    >>> B = pd.DataFrame({"age": [50.0, None], "sex": ["f", "m"]})
    >>> A = pd.DataFrame({"age": [80.0], "sex": ["f"]})
    >>> found = profile_of([B], A, Schema({"age": "number", "sex": "category"}))
    >>> found.columns["age"].missing, found.columns["age"].high, found.columns["sex"].levels
    ((0.0, 0.5), 80.0, ['f', 'm'])
    """
    tables = [schema.read(X) for X in (*labelled, target)]
    columns = {
        name: _with_values(
            ColumnProfile(
                kind,
                schema.date_formats.get(name, ""),
                schema.number_formats.get(name, ""),
                list(schema.missing_texts.get(name, ())),
            ),
            [table[name] for table in tables],
        )
        for name, kind in schema.kinds.items()
    }
    return Profile(columns, list(others))


def _with_values(column: ColumnProfile, sites: Sequence[pd.Series]) -> ColumnProfile:
    """Add what the sites hold, the last of which is the target."""
    shares = [float(values.isna().mean()) for values in sites]
    column = replace(column, missing=(min(shares), max(shares)))
    if column.kind == "category":
        levels = sorted(set().union(*(values.dropna().unique() for values in sites[:-1])))
        return replace(column, levels=levels if len(levels) <= MOST_LEVELS else None)
    given = pd.concat([values.dropna() for values in sites])
    return replace(column, low=float(given.min()), high=float(given.max()))
