"""The two real data sets of Nomura & Saito (CIKM 2021), in which every patient is a site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from reproduction.data.fetching import fetch
from reproduction.data.formats import TELEMONITORING, read_gvhd_zip, read_telemonitoring_csv
from reproduction.data.source import Source
from shiftune._wording import check_choice
from shiftune.problem import ShiftProblem

if TYPE_CHECKING:
    import os

PARKINSON = Source(
    name="parkinson",
    stem="patient",
    n_sites=42,
    checksum="f6154e1cd286864309276139d6b74b102a6d4222cbc8036971f2ac6e26e1cce6",
    url="https://archive.ics.uci.edu/ml/machine-learning-databases/parkinsons/telemonitoring/"
    "parkinsons_updrs.data",
    file="parkinsons_updrs.data",
    read=read_telemonitoring_csv,
    digits=10,
)
GVHD = Source(
    name="gvhd",
    stem="task",
    n_sites=30,
    checksum="f6ade2826bdeb99fdf09bd57c46a543c096548874c1754cda655d573aea0b563",
    url="https://github.com/nmasahiro/MS-CS/archive/HEAD.zip",
    file="MS-CS.zip",
    read=read_gvhd_zip,
)

# The paper's 17 features: the columns 2 to 18 of a patient's array. LightGBM refuses a colon in
# a name ("Do not support special JSON characters in feature name").
FEATURES = slice(2, 19)
FEATURE_NAMES = [name.replace(":", "_") for name in TELEMONITORING[FEATURES]]


def load_parkinson(
    target: str = "patient_28", *, folder: str | os.PathLike[str] | None = None
) -> ShiftProblem:
    """Return Parkinson's telemonitoring [1]_ as in the paper [2]_: UPDRS from the voice.

    42 patients with 101 to 168 recordings each, 17 features (the time of the recording and 16
    measures of the voice, not scaled), label: total UPDRS. The sources are all patients but the
    target, in numeric order; the target's labels are the problem's `oracle`. Rows are in the
    order of the file.

    Parameters
    ----------
    target : str
        "patient_0" to "patient_41"; default: the paper's.
    folder : path, optional
        Where ``patient_0.npy`` to ``patient_41.npy``, or ``parkinsons_updrs.data``, are. Default:
        the folder ``parkinson`` below the one that the environment variable SHIFTUNE_DATA names;
        else an earlier download; else a download (``pip install '.[reproduction]'``).

    References
    ----------
    .. [1] A. Tsanas et al., Accurate telemonitoring of Parkinson's disease progression by
       noninvasive speech tests, IEEE Trans. Biomed. Eng. 57(4), 2010. UCI, Parkinsons
       Telemonitoring.
    .. [2] M. Nomura, Y. Saito, Efficient hyperparameter optimization under multi-source covariate
       shift, CIKM 2021.

    Examples
    --------
    >>> load_parkinson().target  # doctest: +SKIP
    <Site 'patient_28': 168 rows, no labels>
    >>> load_parkinson("patient28")
    Traceback (most recent call last):
    ...
    shiftune.errors.SettingsError: there is no patient 'patient28'; did you mean 'patient_28'?
    """
    check_choice(target, PARKINSON.names, "patient")
    tables = dict(zip(PARKINSON.names, fetch(PARKINSON, folder), strict=True))
    sites = {
        name: (pd.DataFrame(table[:, FEATURES], columns=FEATURE_NAMES), table[:, -1])
        for name, table in tables.items()
    }
    X_target, y_target = sites.pop(target)
    return ShiftProblem.from_sites(
        sites, X_target, oracle_labels=y_target, target_name=target, task="regression"
    )


def load_gvhd(
    target: str = "task_0", *, folder: str | os.PathLike[str] | None = None
) -> ShiftProblem:
    """Return the graft-versus-host disease data as in the paper [1]_: gate the cells of a patient.

    30 patients with 1000 cells each, 7 measurements by flow cytometry (each scaled to 0..1 per
    patient), label: -1 or 1. The sources are all patients but the target, in numeric order; the
    target's labels are the problem's `oracle`. Rows are in the order of the file, which is sorted
    by label.

    Parameters
    ----------
    target : str
        "task_0" to "task_29"; default: the paper's.
    folder : path, optional
        Where ``task_0.npy`` to ``task_29.npy``, or the authors' repository as ``MS-CS.zip``, are.
        Default: the folder ``gvhd`` below the one that the environment variable SHIFTUNE_DATA
        names; else an earlier download; else a download (``pip install '.[reproduction]'``).

    References
    ----------
    .. [1] M. Nomura, Y. Saito, Efficient hyperparameter optimization under multi-source covariate
       shift, CIKM 2021.

    Examples
    --------
    >>> load_gvhd().target  # doctest: +SKIP
    <Site 'task_0': 1000 rows, no labels>
    >>> load_gvhd("task0")
    Traceback (most recent call last):
    ...
    shiftune.errors.SettingsError: there is no patient 'task0'; did you mean 'task_0'?
    """
    check_choice(target, GVHD.names, "patient")
    tables = dict(zip(GVHD.names, fetch(GVHD, folder), strict=True))
    sites = {name: (table[:, :-1], table[:, -1].astype(np.int64)) for name, table in tables.items()}
    X_target, y_target = sites.pop(target)
    return ShiftProblem.from_sites(
        sites, X_target, oracle_labels=y_target, target_name=target, task="classification"
    )
