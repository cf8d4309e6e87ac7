"""Tables in files: CSV (compressed too), Parquet, Feather, Excel, JSON lines.

`SiteFiles` knows where the rows of all sites are; `TableFile` opens one file and reads it, in whole
or in parts; `read_file` and `read_as_written` read one file, or all that match a pattern. How CSV
is written comes last. Errors name the file and the remedy.
"""

from __future__ import annotations

import codecs
import csv
import glob
import io
import json
import os
import warnings
import zipfile
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import dropwhile, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types
from pandas.io.common import get_handle  # type: ignore[import-not-found]

from shiftune._wording import alike, count, how_to_install, listed
from shiftune.columns._column import as_text
from shiftune.columns._formats import are_whole, first_code
from shiftune.errors import (
    DataError,
    MissingPackageError,
    ProblemError,
    SettingsError,
    StorageError,
)

# Column that is added where every file is a site.
_FILE_NAME = "file name"
# Kinds of files by their endings; all others are CSV.
_KINDS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow"), "feather"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "excel"),
    **dict.fromkeys((".jsonl", ".ndjson"), "json"),
}
_SEPARATORS = (",", ";", "\t", "|")
# Lines among which the names of the columns are looked for.
_ROWS_LOOKED_AT = 20
# Rows that are in memory at a time where a file is read in parts.
ROWS_AT_ONCE = 100_000
# A file may unpack to this many bytes, or to so many times its size: a few kilobytes can hold
# terabytes.
_UNPACKED, _TIMES = 2**30, 100
_UNPACKED_GIB = "SHIFTUNE_MAX_UNPACKED_GIB"
CHANGED = "the table changed while it was read; read it again"

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class SiteFiles:
    """Where the rows of the sites are."""

    data: Path  # file or pattern with the rows of all sites, or of all sources
    # The target's rows come first in the table, so that they keep their numbers. A column that
    # their file lacks, such as the label, is missing there.
    target_file: Path | None = None
    site: str | None = None  # column; without it every file is a site, called like the file
    target: str | None = None  # default: the site of the target's file

    @property
    def site_column(self) -> str:
        """Name of the column of the sites in the table."""
        return _FILE_NAME if self.site is None else self.site

    @property
    def of_target(self) -> Path:
        """File with the rows of the target."""
        return self.data if self.target_file is None else self.target_file

    @cached_property
    def target_name(self) -> str:
        """The site to tune for."""
        if self.target_file is None:
            if self.target is None:
                raise SettingsError("--target is missing: name the site to tune for")
            return self.target
        named = []
        if self.site is not None:
            texts = read_as_written(self.target_file, [self.site])[self.site].dropna().astype(str)
            named = list(texts.str.strip().replace("", None).dropna().unique())
        if len(named) > 1:
            raise DataError(
                f"{self.target_file} has rows of {count(len(named), 'site')}, {listed(named)}, but "
                "is the file of the target alone"
            )
        if self.target is None:
            return named[0] if named else _names_of(files_at(self.target_file))[0]
        if named and named[0] != self.target:
            raise DataError(
                f"the rows of {self.target_file} are of site {named[0]!r}, and the target is "
                f"{self.target!r}; correct one of them, or leave --target out"
            )
        return self.target

    @cached_property
    def _sources(self) -> list[TableFile]:
        return files_at(self.data)

    @cached_property
    def _files(self) -> dict[TableFile, str | None]:
        """All files, that of the target first, with the site of their rows if no column has it."""
        if self.target_file is None and self.site is None and len(self._sources) == 1:
            raise SettingsError(
                f"--site is missing: name the column of {self.data} with the site of each row "
                "(without it every file is a site, and this is one file)"
            )
        files: dict[TableFile, str | None] = {}
        if self.target_file is not None:
            files = dict.fromkeys(files_at(self.target_file), self.target_name)
        if self.site is not None:
            return files | dict.fromkeys(self._sources)
        return files | dict(zip(self._sources, _names_of(self._sources), strict=True))

    @property
    def form(self) -> CsvForm:
        """How the files are written, by the first one of the sources."""
        return self._sources[0].form

    @property
    def names(self) -> list[str]:
        """Names of the columns of the table."""
        added = [_FILE_NAME] if self.site is None else []
        return [*dict.fromkeys([name for file in self._files for name in file.names] + added)]

    def refuse_doubled(self, names: Collection[Hashable]) -> None:
        """Refuse files that have one of these columns twice."""
        for file in self._files:
            file.refuse_doubled(names)

    @property
    def row_bound(self) -> float:
        """Upper bound on the number of rows."""
        return sum(file.row_bound for file in self._files)

    @property
    def notes(self) -> list[str]:
        """What was decided without being asked for."""
        if self.site is not None:
            return []
        shown = listed(dict.fromkeys(map(str, self._files.values())), 6)
        return [f"without --site, every file is a site and has its name: {shown}"]

    def read(
        self,
        columns: Collection[str] | None = None,
        rows: Rows | None = None,
        n_rows: int | None = None,
    ) -> pd.DataFrame:
        """Return the rows of all sites, those of the target's own file first.

        With `columns`, only these; with `rows`, sorted numbers of rows of a table of `n_rows`, only
        these, with the types that a file has if there are no others in it.
        """
        if rows is None:
            tables = {file: file.read(columns) for file in self._files}
        else:
            tables = {
                file: pd.DataFrame(columns=[*(columns or file.names)]) for file in self._files
            }
            for file, parts in groupby(self.parts(columns, rows, n_rows), itemgetter(0)):
                tables[file] = file.typed(part for _, part in parts)
        of_target = {file: tables.pop(file) for file in self._files if file not in self._sources}
        table = _joined(self.data, tables)
        if self.site is None:
            lengths = [len(table) for table in tables.values()]
            table = table.assign(**{_FILE_NAME: np.repeat(_names_of(self._sources), lengths)})
        if len(tables) > 1 and self.site not in (None, *table):
            raise DataError(
                f"the files {self.data} have no column {self.site!r}; if every file is a site, "
                "leave --site out"
            )
        if self.target_file is None:
            return table
        if self.site_column in table:  # otherwise its name is wrong, which is reported later
            sites = table[self.site_column].dropna().astype(str)
            if n := int((sites == self.target_name).sum()):
                raise DataError(
                    f"{self.data} has {count(n, 'row')} of the target {self.target_name!r} too; "
                    "leave them out there, or in --target-file, or give the target another name"
                )
        first = _joined(self.target_file, of_target, "the rows of the target")
        first = first.assign(**{self.site_column: self.target_name})
        return pd.concat([first, table], ignore_index=True)[[*dict.fromkeys([*table, *first])]]

    def as_written(self, columns: Sequence[str], rows: Rows | None = None) -> pd.DataFrame:
        """Return columns of the table of `read` as written; with `rows`, sorted, only these."""
        parts = [part for _, part in self.parts(columns, rows, as_written=True)]
        return pd.concat(parts, ignore_index=True)[[*columns]]

    def parts(
        self,
        columns: Collection[str] | None,
        rows: Rows | None = None,
        n_rows: int | None = None,
        *,
        as_written: bool = False,
    ) -> Iterator[tuple[TableFile, pd.DataFrame]]:
        """Yield parts of the files with the site of every row; without `as_written`, for `read`."""
        first = 0
        for file, site in self._files.items():
            for whole in file.parts(columns, as_written=as_written):
                part, last = whole, first + len(whole)
                if rows is not None:
                    part = whole.iloc[rows[slice(*np.searchsorted(rows, [first, last]))] - first]
                if site is not None:
                    part = part.assign(**{self.site_column: site})
                yield file, part
                first = last
        if n_rows not in (None, first):
            raise StorageError(CHANGED)

    def __str__(self) -> str:
        if self.target_file is None:
            return str(self.data)
        return f"{self.data}, and {self.target_file} for the target"


