"""Read a table from a file: CSV (compressed too), Parquet, Feather."""

from __future__ import annotations

import csv
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.api import types

from shiftune.errors import ProblemError
from shiftune.spelling import alike
from shiftune.tables.codes import has_codes
from shiftune.tables.whole_numbers import are_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

ARROW: dict[str, Callable[..., pd.DataFrame]] = {
    ".parquet": pd.read_parquet,
    ".pq": pd.read_parquet,
    ".feather": pd.read_feather,
    ".arrow": pd.read_feather,
}
SPREADSHEETS = (".xlsx", ".xls", ".ods")
SEPARATORS = (",", ";", "\t", "|")
# Of a CSV file, in search of columns that pandas would take for numbers, though they are codes.
ROWS_LOOKED_AT = 1000


def read_file(path: Path) -> pd.DataFrame:
    """Return the table in a file; every mistake is an error that says what to do.

    Endings .parquet and .feather are read with pyarrow; everything else as CSV, compressed if the
    ending says so (.gz, .bz2, .xz, .zip, .zst). The separator is told from the first line; with
    semicolons, commas are read as decimal points. Text that is not UTF-8 is read as Windows-1252.
    Columns of CSV in whose first 1000 rows digits begin with a zero (007) are text.
    """
    _check_file(path)
    ending = path.suffix.lower()
    if ending in SPREADSHEETS:
        raise ProblemError(
            f"{path} is a spreadsheet; save it as CSV (or Parquet) and give that file"
        )
    table = _arrow(path) if ending in ARROW else _csv(path)
    if table.shape[1] < 2:
        raise ProblemError(
            f"{path} has only one column, {str(table.columns[0])!r}; a table with a site column "
            f"is needed, its columns separated by one of {' '.join(map(repr, SEPARATORS))}"
            if table.shape[1]
            else f"{path} has no columns"
        )
    if table.empty:
        raise ProblemError(f"{path} has column names but no rows")
    return table


def read_as_written(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return some columns of a file that `read_file` reads, their values as they stand there.

    Of CSV all is text: 007 keeps its zeros, and what is empty, or says NA, stays so. Whole numbers
    of Parquet and Feather are whole, also where some are missing or all are kept as floats.
    """
    if path.suffix.lower() in ARROW:
        found = _arrow(path, dtype_backend="numpy_nullable")[[*columns]]
        floats = [name for name in columns if types.is_float_dtype(found[name])]
        return found.astype({name: "Int64" for name in floats if are_whole(found[name].dropna())})
    return _csv(path, usecols=lambda name: name in columns, dtype=str, na_filter=False)[[*columns]]


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise ProblemError(f"{path} is a folder; give a file")
    if not path.exists():
        folder = path.parent
        there = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
        near = alike(path.name, there)
        raise ProblemError(
            f"there is no file {path}" + (f"; did you mean {folder / near[0]}?" if near else "")
        )
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise ProblemError(f"{path} cannot be read ({error.strerror})") from error
    if empty:
        raise ProblemError(f"{path} is empty")


def _arrow(path: Path, **options: Any) -> pd.DataFrame:
    try:
        table = ARROW[path.suffix.lower()](path, **options)
    except ImportError as error:
        raise ProblemError(
            f"reading {path} needs pyarrow: pip install 'shiftune[parquet]', or give a CSV file"
        ) from error
    except Exception as error:  # pyarrow's errors cannot be named without it
        raise ProblemError(
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
        raise ProblemError(f"{path} is no table: it does not hold text") from error
    except pd.errors.EmptyDataError as error:
        raise ProblemError(f"{path} is empty") from error
    except pd.errors.ParserWarning as error:
        raise ProblemError(
            f"{path} is no table that can be read as CSV: its rows have more fields than its first "
            "line has names"
        ) from error
    except pd.errors.ParserError as error:
        said = _first_line(error).removeprefix("Error tokenizing data. C error: ")
        raise ProblemError(f"{path} is no table that can be read as CSV: {said}") from error
    except (OSError, EOFError, ValueError, ImportError, zlib.error) as error:
        raise ProblemError(f"{path} cannot be read: {_first_line(error)}") from error


def _text(path: Path, encoding: str, **options: Any) -> pd.DataFrame:
    # A separator that no file has: the first line comes as a whole, decompressed by pandas.
    lines = pd.read_csv(
        path, sep="\x01", header=None, nrows=1, dtype=str, quoting=csv.QUOTE_NONE, encoding=encoding
    )
    header = str(lines.iloc[0, 0])
    if "\0" in header:
        raise ProblemError(f"{path} is no table: it does not hold text")
    separator = max(SEPARATORS, key=header.count)

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
        warnings.simplefilter("error", pd.errors.ParserWarning)  # values would be lost
        if "dtype" not in options:
            beginning = read(dtype=object, na_filter=False, nrows=ROWS_LOOKED_AT)
            options["dtype"] = {name: str for name in beginning if has_codes(beginning[name])}
        return read(**options)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
