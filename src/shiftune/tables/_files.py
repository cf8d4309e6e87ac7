"""Tables in files: CSV (compressed too), Parquet, Feather, Excel, JSON lines.

`SiteFiles` knows where the rows of all sites are; `TableFile` reads one file in parts; `read_file`
and `read_as_written` read one file, or all that match a pattern. How CSV is written comes last.
Errors name the file and the remedy.
"""

from __future__ import annotations

import csv
import glob
import math
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._files import make_temporary_folder, remove_temporary_folder
from shiftune._wording import alike, count, listed
from shiftune.columns._column import as_text
from shiftune.columns._formats import are_whole, first_code
from shiftune.errors import DataError, SettingsError, StorageError
from shiftune.problem._large import (
    EXCEL,
    FEATHER,
    LabelRules,
    Parts,
    SampledParts,
    arrow_dataset,
    arrow_parts,
    draw,
    typed_file,
    with_named_index,
)
from shiftune.problem._reading import site_names

# Column that is added where every file is a site.
_FILE_NAME = "file name"
_ARROW = (".parquet", ".pq", *FEATHER)
_JSON_LINES = (".jsonl", ".ndjson")
_PLAIN_TEXT = (".csv", ".tsv", ".txt", *_JSON_LINES)
_SEPARATORS = (",", ";", "\t", "|")
# Lines among which the names of the columns are looked for.
_ROWS_LOOKED_AT = 20
# Rows that are in memory at a time where a file is read in parts.
ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class SiteFiles:
    """Where the rows of the sites are."""

    data: Path
    """File or pattern with the rows of all sites, or of all sources."""
    target_file: Path | None = None
    """File with the rows of the target, which come first in the table: they keep their numbers. A
    column that it lacks, such as the label, is missing at the target."""
    site: str | None = None
    """Column with the site of each row, which the target's file need not have. Without it every
    file is a site, called like the file."""
    target: str | None = None
    """Site to tune for. Default: the site of the target's file."""

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
            return named[0] if named else _names_of([self.target_file])[0]
        if named and named[0] != self.target:
            raise DataError(
                f"the rows of {self.target_file} are of site {named[0]!r}, and the target is "
                f"{self.target!r}; correct one of them, or leave --target out"
            )
        return self.target

    @property
    def decimal(self) -> str:
        """Decimal sign of the files."""
        return TableFile(files_at(self.data)[0]).decimal

    @property
    def notes(self) -> list[str]:
        """What was decided without being asked for."""
        if self.site is not None:
            return []
        own = [] if self.target_file is None else [self.target_name]
        shown = listed([*own, *_names_of(files_at(self.data))], 6)
        return [f"without --site, every file is a site and has its name: {shown}"]

    def read(self) -> pd.DataFrame:
        """Return the rows of all sites, those of the target's own file first."""
        return self._joined({file: read_one(file) for file in self._files})

    def sample(
        self,
        most_rows: int,
        labels: LabelRules | None,
        group: str | None = None,
        random_state: int = 0,
    ) -> SampledParts | None:
        """Draw rows of every site, if there are more than wanted; return None otherwise."""
        files = {path: TableFile(path) for path in self._files}
        if sum(file.row_bound for file in files.values()) <= most_rows:
            return None
        origin: list[Path] = []

        def read(columns: Sequence[Hashable] | None) -> Iterator[pd.DataFrame]:
            origin.clear()
            for path, file in files.items():
                for part in file.untyped(None if columns is None else [*map(str, columns)]):
                    origin.append(path)
                    yield self._with_site(part, path)

        names = dict.fromkeys(name for file in files.values() for name in file.names)
        if self.site is None:
            names[_FILE_NAME] = None
        options: dict[str, Any] = {"labels": labels, "group": group, "random_state": random_state}
        drawn = draw(Parts([*names], read), self.site_column, most_rows, **options)
        if drawn is None:
            return None
        of_file: dict[Path, list[pd.DataFrame]] = {path: [] for path in files}
        for path, table in zip(origin, drawn.tables, strict=True):
            of_file[path].append(table)
        tables = {path: files[path].typed(own) for path, own in of_file.items()}
        return drawn._replace(tables=[self._joined(tables).set_axis(drawn.rows, axis=0)])

    def as_written(
        self, columns: Sequence[str], rows: NDArray[np.intp] | None = None
    ) -> pd.DataFrame:
        """Return some columns of the table that `read` returns, with their values as written.

        With `rows`, sorted numbers of rows, only these are returned.
        """
        if self.target_file is None:
            return read_as_written(self.data, columns, rows)
        own = read_as_written(self.target_file, columns)
        if self.site_column in own:
            own = own.assign(**{self.site_column: self.target_name})
        if rows is None:
            others = read_as_written(self.data, columns)
        else:
            before = rows < len(own)
            others = read_as_written(self.data, columns, rows[~before] - len(own))
            own = own.iloc[rows[before]]
        return pd.concat([own, others], ignore_index=True)

    @property
    def _files(self) -> list[Path]:
        """All files, that of the target first."""
        files = files_at(self.data)
        if self.target_file is not None:
            return [*files_at(self.target_file), *files]
        if self.site is None and len(files) == 1:
            raise SettingsError(
                f"--site is missing: name the column of {self.data} with the site of each row "
                "(without it every file is a site, and this is one file)"
            )
        return files

    def _with_site(self, part: pd.DataFrame, path: Path) -> pd.DataFrame:
        """Return rows of a file with their site, without spaces around it."""
        if self.target_file is not None and path in files_at(self.target_file):
            return part.assign(**{self.site_column: self.target_name})
        if self.site is None:
            files = files_at(self.data)
            return part.assign(**{_FILE_NAME: _names_of(files)[files.index(path)]})
        if self.site not in part or not types.is_string_dtype(part[self.site]):
            return part
        texts = part[self.site].str.strip()
        return part.assign(**{self.site: texts.mask(texts == "")})

    def _joined(self, tables: Mapping[Path, pd.DataFrame]) -> pd.DataFrame:
        files = files_at(self.data)
        sources = {file: tables[file] for file in files}
        table = _joined(self.data, sources, name_files=self.site is None)
        if len(files) > 1 and self.site not in (None, *table):
            raise DataError(
                f"the files {self.data} have no column {self.site!r}; if every file is a site, "
                "leave --site out"
            )
        if self.target_file is None:
            return table
        if self.site_column in table:  # otherwise its name is wrong, which is reported later
            sites = site_names(table[self.site_column].dropna(), f"the column {self.site_column!r}")
            if n := int((sites == self.target_name).sum()):
                raise DataError(
                    f"{self.data} has {count(n, 'row')} of the target {self.target_name!r} too; "
                    "leave them out there, or in --target-file, or give the target another name"
                )
        mine = {file: tables[file] for file in files_at(self.target_file)}
        own = _joined(self.target_file, mine, "the rows of the target")
        own = own.assign(**{self.site_column: self.target_name})
        names = [*table, *(name for name in own if name not in table)]
        return pd.concat([own, table], ignore_index=True)[names]

    def __str__(self) -> str:
        if self.target_file is None:
            return str(self.data)
        return f"{self.data}, and {self.target_file} for the target"