# ------------------------------------------------------------ the table at a path


def read_file(path: Path, needed: str = "a table with a site column") -> pd.DataFrame:
    """Return the table in a file, in a folder of Parquet files, or in all files of a pattern."""
    return _joined(path, {file: file.read() for file in files_at(path)}, needed)


def _joined(
    path: Path,
    tables: dict[TableFile, pd.DataFrame],
    needed: str = "a table with a site column",
) -> pd.DataFrame:
    """Return the tables of the files at a path as one."""
    first, *others = tables.items()
    for file, table in others:
        if set(table) != set(first[1]):
            lacking = list(first[1].columns.difference(table.columns))
            more = list(table.columns.difference(first[1].columns))
            raise StorageError(
                f"{file.path} has other columns than {first[0].path}: it lacks {lacking or 'none'} "
                f"and has {more or 'none'} in addition; give all files the same columns"
            )
    # those without rows have no types
    parts = [table for table in tables.values() if len(table)] or [first[1]]
    for name in map(str, first[1]):
        if len({types.is_numeric_dtype(table[name]) for table in parts}) > 1:
            # 101 beside an empty cell is 101.0 in a file of numbers alone
            parts = [table.assign(**{name: as_text(table[name])}) for table in parts]
    table = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
    if table.shape[1] == 0:
        raise StorageError(f"{path} has no columns; {needed} is needed")
    if table.shape[1] == 1:
        raise StorageError(
            f"{path} has only one column, {str(table.columns[0])!r}; {needed} is needed, its "
            f"columns separated by one of {' '.join(map(repr, _SEPARATORS))}"
        )
    if table.empty:
        raise StorageError(f"{path} has column names but no rows; is it the right file?")
    return table


