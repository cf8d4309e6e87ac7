"""Predictions for the target's rows, as a table for people."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.cli.job import TuneJob
from shiftune.cli.safe_csv import safe_for_spreadsheets
from shiftune.errors import DataWarning
from shiftune.predictor.table_model import prediction_columns
from shiftune.wording import listed

PREDICTIONS = "predictions.csv"
ROW = "row"


def predictions(
    job: TuneJob, predictor: Any, labelled: NDArray[np.bool_] | None = None
) -> pd.DataFrame:
    """Return identifiers, position in the table and prediction of every target row.

    Parameters
    ----------
    job : TuneJob
    predictor : fitted estimator
    labelled : bool array of shape (n_T,), optional
        Rows whose label the predictor has seen, for a column of their own.
    """
    found = prediction_columns(predictor, pd.DataFrame(job.table.problem.target.X))
    if labelled is not None:
        found.insert(0, "label_used", labelled)
    found.insert(0, ROW, job.table.target_rows)
    whole = with_identifiers(job.identifiers, found)
    return safe_for_spreadsheets(whole) if job.options.safe_csv else whole


def with_identifiers(identifiers: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Put identifiers in front of predictions, whose names make room for theirs."""
    free = {name: free_name(name, identifiers.columns) for name in map(str, found)}
    if ours := [other for name, other in free.items() if name != other]:
        warnings.warn(
            "identifiers have names of columns that shiftune writes to the predictions; these are "
            f"called {listed(ours)} there",
            DataWarning,
            stacklevel=3,
        )
    return pd.concat([identifiers, found.rename(columns=free)], axis=1)


def free_name(name: str, taken: Collection[str] | pd.Index) -> str:
    """Return a name that is not taken.

    >>> free_name("row", ["row", "age"])
    'row_'
    """
    return name if name not in taken else free_name(f"{name}_", taken)
