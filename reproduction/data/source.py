"""A published data set: its tables, its address, and how to know that the content is right."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Reader = Callable[[Path, Sequence[str]], list[Floats]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One table per patient, published somewhere.

    Attributes
    ----------
    name : str
        What the data set is called; also the folder below SHIFTUNE_DATA that holds it.
    stem : str
        What the patients are called, before their number.
    n_sites : int
        Number of patients.
    checksum : str
        Of the content of all tables; see `checksum`.
    url, file : str
        Where one file with all of them can be downloaded, and how that file is called here.
    read : function of a path and the patients' names
        Reads that file into one array of shape (n_j, d) per patient.
    digits : int, optional
        Significant digits to which the numbers were published; see `as_published`.

    Examples
    --------
    >>> from reproduction.data.patients import GVHD
    >>> GVHD.names[:3], len(GVHD.names)
    (['task_0', 'task_1', 'task_2'], 30)
    """

    name: str
    stem: str
    n_sites: int
    checksum: str
    url: str
    file: str
    read: Reader
    digits: int | None = None

    @property
    def names(self) -> list[str]:
        """The names of the patients, in numeric order."""
        return [f"{self.stem}_{number}" for number in range(self.n_sites)]


def checksum(tables: Iterable[Floats]) -> str:
    """Return the SHA-256 of the shapes and values of some tables, in their order.

    It is of the content, not of a file, so that line endings, the order of an array in memory
    and the times inside a zip do not matter.

    >>> one = np.arange(6.0).reshape(2, 3)
    >>> checksum([one]) == checksum([np.asfortranarray(one)])
    True
    >>> checksum([one]) == checksum([one.T])
    False
    """
    digest = hashlib.sha256()
    for table in tables:
        digest.update(f"{table.shape}".encode())
        digest.update(np.ascontiguousarray(table, dtype="<f8").tobytes())
    return digest.hexdigest()


def as_published(table: Floats, digits: int | None) -> Floats:
    """Return the decimals that were published, whatever parser made floats of them.

    Some parsers miss the float nearest to a decimal by one unit in the last place: 25 427 of the
    123 375 numbers in the authors' Parkinson arrays (one is 3.3799999999999995e-05) differ from
    what UCI's text (3.38e-005) gives today. Rounding both makes them the same data.

    >>> as_published(np.array([[3.3799999999999995e-05, 12.665999999999999]]), 10).tolist()
    [[3.38e-05, 12.666]]
    """
    if digits is None:
        return table
    rounded = [float(f"{value:.{digits}g}") for value in table.ravel().tolist()]
    return np.array(rounded, dtype=np.float64).reshape(table.shape)