def read_as_written(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return some columns of a file, with their values as written there.

    From CSV every value is text: 007 keeps its zeros, empty cells and NA stay as they are. Whole
    numbers from files with types stay whole, also if some are missing or stored as floats. A column
    that the file lacks is missing.
    """
    files = files_at(path)
    for file in files:
        file.refuse_doubled(columns)
    parts = [part for file in files for part in file.parts(columns)]
    return pd.concat(parts or [pd.DataFrame(columns=[*columns])], ignore_index=True)


def files_at(path: Path) -> list[TableFile]:
    """Return the files that match a path or a pattern such as data/*.csv, at least one."""
    paths = [path]
    if not path.exists() and glob.has_magic(str(path)):
        paths = sorted(Path(name) for name in glob.glob(str(path)))
        if not paths:
            raise StorageError(f"no file matches {path}")
    return [TableFile(file) for file in paths]


def _check_file(path: Path) -> None:
    if path.is_dir():
        if any(path.rglob("*.parquet")):
            return
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
    if path.is_file() and not path.stat().st_size:
        raise StorageError(f"{path} is empty; is it the right file?")


def _names_of(files: Sequence[TableFile]) -> list[str]:
    """Return the names of files without their endings; those of their folders if they are alike."""
    names = [file.path.name.split(".", maxsplit=1)[0] for file in files]
    folders = [file.path.resolve().parent.name for file in files]
    if len(set(names)) == len(files):
        return names
    if len(set(folders)) == len(files):
        return folders
    raise StorageError(
        f"the files {listed([str(file.path) for file in files], 4)} cannot be told apart by their "
        "names; rename some"
    )


class TableFile:
    """A table in a file or in a folder of Parquet files; its names have no spaces around them."""

    def __init__(self, path: Path) -> None:
        _check_file(path)
        self.path = path
        self._kind = "parquet" if path.is_dir() else _KINDS.get(path.suffix.lower(), "csv")
        if self._kind in ("csv", "excel") and zipfile.is_zipfile(path):  # pandas unpacks it whole
            with self._explained(), zipfile.ZipFile(path) as archive:
                _check_unpacked(path, sum(file.file_size for file in archive.infolist()))

    @cached_property
    def form(self) -> CsvForm:
        """How the file is written, if it is CSV."""
        if self._kind != "csv":
            return CsvForm()
        with self._explained():
            return _form_of(self.path)

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(map(_plain_name, self._names_in_file))

    @cached_property
    def _names_in_file(self) -> list[Any]:
        if self._kind == "excel":
            return list(self.read())
        if self._kind == "json":  # a column may begin in a later part
            parts = self._in_parts(None, as_written=False)
            return list(dict.fromkeys(name for part in parts for name in part))
        with self._explained():
            if self._kind == "csv":
                return list(_read_csv(self.path, self.form, nrows=0))
            return list(_with_named_index(self._dataset().schema.empty_table()))

    def refuse_doubled(self, names: Iterable[Hashable]) -> None:
        """Refuse a file that has one of these columns twice; pandas would number them."""
        first: dict[str, Any] = {"header": None, "nrows": 1, "na_filter": False}
        with self._explained():
            if self._kind == "csv":
                header = _read_csv(self.path, self.form, dtype=str, **first).iloc[0]
            elif self._kind == "excel":
                header = pd.read_excel(self.path, **first).iloc[0]
            elif self._kind == "json":
                with self.path.open(encoding="utf-8-sig") as file:
                    pairs = json.loads(file.readline(), object_pairs_hook=list)
                header = [name for name, _ in pairs]
            else:
                header = self._dataset().schema.names
        there = Counter(map(_plain_name, header))
        if doubled := [name for name in names if there[str(name)] > 1]:
            raise DataError(
                f"{self.path} has {there[str(doubled[0])]} columns named {doubled[0]!r}; rename "
                "all but the one that is meant"
            )

    @property
    def row_bound(self) -> float:
        """Upper bound on the number of rows, in much less time than they take to read."""
        if self._kind == "csv":
            return self.form.lines
        if self._kind == "excel":  # sheets are read whole
            return 0
        if self._kind == "json":
            return _encoding_and_lines(self.path)[1]
        with self._explained():
            return float(self._dataset().count_rows())

    def read(self, columns: Collection[str] | None = None) -> pd.DataFrame:
        """Return the table, or some columns of it, with types."""
        with self._explained():
            if self._kind == "csv":
                table = _read_csv_with_types(self.path, self.form)
            elif self._kind == "excel":
                table = _read_excel(self.path)
            elif self._kind == "json":
                table = _read_json_lines(self.path)
            else:
                from pyarrow import Table

                stored = self._stored(columns)
                schema = self._dataset().scanner(stored).projected_schema
                table = _with_named_index(Table.from_batches(self._batches(stored), schema))
        table = table.rename(columns=_plain_name)
        return table if columns is None else table[[name for name in table if name in columns]]

    def parts(
        self, columns: Collection[str] | None, *, as_written: bool = True
    ) -> Iterator[pd.DataFrame]:
        """Yield parts of some columns, or of all, with all rows numbered from 0.

        As written, CSV is text with empty cells and NA as they are, and whole numbers are whole
        beside missing ones. Otherwise parts are for `typed`: CSV is text, with gaps. Columns that
        the file lacks are missing.
        """
        first = 0
        if columns is None and self._kind == "json":
            columns = self.names
        for read in self._in_parts(columns, as_written=as_written):
            part = read.rename(columns=_plain_name)
            if columns is not None:
                part = part.reindex(columns=list(columns))
            part = part.set_axis(pd.RangeIndex(first, first + len(part)), axis=0)
            first += len(part)
            if as_written and self._kind != "csv":  # whole numbers with gaps are stored as floats
                floats = (name for name in part if types.is_float_dtype(part[name]))
                whole = [name for name in floats if are_whole(part[name].dropna())]
                part = part.astype(dict.fromkeys(whole, "Int64"))
            yield part

    def typed(self, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
        """Return rows of some parts as the file would be read if it had no others."""
        if self._kind != "csv":
            return pd.concat(parts, ignore_index=True)
        text = io.BytesIO()
        for part in parts:
            part.to_csv(text, index=False, header=not text.tell(), sep=self.form.separator)
        return _read_csv_with_types(text, replace(self.form, encoding="utf-8"))

    def _in_parts(
        self, columns: Collection[str] | None, *, as_written: bool
    ) -> Iterator[pd.DataFrame]:
        """Yield parts with these columns, and perhaps others, as pandas and pyarrow read them."""
        reader: Any
        with self._explained():
            if self._kind == "csv":
                options = {"chunksize": ROWS_AT_ONCE, "dtype": str, "na_filter": not as_written}
                reader = _read_csv(self.path, self.form, usecols=self._stored(columns), **options)
            elif self._kind == "json":
                reader = _read_json_lines(self.path, chunksize=ROWS_AT_ONCE)
            elif self._kind == "excel":  # sheets are read whole
                reader = (table for table in [self.read()])
            else:
                reader = self._pandas_batches(columns, exact=as_written)
        with closing(reader):
            while True:
                with self._explained():  # not around the yield: errors of the caller are others
                    part = next(reader, None)
                if part is None:
                    return
                yield part

    def _stored(self, columns: Collection[str] | None) -> list[Any] | None:
        """Return some columns as the file names them; one at least, so that rows are counted."""
        if columns is None:
            return None
        stored = self._names_in_file
        return [name for name in stored if _plain_name(name) in columns] or stored[:1]

    def _dataset(self) -> Any:
        from pyarrow import dataset

        return dataset.dataset(self.path, format=self._kind, partitioning="hive")

    def _batches(self, stored: list[Any] | None, **options: Any) -> Iterator[Any]:
        """Yield batches of Parquet, as long as the file does not unpack to far more than it has."""
        unpacked = 0
        for batch in self._dataset().to_batches(stored, **options):
            unpacked += batch.nbytes
            _check_unpacked(self.path, unpacked)
            yield batch

    def _pandas_batches(
        self, columns: Collection[str] | None, *, exact: bool
    ) -> Iterator[pd.DataFrame]:
        """Yield batches of Parquet; if `exact`, whole numbers beside missing ones stay whole."""
        import pyarrow

        whole = (pyarrow.int64(), pyarrow.int32(), pyarrow.int16()) if exact else ()
        dtypes = dict.fromkeys(whole, pd.Int64Dtype())
        # One batch at a time: reading ahead would keep many of them in memory.
        options = {"batch_size": ROWS_AT_ONCE, "batch_readahead": 0, "fragment_readahead": 0}
        for batch in self._batches(self._stored(columns), use_threads=False, **options):
            if batch.num_rows:
                yield _with_named_index(batch, types_mapper=dtypes.get)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of the packages that read files into ours, which name the file."""
        path = self.path
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)  # it would drop values
                yield
        except ProblemError:
            raise
        except UnicodeDecodeError as error:
            raise StorageError(f"{path} is not a table: it does not hold text") from error
        except pd.errors.EmptyDataError as error:
            raise StorageError(f"{path} is empty; is it the right file?") from error
        except (pd.errors.ParserWarning, pd.errors.ParserError) as error:
            reason = _first_line(error).removeprefix("Error tokenizing data. C error: ")
            if isinstance(error, pd.errors.ParserWarning):
                reason = "its rows have more fields than its first line has names"
            raise StorageError(f"{path} cannot be read as CSV: {reason}") from error
        except Exception as error:  # errors of packages that may be missing cannot be named
            if isinstance(error, ImportError) and self._kind != "csv":
                excel = self._kind == "excel"
                package = (getattr(error, "name", None) or "openpyxl") if excel else "pyarrow"
                extra = how_to_install("excel" if excel else "parquet")
                raise MissingPackageError(
                    f"reading {path} needs {package}: {extra}, or give a CSV file"
                ) from error
            what = "cannot be read"
            if path.is_dir():
                what = "has a Parquet file that cannot be read"
            elif self._kind != "csv":
                what = f"cannot be read as {path.suffix[1:]}"
            raise StorageError(f"{path} {what}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _plain_name(name: object) -> str:
    """Return the name of a column as text, without spaces around it."""
    return str(name).strip()


def _with_named_index(table: Any, **options: Any) -> pd.DataFrame:
    """Return a table of pyarrow with its index, if it has a name, as the column it is stored as."""
    frame: pd.DataFrame = table.to_pandas(**options)
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(named).reset_index(drop=True)


def _read_json_lines(path: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        # Versions of pandas from 3.1 on do not need convert_dates any more, and warn of it.
        warnings.simplefilter("ignore", DeprecationWarning)
        options |= {"dtype": False, "convert_dates": False, "precise_float": True}
        options |= {"encoding": "utf-8-sig"}
        return pd.read_json(path, lines=True, **options)


def _read_excel(path: Path) -> pd.DataFrame:
    table = pd.read_excel(path, dtype=object)  # 007 stays text
    names = ["" if str(name).startswith("Unnamed: ") else str(name) for name in table]
    first = table.head(_ROWS_LOOKED_AT).astype(object)
    _refuse_title(path, [names, *first.where(first.notna(), "").astype(str).to_numpy().tolist()])
    return table.infer_objects()


# ------------------------------------------------------------ CSV


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How a CSV file is written."""

    encoding: str = "utf-8"
    separator: str = ","
    lines: int = 0

    @property
    def decimal(self) -> str:
        """Decimal sign: a comma where semicolons separate."""
        return "," if self.separator == ";" else "."


def _form_of(path: Path) -> CsvForm:
    """Return the form of a file, by its lines from the first that is not blank."""
    encoding, n_lines = _encoding_and_lines(path)
    with get_handle(path, "r", encoding=encoding, compression="infer") as opened:
        numbered = dropwhile(lambda line: not line[1].strip(), enumerate(opened.handle))
        first = list(islice(numbered, _ROWS_LOOKED_AT))
    if not first:
        raise StorageError(f"{path} is empty; is it the right file?")
    lines = [line.rstrip("\r\n") for _, line in first]
    if "\0" in lines[0]:
        raise StorageError(f"{path} is not a table: it does not hold text")
    separator = max(_SEPARATORS, key=lines[0].count)
    likely = max(_SEPARATORS, key=lambda sign: max(line.count(sign) for line in lines))
    if 0 < lines[0].count(separator) == max(line.count(separator) for line in lines):
        likely = separator  # there may be as many decimal commas
    _refuse_title(path, [_cells(line, likely) for line in lines], first[0][0])
    return CsvForm(encoding, separator, n_lines)


def _encoding_and_lines(path: Path) -> tuple[str, int]:
    """Return how a text is encoded, and an upper bound on the number of its lines.

    It is UTF-8 or UTF-16 if all of it is, Windows-1252 otherwise; one that is both is refused.
    """
    encoding, n_lines, unpacked = "utf-8-sig", 1, 0
    with get_handle(path, "rb", compression="infer", is_text=False) as opened:
        decoder: Any = None
        more = True
        while more:
            more = bool(block := opened.handle.read(2**20))
            unpacked += len(block)
            _check_unpacked(path, unpacked)
            if decoder is None:
                if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    encoding = "utf-16"
                decoder = codecs.getincrementaldecoder(encoding)()
            n_lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
            try:
                decoder.decode(block, final=not more)  # which may end within a character
            except UnicodeDecodeError:
                encoding = "cp1252"
                decoder = codecs.getincrementaldecoder("latin-1")()
    if encoding == "cp1252":
        _refuse_two_encodings(path)
    return encoding, n_lines


def _refuse_two_encodings(path: Path) -> None:
    """Refuse a text of which some lines are UTF-8, and others are Windows-1252."""
    utf_8 = other = 0  # first lines that are, and are not
    with get_handle(path, "rb", compression="infer", is_text=False) as opened:
        for n, line in enumerate(opened.handle, start=1):
            if not line.isascii():
                try:
                    line.decode("utf-8-sig")
                    utf_8 = utf_8 or n
                except UnicodeDecodeError:
                    line.decode("cp1252")
                    other = other or n
    if utf_8:
        raise StorageError(
            f"{path} has two encodings: line {utf_8} is UTF-8, but line {other} is not; save all "
            "of it as UTF-8"
        )


def _check_unpacked(path: Path, unpacked: int) -> None:
    """Refuse files that hold far more than their size shows; they would fill the memory."""
    if unpacked <= _UNPACKED:
        return
    limit = os.environ.get(_UNPACKED_GIB, "")
    most = float(pd.to_numeric(limit, errors="coerce")) if limit else 0.0
    if limit and not most > 0:
        raise SettingsError(f"{_UNPACKED_GIB} must be a number above 0, got {limit!r}")
    files = [path, *(path.rglob("*") if path.is_dir() else ())]
    if unpacked > max(_TIMES * sum(file.stat().st_size for file in files), most * 2**30):
        raise StorageError(
            f"{path} unpacks to more than {_TIMES} times its size, and more than "
            f"{unpacked / 2**30:.1f} GiB; if it is to be trusted, set the environment variable "
            f"{_UNPACKED_GIB} to the GiB that it may have"
        )


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a cell of more characters than it reads
        return line.split(separator)


def _refuse_title(path: Path, rows: Sequence[Sequence[str]], above: int = 0) -> None:
    """Refuse a file with fewer fields in its first row, after blank ones, than in those below."""
    filled = [sum(field.strip() != "" for field in row) for row in rows]
    most = max(filled)
    if most < 2 or filled[0] > most / 2 or filled.count(most) < 3:
        return
    names = above + filled.index(most) + 1
    title = " ".join(field for field in rows[0] if field.strip())
    raise StorageError(
        f"{path} begins with {repr(title) if title else 'an empty line'}, and line {names} "
        "looks like the names of the columns; remove the lines above it"
    )


def _read_csv(source: Path | io.BytesIO, form: CsvForm, **options: Any) -> Any:
    """Return the table in a file, or a reader of its parts where options have a `chunksize`."""
    if isinstance(source, io.BytesIO):
        source.seek(0)
    return pd.read_csv(
        source,
        sep=form.separator,
        decimal=form.decimal,
        encoding=form.encoding,
        low_memory=False,
        index_col=False,
        skipinitialspace=True,
        **options,
    )


def _read_csv_with_types(source: Path | io.BytesIO, form: CsvForm) -> pd.DataFrame:
    """Return a table with types by pandas, except that columns with codes (007) are text."""
    table: pd.DataFrame = _read_csv(source, form)
    # Digits with leading zeros would have become such values.
    whole = [
        name
        for name, column in table.items()
        if column.dtype.kind in "iu" or (column.dtype.kind == "f" and are_whole(column.dropna()))
    ]
    codes: set[Any] = set()
    if whole:
        for part in _read_csv(source, form, usecols=whole, dtype=str, chunksize=ROWS_AT_ONCE):
            codes |= {name for name in part if first_code(part[name].unique())}
    return _read_csv(source, form, dtype=dict.fromkeys(codes, str)) if codes else table