# ------------------------------------------------------------ the table at a path


def read_file(path: Path, needed: str = "a table with a site column") -> pd.DataFrame:
    """Return the table in a file.

    The ending decides: .parquet and .feather (pyarrow), .xlsx (openpyxl; the first sheet), .jsonl;
    all others are CSV, compressed with the endings .gz, .bz2, .xz, .zip and .zst. The separator of
    CSV is inferred from the first line; with semicolons, commas are decimal points. Text that is
    neither UTF-8 nor UTF-16 is read as Windows-1252. CSV columns with digits that begin with a
    zero (007) are text. A folder is one of Parquet files. A pattern (data/*.csv) stands for all
    files that match it, in the order of their names.
    """
    return _joined(path, {file: read_one(file) for file in files_at(path)}, needed)


def _joined(
    path: Path,
    tables: dict[Path, pd.DataFrame],
    needed: str = "a table with a site column",
    *,
    name_files: bool = False,
) -> pd.DataFrame:
    """Return the tables of the files at a path as one; `_FILE_NAME` names the file of each row."""
    files = list(tables)
    first = tables[files[0]]
    for file, table in tables.items():
        if set(table) != set(first):
            lacking = list(first.columns.difference(table.columns))
            more = list(table.columns.difference(first.columns))
            raise StorageError(
                f"{file} has other columns than {files[0]}: it lacks {lacking or 'none'} and has "
                f"{more or 'none'} in addition; give all files the same columns"
            )
    if name_files:
        for file, name in zip(files, _names_of(files), strict=True):
            tables[file] = tables[file].assign(**{_FILE_NAME: name})
    for name in map(str, first):
        kinds = {types.is_numeric_dtype(table[name]) for table in tables.values()}
        if len(kinds) > 1:  # 101 beside an empty cell is 101.0 in a file of numbers alone
            for file, table in tables.items():
                tables[file] = table.assign(**{name: as_text(table[name])})
    table = pd.concat(tables.values(), ignore_index=True) if len(files) > 1 else tables[files[0]]
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


