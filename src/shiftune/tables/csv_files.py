"""CSV files: encoding, separator and decimal sign; errors that name the file."""

from __future__ import annotations

import csv
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from shiftune._files import make_temporary_folder, remove_temporary_folder
from shiftune.errors import StorageError
from shiftune.tables.codes import are_whole, has_codes

SEPARATORS = (",", ";", "\t", "|")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# Lines among which the names of the columns are looked for.
ROWS_LOOKED_AT = 20
# Rows that are in memory at a time where a file is read in parts.
ROWS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How a CSV file is written."""

    encoding: str
    separator: str

    @property
    def decimal(self) -> str:
        """Decimal sign: a comma where semicolons separate."""
        return "," if self.separator == ";" else "."


def form_of(path: Path) -> CsvForm:
    """Return the form of a file: UTF-8 or UTF-16 if all of it is, Windows-1252 otherwise."""
    encoding = _encoding(path)
    # With a separator that no file has, pandas decompresses and returns the whole first line.
    header = str(_lines(path, encoding, nrows=1).iloc[0, 0])
    if "\0" in header:
        raise StorageError(f"{path} is no table: it does not hold text")
    return CsvForm(encoding, max(SEPARATORS, key=header.count))


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        if file.read(2) in UTF_16:
            return "utf-16"
    try:
        with _lines(path, "utf-8-sig", chunksize=ROWS_AT_ONCE) as parts:
            for _ in parts:
                pass
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _lines(path: Path, encoding: str, **options: Any) -> Any:
    return pd.read_csv(
        path,
        sep="\x01",
        header=None,
        dtype=str,
        quoting=csv.QUOTE_NONE,
        encoding=encoding,
        **options,
    )


def check_header(path: Path, form: CsvForm) -> None:
    """Refuse a file whose first line is a title, and name the line with the columns' names."""
    options: dict[str, Any] = {"nrows": ROWS_LOOKED_AT, "na_filter": False}
    found = _lines(path, form.encoding, skip_blank_lines=False, **options)
    lines = list(map(str, found[0]))
    separator = max(SEPARATORS, key=lambda sign: max(line.count(sign) for line in lines))
    refuse_title(path, [_cells(line, separator) for line in lines])


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a cell of more characters than it reads
        return line.split(separator)


def refuse_title(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Refuse a file with fewer fields in its first row than in those below, and name the first."""
    given = [sum(field.strip() != "" for field in row) for row in rows]
    most = max(given)
    if most < 2 or given[0] > most / 2 or given.count(most) < 3:
        return
    names = given.index(most)
    title = " ".join(field for field in rows[0] if field.strip())
    raise StorageError(
        f"{path} begins with {repr(title) if title else 'an empty line'}, and line {names + 1} "
        "looks like the names of the columns; remove the lines above it"
    )


def read_csv(path: Path, form: CsvForm, **options: Any) -> Any:
    """Return the table in a file, or a reader of its parts where options have a `chunksize`."""
    return pd.read_csv(
        path,
        sep=form.separator,
        decimal=form.decimal,
        encoding=form.encoding,
        low_memory=False,
        index_col=False,
        skipinitialspace=True,
        **options,
    )


def read_typed(path: Path, form: CsvForm) -> pd.DataFrame:
    """Return a table with types by pandas, except that columns with codes (007) are text."""
    table: pd.DataFrame = read_csv(path, form)
    whole = [name for name in table if _may_be_codes(table[name])]
    found: set[Any] = set()
    if whole:
        with read_csv(path, form, usecols=whole, dtype=str, chunksize=ROWS_AT_ONCE) as parts:
            for part in parts:
                found |= {name for name in part if name not in found and has_codes(part[name])}
    return read_csv(path, form, dtype=dict.fromkeys(found, str)) if found else table


def retyped(texts: pd.DataFrame, separator: str = ",") -> pd.DataFrame:
    """Return a table of texts with the types that a CSV file of these rows would have.

    >>> retyped(pd.DataFrame({"ward": ["007", "012"], "age": ["41", None]})).values.tolist()
    [['007', 41.0], ['012', nan]]
    """
    folder = make_temporary_folder()
    try:
        path = Path(folder, "rows.csv")
        texts.to_csv(path, index=False, sep=separator)
        return read_typed(path, CsvForm("utf-8", separator))
    finally:
        remove_temporary_folder(folder)


def _may_be_codes(column: pd.Series) -> bool:
    """Whether digits with leading zeros would have become these values."""
    if column.dtype.kind in "iu":
        return True
    return column.dtype.kind == "f" and column.count() > 0 and are_whole(column.dropna())


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn pandas' errors into a StorageError that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # it would drop values
            yield
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
        reason = first_line(error).removeprefix("Error tokenizing data. C error: ")
        raise StorageError(f"{path} is no table that can be read as CSV: {reason}") from error
    except StorageError:
        raise
    except (OSError, EOFError, ValueError, ImportError, zlib.error) as error:
        raise StorageError(f"{path} cannot be read: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
