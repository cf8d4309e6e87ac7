"""Read a table from a file: CSV (compressed too), Parquet, Feather."""

from __future__ import annotations

import csv
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api import types

from shiftune.errors import MissingPackageError, StorageError
from shiftune.spelling import alike
from shiftune.tables.codes import are_whole, has_codes

ARROW: dict[str, Callable[..., pd.DataFrame]] = {
    ".parquet": pd.read_parquet,
    ".pq": pd.read_parquet,
    ".feather": pd.read_feather,
    ".arrow": pd.read_feather,
}
SPREADSHEETS = (".xlsx", ".xls", ".ods")
SEPARATORS = (",", ";", "\t", "|")
# Rows of a CSV file in which to look for codes (007) that pandas would read as numbers.
ROWS_LOOKED_AT = 1000


def read_file(path: Path, needed: str = "a table with a site column") -> pd.DataFrame:
    """Return the table in a file; errors name the file and the remedy.

    Endings .parquet and .feather are read with pyarrow, all others as CSV, compressed with the
    endings .gz, .bz2, .xz, .zip and .zst. The separator is inferred from the first line; with
    semicolons, commas are decimal points. Text that is not UTF-8 is read as Windows-1252. CSV
    columns with digits that begin with a zero (007) in the first 1000 rows are text.
    """
    _check_file(path)
    ending = path.suffix.lower()
    if ending in SPREADSHEETS:
        raise StorageError(f"{path} is a spreadsheet; save it as CSV or Parquet and give that file")
    table = _arrow(path) if ending in ARROW else _csv(path)
    if table.shape[1] < 2:
        raise StorageError(
            f"{path} has only one column, {str(table.columns[0])!r}; {needed} is needed, its "
            f"columns separated by one of {' '.join(map(repr, SEPARATORS))}"
            if table.shape[1]
            else f"{path} has no columns; {needed} is needed"
        )
    if table.empty:
        raise StorageError(f"{path} has column names but no rows; is it the right file?")
    return table


def read_as_written(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return some columns of a file, with their values as written there.

    From CSV every value is text: 007 keeps its zeros, empty cells and NA stay as they are. Whole
    numbers from Parquet and Feather stay whole, also if some are missing or stored as floats.
    """
    if path.suffix.lower() in ARROW:
        found = _arrow(path, dtype_backend="numpy_nullable")[[*columns]]
        floats = [name for name in columns if types.is_float_dtype(found[name])]
        return found.astype({name: "Int64" for name in floats if are_whole(found[name].dropna())})
    return _csv(path, usecols=lambda name: name in columns, dtype=str, na_filter=False)[[*columns]]


def separator_of(path: Path) -> str:
    """Return the separator of a CSV file; a comma for files of other kinds."""
    if path.suffix.lower() in ARROW:
        return ","
    try:
        return _separator(path, "utf-8-sig")
    except UnicodeDecodeError:
        return _separator(path, "cp1252")


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise StorageError(f"{path} is a folder; give a file in it")
    if not path.exists():
        folder = path.parent
        there = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
        near = alike(path.name, there)
        raise StorageError(
            f"there is no file {path}" + (f"; did you mean {folder / near[0]}?" if near else "")
        )
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror})") from error
    if empty:
        raise StorageError(f"{path} is empty; is it the right file?")


def _arrow(path: Path, **options: Any) -> pd.DataFrame:
    try:
        table = ARROW[path.suffix.lower()](path, **options)
    except ImportError as error:
        raise MissingPackageError(
            f"reading {path} needs pyarrow: pip install 'shiftune[parquet]', or give a CSV file"
        ) from error
    except Exception as error:  # pyarrow's errors cannot be named without it
        raise StorageError(
            f"{path} cannot be read as {path.suffix[1:]}: {_first_line(error)}"
        ) from error
    named = [name for name in table.index.names if name is not None]
    return table.reset_index(named).rename(columns=str)


def _csv(path: Path, **options: Any) -> pd.DataFrame:
    try:
        try:
            return _text(path, "utf-8-sig", **options)
        except UnicodeDecodeError:
            return _text(path, "cp1252", **options)
    except UnicodeDecodeError as error:
        raise StorageError(f"{path} is no table: it does not hold text") from error
    except pd.errors.EmptyDataError as error:
        raise StorageError(f"{path} is empty; is it the right file?") from error
    except pd.errors.ParserWarning as error:
        raise StorageError(
            f"{path} is no table that can be read as CSV: its rows have more fields than its first "
            "line has names"
        ) from error
    except pd.errors.ParserError as error:
        reason = _first_line(error).removeprefix("Error tokenizing data. C error: ")
        raise StorageError(f"{path} is no table that can be read as CSV: {reason}") from error
    except (OSError, EOFError, ValueError, ImportError, zlib.error) as error:
        raise StorageError(f"{path} cannot be read: {_first_line(error)}") from error


def _separator(path: Path, encoding: str) -> str:
    # With a separator that no file has, pandas decompresses and returns the whole first line.
    lines = pd.read_csv(
        path, sep="\x01", header=None, nrows=1, dtype=str, quoting=csv.QUOTE_NONE, encoding=encoding
    )
    header = str(lines.iloc[0, 0])
    if "\0" in header:
        raise StorageError(f"{path} is no table: it does not hold text")
    return max(SEPARATORS, key=header.count)


def _text(path: Path, encoding: str, **options: Any) -> pd.DataFrame:
    separator = _separator(path, encoding)

    def read(**more: Any) -> pd.DataFrame:
        table: pd.DataFrame = pd.read_csv(
            path,
            sep=separator,
            decimal="," if separator == ";" else ".",
            encoding=encoding,
            low_memory=False,
            index_col=False,
            **more,
        )
        return table.rename(columns=str)

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # it would drop values
        if "dtype" not in options:
            beginning = read(dtype=object, na_filter=False, nrows=ROWS_LOOKED_AT)
            options["dtype"] = {name: str for name in beginning if has_codes(beginning[name])}
        return read(**options)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