def read_as_written(
    path: Path, columns: Sequence[str], rows: NDArray[np.intp] | None = None
) -> pd.DataFrame:
    """Return some columns of a file, with their values as written there; with `rows`, only these.

    From CSV every value is text: 007 keeps its zeros, empty cells and NA stay as they are. Whole
    numbers from files with types stay whole, also if some are missing or stored as floats. A column
    that the file lacks is missing; `_FILE_NAME` is the name of the file.
    """
    files, first = files_at(path), 0
    names = _names_of(files) if _FILE_NAME in columns else [""] * len(files)
    found = []
    for file, name in zip(files, names, strict=True):
        for part in TableFile(file).parts(columns):
            last = first + len(part)
            if rows is not None:
                part = part.iloc[rows[(rows >= first) & (rows < last)] - first]
            found.append(part.assign(**{_FILE_NAME: name}) if name else part)
            first = last
    return pd.concat(found, ignore_index=True)[[*columns]]


def separator_of(path: Path) -> str:
    """Return the separator of a CSV file; a comma for files of other kinds."""
    form = TableFile(files_at(path)[0]).form
    return "," if form is None else form.separator


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
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror})") from error
    if empty:
        raise StorageError(f"{path} is empty; is it the right file?")


def _names_of(files: Sequence[Path]) -> list[str]:
    """Return the names of files without their endings; those of their folders if they are alike."""
    names = [path.name.split(".", maxsplit=1)[0] for path in files]
    folders = [path.resolve().parent.name for path in files]
    if len(set(names)) == len(files):
        return names
    if len(set(folders)) == len(files):
        return folders
    raise StorageError(
        f"the files {listed(map(str, files), 4)} cannot be told apart by their names; rename some"
    )


def _plain_name(name: object) -> str:
    """Return the name of a column as text, without spaces around it."""
    return str(name).strip()


def read_one(path: Path) -> pd.DataFrame:
    """Return the table in one file; see `read_file`."""
    form = TableFile(path).form
    if form is None:
        return _read_with_types(path)
    with _explained(path):
        _check_header(path, form)
        return _read_csv_with_types(path, form).rename(columns=_plain_name)


def _ending(path: Path) -> str:
    return ".parquet" if path.is_dir() else path.suffix.lower()


def _read_with_types(path: Path) -> pd.DataFrame:
    """Return the table in a file of another kind than CSV."""
    with typed_file(path):
        if _ending(path) in _ARROW:
            table = with_named_index(arrow_dataset(path).to_table().to_pandas())
        elif _ending(path) in EXCEL:
            table = _read_excel(path)
        else:
            table = _read_json_lines(path)
    return table.rename(columns=_plain_name)


