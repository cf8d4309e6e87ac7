"""The forms in which the patients' tables are found: arrays, UCI's text, a zip of arrays.

Every reader returns one float array of shape (n_j, d) per patient, rows in the file's order, and
raises a StorageError for a file that it cannot read.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import IO, TYPE_CHECKING

import numpy as np
import pandas as pd

from shiftune._wording import listed
from shiftune.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

VOICE = [
    *("Jitter(%)", "Jitter(Abs)", "Jitter:RAP", "Jitter:PPQ5", "Jitter:DDP"),
    *("Shimmer", "Shimmer(dB)", "Shimmer:APQ3", "Shimmer:APQ5", "Shimmer:APQ11", "Shimmer:DDA"),
    *("NHR", "HNR", "RPDE", "DFA", "PPE"),
]
TELEMONITORING = ["age", "sex", "test_time", *VOICE, "motor_UPDRS", "total_UPDRS"]
"""The columns of a patient's array in the authors' order; UCI has both scores before the voice."""


def read_arrays(folder: Path, names: Sequence[str]) -> list[Floats]:
    """Read a folder with one ``.npy`` file per patient."""
    missing = [f"{name}.npy" for name in names if not (folder / f"{name}.npy").is_file()]
    if missing:
        raise StorageError(f"the folder {folder} lacks {listed(missing, quoted=False)}")
    return [_array(folder / f"{name}.npy", f"{folder / name}.npy") for name in names]


def read_telemonitoring_csv(path: Path, names: Sequence[str]) -> list[Floats]:
    """Read UCI's ``parkinsons_updrs.data``, whose subjects 1, 2, ... are the patients 0, 1, ..."""
    try:
        frame = pd.read_csv(path)
    except ValueError as error:  # pandas' own errors and those of decoding are ValueErrors
        raise StorageError(
            f"{path} is not the CSV file that it should be: {str(error).strip()}"
        ) from error
    missing = [column for column in ["subject#", *TELEMONITORING] if column not in frame.columns]
    if missing:
        raise StorageError(f"{path} lacks the column(s) {listed(missing, quoted=False)}")
    try:
        values = frame[TELEMONITORING].to_numpy(dtype=np.float64)
        subjects = frame["subject#"].to_numpy(dtype=np.float64)
    except ValueError as error:
        raise StorageError(f"{path} has cells that are not numbers: {error}") from error
    tables = [values[subjects == number] for number in range(1, len(names) + 1)]
    absent = [name for name, table in zip(names, tables, strict=True) if len(table) == 0]
    if absent or len(values) != sum(map(len, tables)):
        found = len(np.unique(subjects))
        raise StorageError(
            f"{path} should have the subjects 1 to {len(names)}; it has {found} different ones"
            + (f", and no row for {listed(absent, quoted=False)}" if absent else "")
        )
    return tables


def read_gvhd_zip(path: Path, names: Sequence[str]) -> list[Floats]:
    """Read the authors' repository as a zip, whose ``dataset/gvhd`` has one array per patient."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {
                name: member
                for name in names
                for member in archive.namelist()
                if f"/{member}".endswith(f"/dataset/gvhd/{name}.npy")
            }
            missing = [f"dataset/gvhd/{name}.npy" for name in names if name not in members]
            if missing:
                raise StorageError(f"the archive {path} lacks {listed(missing, quoted=False)}")
            return [
                _array(io.BytesIO(archive.read(members[name])), f"{members[name]} in {path}")
                for name in names
            ]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        # Damage can read as a password or an unknown packing (RuntimeError), or as a place before
        # the beginning of the file (OSError).
        raise StorageError(f"{path} is not a whole zip file: {error}") from error


def _array(file: Path | IO[bytes], where: str) -> Floats:
    try:
        table = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise StorageError(f"{where} is not a NumPy array of numbers: {error}") from error
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "iuf":
        raise StorageError(f"{where} is not a NumPy array of numbers of shape (n, d)")
    return table.astype(np.float64)
