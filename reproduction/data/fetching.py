"""Where the files of a published data set come from: a folder, the cache, or its address.

In this order: the folder that the user names; the folder of that data set below SHIFTUNE_DATA;
the cache of earlier downloads; a download. The content is checked whichever it is, because the
paper's experiments are about the paper's data.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from reproduction.data.formats import read_arrays
from reproduction.data.source import as_published, checksum
from shiftune._wording import how_to_install
from shiftune.errors import MissingPackageError, SettingsError, StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reproduction.data.source import Source

    Floats = NDArray[np.float64]

VARIABLE = "SHIFTUNE_DATA"


def fetch(source: Source, folder: str | os.PathLike[str] | None = None) -> list[Floats]:
    """Return the checked tables of all patients of a data set, in numeric order.

    Parameters
    ----------
    source : Source
    folder : path, optional
        A folder with one ``.npy`` file per patient, or with the one file that would be
        downloaded. Default: see above.

    Returns
    -------
    list of arrays of shape (n_j, d)

    Examples
    --------
    >>> from reproduction.data.patients import GVHD
    >>> fetch(GVHD, "no/such/folder")
    Traceback (most recent call last):
    ...
    shiftune.errors.StorageError: there is no folder no/such/folder; ...
    """
    place = _named_by_environment(source) if folder is None else Path(folder).expanduser()
    return _downloaded(source) if place is None else _from_folder(source, place)


def _named_by_environment(source: Source) -> Path | None:
    root = os.environ.get(VARIABLE)
    if not root:
        return None
    if not Path(root).is_dir():
        raise SettingsError(f"{VARIABLE} names {root}, which is no folder; correct or unset it")
    place = Path(root) / source.name
    return place if place.is_dir() else None  # it may hold only the other data set


def _from_folder(source: Source, folder: Path) -> list[Floats]:
    advice = f"the files of the paper come from {source.url}"
    if not folder.is_dir():
        raise StorageError(f"there is no folder {folder}; {advice}")
    whole = folder / source.file
    try:
        if whole.is_file():
            return _checked(source, source.read(whole, source.names), whole)
        return _checked(source, read_arrays(folder, source.names), folder)
    except StorageError as error:
        below = folder / source.name
        hint = f"; did you mean the folder {str(below)!r}?" if below.is_dir() else f"; {advice}"
        raise StorageError(f"data set {source.name!r}: {error}{hint}") from error


def _downloaded(source: Source) -> list[Floats]:
    try:
        import pooch
    except ImportError as error:
        raise MissingPackageError(
            f"downloading needs pooch; {how_to_install('reproduction')}. {_ways(source)}"
        ) from error
    try:
        # No hash of the raw file: it may differ in line endings or times. `_checked` has ours.
        path = Path(
            pooch.retrieve(
                source.url, known_hash=None, fname=source.file, path=pooch.os_cache("shiftune")
            )
        )
    except OSError as error:  # requests' errors, and a cache that cannot be written
        raise StorageError(f"the download failed ({error}). {_ways(source)}") from error
    try:
        return _checked(source, source.read(path, source.names), path)
    except StorageError as error:
        path.unlink(missing_ok=True)
        raise StorageError(
            f"data set {source.name!r}, downloaded from {source.url}: {error}; the file has been "
            "removed, so that the next try downloads it again. If that fails as well, the file "
            "at that address is no longer the paper's: pass the paper's files as folder="
        ) from error


def _checked(source: Source, tables: list[Floats], where: Path) -> list[Floats]:
    tables = [as_published(table, source.digits) for table in tables]
    found = checksum(tables)
    if found != source.checksum:
        raise StorageError(
            f"the content of {where} is not the paper's: expected checksum {source.checksum}, "
            f"found {found}; delete what was changed and use the paper's files as they are"
        )
    return tables


def _ways(source: Source) -> str:
    root = os.environ.get(VARIABLE)
    unused = f" (now {root}, which has no folder {source.name})" if root else ""
    return (
        f"There are three ways to the data set {source.name!r}: folder= (--data), a folder with "
        f"{source.names[0]}.npy to {source.names[-1]}.npy or with {source.file}; the environment "
        f"variable {VARIABLE}{unused}, a folder with such a folder {source.name} inside; or a "
        f"network, to download {source.url}"
    )
