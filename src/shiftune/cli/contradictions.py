"""Rows of a file with labels that are not the rows of the table with which they were matched."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.cli.job import TuneJob
from shiftune.errors import DataError
from shiftune.problem.columns import ColumnKind
from shiftune.problem.site import rows_of
from shiftune.tables.schema import Schema
from shiftune.wording import count, listed, number

# Rows and columns that an error names.
MOST_NAMED = 2
# Relative difference of two numbers that are the same, as spreadsheets write them.
SAME = 1e-5


def check_rows(
    path: Path, given: pd.DataFrame, names: Sequence[str], positions: Sequence[int], job: TuneJob
) -> None:
    """Raise an error where columns of a file contradict the table.

    A file whose labels were shifted or sorted without its other columns still identifies rows.
    Empty cells, rounded numbers and dates in another format contradict nothing.

    Parameters
    ----------
    path : Path
        Of the file with labels.
    given : DataFrame of m rows
        Its rows with a label.
    names : m texts
        Each names a row.
    positions : m numbers
        The rows of the target with which they were matched.
    job : TuneJob
    """
    own, schema = _own(job, positions), _schema(job, given)
    here, there = schema.read(given.reset_index(drop=True)), schema.read(own)
    differ = pd.DataFrame({name: _differ(here[name], there[name]) for name in schema.kinds})
    rows = np.flatnonzero(differ.any(axis=1))
    if not len(rows):
        return
    first = [
        f"{names[row]} has {_values(here.iloc[row], differ.iloc[row], schema)} there, and "
        f"{_values(there.iloc[row], differ.iloc[row], schema)} in {job.options.files.of_target}"
        for row in rows[:MOST_NAMED]
    ]
    columns = listed([name for name in schema.kinds if differ[name].any()], 4)
    raise DataError(
        f"{count(len(rows), 'labelled row')} of {path} contradict{'s' * (len(rows) == 1)} the "
        f"table: {'; '.join(first)}. Were labels or rows moved? Put each label beside its row; if "
        f"they are right, leave {columns} out of {path}"
    )


def _own(job: TuneJob, positions: Sequence[int]) -> pd.DataFrame:
    target = job.table.problem.target
    own: pd.DataFrame = rows_of(target.X, np.asarray(positions))
    return own.reset_index(drop=True).assign(**{job.options.files.site_column: target.name})


def _schema(job: TuneJob, given: pd.DataFrame) -> Schema:
    """Return the columns that the model uses, and the site, as far as the file has them."""
    schema = job.table.schema
    kinds = {**schema.kinds, job.options.files.site_column: "category"}
    shared = {name: kind for name, kind in kinds.items() if name in given}
    return Schema(shared, schema.date_formats)


def _differ(one: pd.Series, other: pd.Series) -> NDArray[np.bool_]:
    known = (one.notna() & other.notna()).to_numpy()
    if one.dtype == object:
        return known & (_plain(one) != _plain(other)).to_numpy()
    rounded = min(map(_half_a_digit, one.dropna()), default=0.0)
    near = rounded + SAME * np.maximum(one.abs(), other.abs())
    return known & ~((one - other).abs() <= near).to_numpy()


def _plain(texts: pd.Series) -> pd.Series:
    return texts.astype(str).str.strip().str.casefold()


def _half_a_digit(value: float) -> float:
    """Return half a unit of a number's last decimal.

    >>> _half_a_digit(2.5), _half_a_digit(70.0)
    (0.05, 0.5)
    """
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    return 0.5 * 10.0 ** min(int(exponent), 0)


def _values(row: pd.Series, differ: pd.Series, schema: Schema) -> str:
    names = [name for name in schema.kinds if differ[name]][:MOST_NAMED]
    return " and ".join(f"{name} {_written(row[name], schema.kinds[name])}" for name in names)


def _written(value: Any, kind: ColumnKind) -> str:
    if kind == "date":
        return f"{pd.Timestamp(value, unit='D'):%Y-%m-%d}"
    return repr(value) if kind == "category" else number(value, 6)