def _read_json_lines(path: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        # Versions of pandas from 3.1 on do not need convert_dates any more, and warn of it.
        warnings.simplefilter("ignore", DeprecationWarning)
        return pd.read_json(path, lines=True, dtype=False, convert_dates=False, **options)


def _read_excel(path: Path) -> pd.DataFrame:
    table = pd.read_excel(path, dtype=object)  # 007 stays text
    names = ["" if str(name).startswith("Unnamed: ") else str(name) for name in table]
    first = table.head(_ROWS_LOOKED_AT).astype(object)
    _refuse_title(path, [names, *first.where(first.notna(), "").astype(str).to_numpy().tolist()])
    return table.infer_objects()


class TableFile:
    """A table in a file, or in a folder of Parquet files, read in parts, as often as needed.

    `rows` is the largest number of rows of a part.
    """

    def __init__(self, path: Path, rows: int = ROWS_AT_ONCE) -> None:
        _check_file(path)
        self.path, self.rows, self._ending = path, rows, _ending(path)

    @cached_property
    def form(self) -> _CsvForm | None:
        """Form of a CSV file; None for other kinds."""
        if self._ending in (*_ARROW, *EXCEL, *_JSON_LINES):
            return None
        with _explained(self.path):
            return _form_of(self.path)

    @property
    def decimal(self) -> str:
        """Decimal sign of the file."""
        return "." if self.form is None else self.form.decimal

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        if self._ending in _JSON_LINES:
            parts = self._read_parts(_read_json_lines(self.path, chunksize=self.rows))
            return list({_plain_name(name): None for part in parts for name in part})
        return list(map(_plain_name, self._names_in_file))

    @cached_property
    def _names_in_file(self) -> list[Any]:
        if self.form is not None:
            with _explained(self.path):
                return list(_read_csv(self.path, self.form, nrows=0))
        if self._ending in _ARROW:
            return list(with_named_index(arrow_dataset(self.path).schema.empty_table().to_pandas()))
        return list(_read_with_types(self.path))

    @property
    def row_bound(self) -> float:
        """Upper bound on the number of rows, in much less time than they take to read."""
        if self._ending in _ARROW:
            with typed_file(self.path):
                return float(arrow_dataset(self.path).count_rows())
        if self._ending in EXCEL:  # sheets are read whole
            return 0.0
        if self._ending not in _PLAIN_TEXT:
            return math.inf
        newlines = returns = 0
        with self.path.open("rb") as file:
            while block := file.read(1 << 24):
                newlines += block.count(b"\n")
                returns += block.count(b"\r")
        return float(max(newlines, returns) + 1)

    def parts(self, columns: Collection[str]) -> Iterator[pd.DataFrame]:
        """Yield parts of some columns: text from CSV, with empty cells and NA as they are."""
        first = 0
        for part in self._parts(columns, as_written=True):
            found = part.set_axis(pd.RangeIndex(first, first + len(part)), axis=0)
            first += len(found)
            if self.form is None:  # pandas stores whole numbers with gaps as floats
                floats = (name for name in found if types.is_float_dtype(found[name]))
                whole = [name for name in floats if are_whole(found[name].dropna())]
                found = found.astype(dict.fromkeys(whole, "Int64"))
            yield found

    def untyped(self, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        """Yield parts of these columns, or of all, for `typed`; from CSV as text, with gaps."""
        if self.form is not None:
            with _explained(self.path):
                _check_header(self.path, self.form)
        yield from self._parts(columns, as_written=False)

    def typed(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return rows of some `untyped` parts as the file would be read if it had no others."""
        if not parts:
            return pd.DataFrame(columns=self.names)
        table = pd.concat(parts, ignore_index=True)
        if self.form is None:
            return table
        folder = make_temporary_folder()
        try:
            path, separator = Path(folder, "rows.csv"), self.form.separator
            table.to_csv(path, index=False, sep=separator)
            return _read_csv_with_types(path, _CsvForm("utf-8", separator))
        finally:
            remove_temporary_folder(folder)

    def _parts(
        self, columns: Collection[str] | None, *, as_written: bool
    ) -> Iterator[pd.DataFrame]:
        """Yield parts of some columns, or of all; those that the file lacks are missing."""
        places = None
        if columns is not None and self._ending not in (*_JSON_LINES, *EXCEL):
            places = [place for place, name in enumerate(self.names) if name in columns]
            places = places or [0]  # rows are counted even if the file has none of the columns
        if self.form is not None:
            options = {"chunksize": self.rows, "dtype": str, "na_filter": not as_written}
            with _explained(self.path):
                reader = _read_csv(self.path, self.form, usecols=places, **options)
            parts = self._read_parts(reader)
        elif self._ending in _ARROW:
            chosen = None if places is None else [self._names_in_file[i] for i in places]
            parts = arrow_parts(self.path, chosen, self.rows, exact=as_written)
        elif self._ending in _JSON_LINES:
            columns = self.names if columns is None else columns  # one may begin in a later part
            parts = self._read_parts(_read_json_lines(self.path, chunksize=self.rows))
        else:
            table = _read_with_types(self.path)
            starts = range(0, max(len(table), 1), self.rows)
            parts = (table[start : start + self.rows] for start in starts)
        for part in parts:
            named = part.rename(columns=_plain_name)
            yield named if columns is None else named.reindex(columns=list(columns))

    def _read_parts(self, reader: Any) -> Iterator[pd.DataFrame]:
        with reader:
            while True:
                with _explained(self.path):  # not around the yield: it changes how warnings show
                    part = next(reader, None)
                if part is None:
                    return
                yield part


# ------------------------------------------------------------ CSV


@dataclass(frozen=True, slots=True)
class _CsvForm:
    """How a CSV file is written."""

    encoding: str
    separator: str

    @property
    def decimal(self) -> str:
        """Decimal sign: a comma where semicolons separate."""
        return "," if self.separator == ";" else "."


def _form_of(path: Path) -> _CsvForm:
    """Return the form of a file: UTF-8 or UTF-16 if all of it is, Windows-1252 otherwise."""
    encoding = _encoding(path)
    # With a separator that no file has, pandas decompresses and returns the whole first line.
    header = str(_lines(path, encoding, nrows=1).iloc[0, 0])
    if "\0" in header:
        raise StorageError(f"{path} is no table: it does not hold text")
    return _CsvForm(encoding, max(_SEPARATORS, key=header.count))


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
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


def _check_header(path: Path, form: _CsvForm) -> None:
    """Refuse a file whose first line is a title, and name the line with the columns' names."""
    options: dict[str, Any] = {"nrows": _ROWS_LOOKED_AT, "na_filter": False}
    found = _lines(path, form.encoding, skip_blank_lines=False, **options)
    lines = list(map(str, found[0]))
    separator = max(_SEPARATORS, key=lambda sign: max(line.count(sign) for line in lines))
    if 0 < lines[0].count(form.separator) == max(line.count(form.separator) for line in lines):
        separator = form.separator  # there may be as many decimal commas
    _refuse_title(path, [_cells(line, separator) for line in lines])


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a cell of more characters than it reads
        return line.split(separator)


def _refuse_title(path: Path, rows: Sequence[Sequence[str]]) -> None:
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


def _read_csv(path: Path, form: _CsvForm, **options: Any) -> Any:
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


def _read_csv_with_types(path: Path, form: _CsvForm) -> pd.DataFrame:
    """Return a table with types by pandas, except that columns with codes (007) are text."""
    table: pd.DataFrame = _read_csv(path, form)
    whole = [name for name in table if _may_be_codes(table[name])]
    codes: set[Any] = set()
    if whole:
        with _read_csv(path, form, usecols=whole, dtype=str, chunksize=ROWS_AT_ONCE) as parts:
            for part in parts:
                codes |= {name for name in part if name not in codes and first_code(part[name])}
    return _read_csv(path, form, dtype=dict.fromkeys(codes, str)) if codes else table


def _may_be_codes(column: pd.Series) -> bool:
    """Whether digits with leading zeros would have become these values."""
    if column.dtype.kind in "iu":
        return True
    return column.dtype.kind == "f" and column.count() > 0 and are_whole(column.dropna())


@contextmanager
def _explained(path: Path) -> Iterator[None]:
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
        reason = _first_line(error).removeprefix("Error tokenizing data. C error: ")
        raise StorageError(f"{path} is no table that can be read as CSV: {reason}") from error
    except StorageError:
        raise
    except (OSError, EOFError, ValueError, ImportError, zlib.error) as error:
        raise StorageError(f"{path} cannot be read: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
