"""Predictions for the target's rows, as a table for people."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.cli.job import TuneJob
from shiftune.errors import DataWarning
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
    X = job.table.problem.target.X
    found = pd.DataFrame({ROW: job.table.target_rows, "prediction": predictor.predict(X)})
    if labelled is not None:
        found.insert(1, "label_used", labelled)
    if job.table.problem.task == "classification" and hasattr(predictor, "predict_proba"):
        shares = predictor.predict_proba(X)
        for label, share in zip(predictor.classes_, shares.T, strict=True):
            found[f"probability_{label}"] = share
    taken = job.table.identifiers
    free = {name: free_name(name, taken) for name in found.columns}
    if ours := [other for name, other in free.items() if name != other]:
        warnings.warn(
            f"identifiers have names of columns that shiftune writes to {PREDICTIONS}; these are "
            f"called {listed(ours)} there",
            DataWarning,
            stacklevel=3,
        )
    found = found.rename(columns=free)
    return pd.concat([job.identifiers, found], axis=1)


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken.

    >>> free_name("row", ["row", "age"])
    'row_'
    """
    return name if name not in taken else free_name(f"{name}_", taken)
