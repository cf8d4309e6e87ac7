"""A folder of `shiftune tune` and its table, read again by commands that add no trial."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from shiftune.cli.folder import ResultFolder
from shiftune.cli.job import TuneJob, prepare_job
from shiftune.cli.option_fields import Role, values_of
from shiftune.cli.predictions import PREDICTIONS, predictions
from shiftune.cli.states import LABELS
from shiftune.errors import DataError, DataWarning, StorageError
from shiftune.models import load_model
from shiftune.models.storing import PICKLED
from shiftune.predictor.table_model import TableModel
from shiftune.tables import files_at

# Relative difference of predictions up to which two models are the same: other machines and
# versions of libraries sum in another order.
SAME = 1e-6


def reopened(folder: ResultFolder, moved: Mapping[str, Path | None] | None = None) -> TuneJob:
    """Read the table of a result again; another table is refused."""
    options = folder.options(moved)
    for name, path in values_of(options, Role.FILE).items():
        try:
            files_at(path or options.data)
        except StorageError as error:
            option = f"--{name.replace('_', '-')}"
            raise DataError(f"{error} (if it was moved, give {option} FILE)") from error
    job = prepare_job(options, folder.journal)
    if folder.settings()["data"] != job.fingerprint:
        raise DataError(
            f"{options.files} is not the table of this result, or has changed since; give the old "
            "one with --data"
        )
    folder.check(job)
    return job


def completed(folder: ResultFolder) -> dict[str, Any]:
    """Return the content of best.json, if it is the result of all trials in the folder."""
    best = folder.complete(folder.finished(), folder.options().of_result())
    if best is None:
        raise StorageError(f"{folder.path} is not finished; run this first: {folder.last_command}")
    return best


def model_in_use(folder: Path) -> TableModel:
    """Return the model of a result that predicts: the last update of it, if there is one."""
    result = ResultFolder(folder)
    updates = result.updates
    path = folder / completed(result)["model_file"]
    if updates.finished:
        last = updates.record(max(updates.finished))
        if last["current"]:
            path = updates.state(last["number"]) / last["model_file"]
        else:
            labels = updates.state(last["number"]) / LABELS
            warnings.warn(
                f"the updates in {folder} are of an earlier model and are not used; update this "
                f"one: shiftune update {folder} {labels}",
                DataWarning,
                stacklevel=2,
            )
    if path.suffix == PICKLED:
        raise StorageError(
            f"{path} is a model that skops cannot store, and loading it executes code; if you "
            "trust its origin, load it in Python: shiftune.load_model(path, execute_code=True)"
        )
    model = load_model(path)
    if not isinstance(model, TableModel):
        raise StorageError(
            f"{path} was written by another version of shiftune; shiftune report {folder} writes "
            "it again"
        )
    return model


def handed_over(folder: ResultFolder, best: dict[str, Any], job: TuneJob) -> Any:
    """Return the stored model of a search that is open again.

    A pickled model is fitted again instead, since loading it would execute code.
    """
    members = {member["trial"]: member["weight"] for member in best["members"]}
    weights = job.search.result_.choice.weights
    if weights.keys() != members.keys() or not all(
        np.isclose(weights[trial], members[trial], rtol=SAME) for trial in members
    ):
        raise StorageError(_other_model(folder, "chooses other models"))
    if best["model_file"].endswith(PICKLED):
        return job.search.refit().predictor_
    model = load_model(folder.path / best["model_file"]).predictor
    labelled = job.table.target_labelled if job.options.use_target_labels else None
    now = StringIO(predictions(job, model, labelled).to_csv(index=False))
    if not _same(pd.read_csv(folder.path / PREDICTIONS), pd.read_csv(now)):
        raise StorageError(_other_model(folder, f"does not predict what {PREDICTIONS} holds"))
    return model


def _other_model(folder: ResultFolder, what: str) -> str:
    return (
        f"the model in {folder.path} is not the one of its trials: with the packages installed "
        f"now, shiftune {what}; shiftune report {folder.path} writes the model again"
    )


def _same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    if list(one) != list(other) or len(one) != len(other):
        return False
    return all(
        np.allclose(one[name], other[name], rtol=SAME, equal_nan=True)
        if one[name].dtype.kind in "iuf" and other[name].dtype.kind in "iuf"
        else one[name].equals(other[name])
        for name in one
    )
