"""Read a table from a file: CSV (compressed too), Parquet, Feather, Excel, JSON lines."""

from __future__ import annotations

import csv
import glob
import math
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._files import make_temporary_folder, remove_temporary_folder
from shiftune._wording import alike, how_to_install, listed
from shiftune.errors import MissingPackageError, StorageError
from shiftune.problem._large import as_parquet, batches_of, parquet_dataset, parquet_parts
from shiftune.tables._formats import are_whole, has_codes

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


def _json_lines(path: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        # Versions of pandas from 3.1 on do not need convert_dates any more, and warn of it.
        warnings.simplefilter("ignore", DeprecationWarning)
        return pd.read_json(path, lines=True, dtype=False, convert_dates=False, **options)


def _excel(path: Path) -> pd.DataFrame:
    table = pd.read_excel(path, dtype=object)  # 007 stays text
    names = ["" if str(name).startswith("Unnamed: ") else str(name) for name in table]
    first = table.head(ROWS_LOOKED_AT).astype(object)
    refuse_title(path, [names, *first.where(first.notna(), "").astype(str).to_numpy().tolist()])
    return table.infer_objects()


PARQUET, FEATHER, EXCEL = (".parquet", ".pq"), (".feather", ".arrow"), (".xlsx", ".xls", ".ods")
JSON_LINES = (".jsonl", ".ndjson")
READERS: dict[tuple[str, ...], Callable[..., pd.DataFrame]] = {
    PARQUET: pd.read_parquet,
    FEATHER: pd.read_feather,
    EXCEL: _excel,
    JSON_LINES: _json_lines,
}


# Column that is added where every file is a site.
FILE_NAME = "file name"


def names_of(files: Sequence[Path]) -> list[str]:
    """Return the names of files without their endings; those of their folders if they are alike.

    >>> names_of([Path("wards/North.csv.gz"), Path("wards/South.csv")])
    ['North', 'South']
    >>> names_of([Path("North/visits.csv"), Path("South/visits.csv")])
    ['North', 'South']
    """
    names = [path.name.split(".", maxsplit=1)[0] for path in files]
    folders = [path.resolve().parent.name for path in files]
    if len(set(names)) == len(files):
        return names
    if len(set(folders)) == len(files):
        return folders
    raise StorageError(
        f"the files {listed(map(str, files), 4)} cannot be told apart by their names; rename some"
    )


def plain_name(name: object) -> str:
    """Return the name of a column as text, without spaces around it."""
    return str(name).strip()


def read_file(path: Path, needed: str = "a table with a site column") -> pd.DataFrame:
    """Return the table in a file; errors name the file and the remedy.

    The ending decides: .parquet and .feather (pyarrow), .xlsx (openpyxl; the first sheet), .jsonl;
    all others are CSV, compressed with the endings .gz, .bz2, .xz, .zip and .zst. The separator of
    CSV is inferred from the first line; with semicolons, commas are decimal points. Text that is
    neither UTF-8 nor UTF-16 is read as Windows-1252. CSV columns with digits that begin with a
    zero (007) are text. A folder is one of Parquet files. A pattern (data/*.csv) stands for all
    files that match it, in the order of their names.
    """
    return joined(path, {file: read_one(file) for file in files_at(path)}, needed, False)


def joined(
    path: Path, tables: dict[Path, pd.DataFrame], needed: str, name_files: bool
) -> pd.DataFrame:
    """Return the tables of the files at a path as one.

    With `name_files` the column `FILE_NAME` names the file of each row.
    """
    files = list(tables)
    first = tables[files[0]]
    for file, table in tables.items():
        if set(table) != set(first):
            lacking, more = (
                list(a.columns.difference(b.columns)) for a, b in ((first, table), (table, first))
            )
            raise StorageError(
                f"{file} has other columns than {files[0]}: it lacks {lacking or 'none'} and has "
                f"{more or 'none'} in addition; give all files the same columns"
            )
    if name_files:
        for file, name in zip(files, names_of(files), strict=True):
            tables[file] = tables[file].assign(**{FILE_NAME: name})
    table = pd.concat(tables.values(), ignore_index=True) if len(files) > 1 else tables[files[0]]
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


def read_as_written(
    path: Path, columns: Sequence[str], rows: NDArray[np.intp] | None = None
) -> pd.DataFrame:
    """Return some columns of a file, with their values as written there; with `rows`, only these.

    From CSV every value is text: 007 keeps its zeros, empty cells and NA stay as they are. Whole
    numbers from files with types stay whole, also if some are missing or stored as floats. A column
    that the file lacks is missing; `FILE_NAME` is the name of the file.
    """
    files, first = files_at(path), 0
    names = names_of(files) if FILE_NAME in columns else [""] * len(files)
    found = []
    for file, name in zip(files, names, strict=True):
        for part in TableFile(file).parts(columns):
            last = first + len(part)
            if rows is not None:
                part = part.iloc[rows[(rows >= first) & (rows < last)] - first]
            found.append(part.assign(**{FILE_NAME: name}) if name else part)
            first = last
    return pd.concat(found, ignore_index=True)[[*columns]]


def separator_of(path: Path) -> str:
    """Return the separator of a CSV file; a comma for files of other kinds."""
    file = files_at(path)[0]
    return "," if _reader(file) else form_of(file).separator


def files_at(path: Path) -> list[Path]:
    """Return the files that match a path or a pattern such as data/*.csv, at least one."""
    found = [path]
    if not path.exists() and glob.has_magic(str(path)):
        found = sorted(Path(name) for name in glob.glob(str(path)))
        if not found:
            raise StorageError(f"no file matches {path}")
    for file in found:
        _check_file(file)
    return found


class TableFile:
    """A table in a file that is read in parts, as often as needed.

    Parameters
    ----------
    path : Path
    rows : int
        Largest number of rows of a part.
    """

    def __init__(self, path: Path, rows: int = ROWS_AT_ONCE) -> None:
        _check_file(path)
        self.path, self.rows = path, rows

    @cached_property
    def form(self) -> CsvForm | None:
        """Form of a CSV file; None for other kinds."""
        if _reader(self.path):
            return None
        with explained(self.path):
            return form_of(self.path)

    @property
    def decimal(self) -> str:
        """Decimal sign of the file."""
        return "." if self.form is None else self.form.decimal

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        if self.form is not None:
            with explained(self.path):
                return list(map(plain_name, read_csv(self.path, self.form, nrows=0)))
        if self._is(PARQUET) or self._is(FEATHER):
            with _opened(self.path):
                return list(map(plain_name, _arrow_file(self.path).names))
        return list({plain_name(name): None for part in self._parts() for name in part})

    def parts(self, columns: Collection[str]) -> Iterator[pd.DataFrame]:
        """Yield parts of some columns: text from CSV, with empty cells and NA as they are."""
        first = 0
        for part in self._parts(columns):
            found = part.rename(columns=plain_name).reindex(columns=list(columns))
            found.index = pd.RangeIndex(first, first + len(found))
            first += len(found)
            yield found if self.form is not None else _whole_numbers(found)

    def _is(self, endings: tuple[str, ...]) -> bool:
        return (PARQUET[0] if self.path.is_dir() else self.path.suffix.lower()) in endings

    def _parts(self, columns: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        if self.form is not None:
            wanted = [place for place, name in enumerate(self.names) if name in columns]
            # Rows are counted even if the file has none of the columns.
            options = {"usecols": wanted or [0], "dtype": str, "na_filter": False}
            with explained(self.path):
                reader = read_csv(self.path, self.form, chunksize=self.rows, **options)
            yield from read_in_parts(reader, self.path)
        elif self._is(JSON_LINES):
            yield from read_in_parts(_json_lines(self.path, chunksize=self.rows), self.path)
        elif self._is(PARQUET) or self._is(FEATHER):
            with _opened(self.path):
                yield from _arrow_file(self.path).parts(self.rows, columns)
        else:
            whole = _typed(self.path)
            for start in range(0, max(len(whole), 1), self.rows):
                yield whole[start : start + self.rows]


def read_in_parts(reader: Any, path: Path) -> Iterator[pd.DataFrame]:
    """Yield the parts that a reader of pandas has; errors name the file."""
    with reader:
        while True:
            with explained(path):  # not around the yield: it changes how warnings are shown
                part = next(reader, None)
            if part is None:
                return
            yield part


class _ArrowFile(NamedTuple):
    names: list[str]
    batches: Callable[[list[str]], Iterator[Any]]

    def parts(self, rows: int, columns: Collection[str]) -> Iterator[pd.DataFrame]:
        import pyarrow

        whole = {t: pd.Int64Dtype() for t in (pyarrow.int64(), pyarrow.int32(), pyarrow.int16())}
        wanted = [name for name in self.names if plain_name(name) in columns]
        # Rows are counted even if the file has none of the columns.
        for batch in self.batches(wanted or self.names[:1]):
            for start in range(0, len(batch), rows):
                part = batch.slice(start, rows)
                yield part.to_pandas(types_mapper=whole.get, ignore_metadata=True)


def _arrow_file(path: Path) -> _ArrowFile:
    if path.is_dir():
        found = parquet_dataset(path)
        return _ArrowFile(found.schema.names, partial(batches_of, found))
    if path.suffix.lower() in PARQUET:
        from pyarrow.parquet import ParquetFile

        file = ParquetFile(path)
        return _ArrowFile(file.schema_arrow.names, partial(file.iter_batches, ROWS_AT_ONCE, None))
    from pyarrow.ipc import open_file

    table = open_file(str(path))

    def batches(columns: list[str]) -> Iterator[Any]:
        return (table.get_batch(i).select(columns) for i in range(table.num_record_batches))

    return _ArrowFile(table.schema.names, batches)


def _parquet_folder(path: Path) -> pd.DataFrame:
    parts = parquet_parts(path)
    tables = [pd.DataFrame(columns=list(parts.names)), *parts.read(None)]
    return pd.concat(tables[1:] or tables, ignore_index=True)


def _reader(path: Path) -> Callable[..., pd.DataFrame] | None:
    """Return what reads a file with types; None for CSV."""
    if path.is_dir():
        return _parquet_folder
    ending = path.suffix.lower()
    return next((reader for endings, reader in READERS.items() if ending in endings), None)


def read_one(path: Path) -> pd.DataFrame:
    """Return the table in one file; see `read_file`."""
    return _typed(path) if _reader(path) else _csv(path)


def _typed(path: Path) -> pd.DataFrame:
    reader = _reader(path)
    assert reader is not None  # asked before
    with _opened(path):
        table = reader(path)
    named = [name for name in table.index.names if name is not None]
    return table.reset_index(named).reset_index(drop=True).rename(columns=plain_name)


def _csv(path: Path) -> pd.DataFrame:
    with explained(path):
        form = form_of(path)
        check_header(path, form)
        return read_typed(path, form).rename(columns=plain_name)


def _whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    floats = [name for name in table if types.is_float_dtype(table[name])]
    return table.astype({name: "Int64" for name in floats if are_whole(table[name].dropna())})


@contextmanager
def _opened(path: Path) -> Iterator[None]:
    """Turn errors of the packages that read files with types into ours."""
    extra = "excel" if path.suffix.lower() in EXCEL else "parquet"
    try:
        yield
    except ImportError as error:
        package = "pyarrow" if extra == "parquet" else getattr(error, "name", None) or "openpyxl"
        raise MissingPackageError(
            f"reading {path} needs {package}: {how_to_install(extra)}, or give a CSV file"
        ) from error
    except StorageError:
        raise
    except Exception as error:  # errors of packages that may be missing cannot be named
        raise StorageError(
            f"{path} cannot be read as {path.suffix[1:] or extra}: {first_line(error)}"
        ) from error


def _check_file(path: Path) -> None:
    if path.is_dir() and any(path.rglob(f"*{PARQUET[0]}")):
        return
    if path.is_dir():
        endings = Counter(file.suffix for file in path.iterdir() if file.suffix and file.is_file())
        usual = [f"'{path / f'*{ending}'}'" for ending, _ in endings.most_common(1)]
        every = f", or all files: {usual[0]}" if usual else ""
        raise StorageError(f"{path} is a folder without Parquet files; give a file in it{every}")
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


PLAIN_TEXT = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")
BYTES_AT_ONCE = 1 << 24


class LargeFile:
    """A file, or a folder of Parquet files, some of whose rows are read.

    Parameters
    ----------
    path : Path
    rows : int
        Largest number of rows of a part, unless it is of Parquet.
    """

    def __init__(self, path: Path, rows: int = ROWS_AT_ONCE) -> None:
        self.path, self.file = path, TableFile(path, rows)

    @property
    def _parquet(self) -> bool:
        return self.path.is_dir() or self.path.suffix.lower() in PARQUET

    @property
    def row_bound(self) -> float:
        """Upper bound on the number of rows, in much less time than they take to read."""
        if self._parquet:
            found = parquet_dataset(self.path)
            with as_parquet(self.path):
                return float(found.count_rows())
        ending = self.path.suffix.lower()
        if ending in EXCEL:  # sheets are read whole
            return 0.0
        return _lines_of_parts(self.path) if ending in PLAIN_TEXT else math.inf

    def parts(self, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        """Yield parts of these columns, or of all; those of CSV are text, with gaps."""
        for part in self._read(columns):
            named = part.rename(columns=plain_name)
            yield named if columns is None else named.reindex(columns=list(columns))

    def _read(self, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        form = self.file.form
        if self._parquet:
            whole = parquet_parts(self.path)
            wanted = [each for each in whole.names if plain_name(each) in (columns or ())]
            # Rows are counted even if the file has none of the columns.
            yield from whole.read(None if columns is None else wanted or whole.names[:1])
        elif form is None:
            yield from self.file.parts(self.file.names if columns is None else columns)
        else:
            chosen = [
                place for place, name in enumerate(self.file.names) if name in (columns or ())
            ]
            some = {} if columns is None else {"usecols": chosen or [0]}
            with explained(self.path):
                check_header(self.path, form)
                reader = read_csv(self.path, form, chunksize=self.file.rows, dtype=str, **some)
            yield from read_in_parts(reader, self.path)

    def typed(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return rows of some parts as the file would be read if it had no others."""
        if not parts:
            return pd.DataFrame(columns=self.file.names)
        table = pd.concat(parts, ignore_index=True)
        form = self.file.form
        return table if form is None else retyped(table, form.separator)


def _lines_of_parts(path: Path) -> float:
    with path.open("rb") as file:
        counts = [0, 0]
        while block := file.read(BYTES_AT_ONCE):
            counts[0] += block.count(b"\n")
            counts[1] += block.count(b"\r")
    return float(max(counts) + 1)
