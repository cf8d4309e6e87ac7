"""Files of all sites as one table: with a site column, a file per site, or the target apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune.errors import DataError, SettingsError
from shiftune.problem.chunks import PartsHere
from shiftune.problem.draw import SampledParts, draw
from shiftune.problem.row_counts import LabelRules, count_parts
from shiftune.problem.stacked import site_names
from shiftune.tables.files import FILE_NAME, files_at, joined, names_of, read_as_written, read_one
from shiftune.tables.large_files import LargeFile
from shiftune.wording import count, listed

NEEDED = "a table with a site column"


class SampledFiles(NamedTuple):
    """Rows that were drawn.

    Attributes
    ----------
    table : DataFrame of n rows
    rows : array of shape (n,)
        Their numbers in the table of all rows.
    drawn : SampledParts
    """

    table: pd.DataFrame
    rows: NDArray[np.intp]
    drawn: SampledParts


@dataclass(frozen=True)
class SiteFiles:
    """Where the rows of the sites are.

    Parameters
    ----------
    data : Path
        File or pattern with the rows of all sites, or of all sources.
    target_file : Path, optional
        File with the rows of the target, which come first in the table: they keep their numbers.
        A column that it lacks, such as the label, is missing at the target.
    site : str, optional
        Column with the site of each row, which the target's file need not have. Without it every
        file is a site, called like the file.
    target : str, optional
        Site to tune for. Default: the site of the target's file.
    """

    data: Path
    target_file: Path | None = None
    site: str | None = None
    target: str | None = None

    @property
    def site_column(self) -> str:
        """Name of the column of the sites in the table."""
        return FILE_NAME if self.site is None else self.site

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
        named = self._sites_in(self.target_file)
        if len(named) > 1:
            raise DataError(
                f"{self.target_file} has rows of {count(len(named), 'site')}, {listed(named)}, but "
                "is the file of the target alone"
            )
        if self.target is None:
            return named[0] if named else names_of([self.target_file])[0]
        if named and named[0] != self.target:
            raise DataError(
                f"the rows of {self.target_file} are of site {named[0]!r}, and the target is "
                f"{self.target!r}; correct one of them, or leave --target out"
            )
        return self.target

    def _sites_in(self, path: Path) -> list[str]:
        if self.site is None:
            return []
        written = read_as_written(path, [self.site])[self.site]
        return list(written.dropna().astype(str).str.strip().replace("", None).dropna().unique())

    def read(self) -> pd.DataFrame:
        """Return the rows of all sites, those of the target's own file first."""
        return self._joined({file: read_one(file) for file in self._files})

    def sample(
        self,
        most_rows: int,
        labels: LabelRules | None,
        group: str | None = None,
        random_state: int = 0,
    ) -> SampledFiles | None:
        """Draw rows of every site, if there are more than wanted; return None otherwise."""
        large = {file: LargeFile(file) for file in self._files}
        if sum(file.row_bound for file in large.values()) <= most_rows:
            return None
        origin: list[Path] = []

        def read(columns: Sequence[Hashable] | None) -> Iterator[pd.DataFrame]:
            origin.clear()
            for path, file in large.items():
                for part in file.parts(None if columns is None else [*map(str, columns)]):
                    origin.append(path)
                    yield self._with_site(part, path)

        names = dict.fromkeys(name for file in large.values() for name in file.file.names)
        parts = PartsHere([*names, *([FILE_NAME] if self.site is None else [])], read)
        counted = count_parts(parts, self.site_column, labels)
        if counted.rows <= most_rows:
            return None
        drawn = draw(parts, counted, self.site_column, most_rows, None, labels, group, random_state)
        of_file: dict[Path, list[pd.DataFrame]] = {path: [] for path in large}
        for path, table in zip(origin, drawn.tables, strict=True):
            of_file[path].append(table)
        tables = {path: large[path].typed(own) for path, own in of_file.items()}
        rows = np.concatenate([table.index.to_numpy() for table in drawn.tables])
        return SampledFiles(self._joined(tables), rows, drawn)

    @property
    def _files(self) -> list[Path]:
        """All files, that of the target first."""
        files = files_at(self.data)
        if self.site is None and self.target_file is None and len(files) == 1:
            raise SettingsError(
                f"--site is missing: name the column of {self.data} with the site of each row "
                "(without it every file is a site, and this is one file)"
            )
        return [*([] if self.target_file is None else files_at(self.target_file)), *files]

    def _with_site(self, part: pd.DataFrame, path: Path) -> pd.DataFrame:
        """Return rows of a file with their site, without spaces around it."""
        if self.target_file is not None and path in files_at(self.target_file):
            return part.assign(**{self.site_column: self.target_name})
        if self.site is None:
            files = files_at(self.data)
            return part.assign(**{FILE_NAME: names_of(files)[files.index(path)]})
        if self.site not in part or not types.is_string_dtype(part[self.site]):
            return part
        texts = part[self.site].str.strip()
        return part.assign(**{self.site: texts.mask(texts == "")})

    def _joined(self, tables: Mapping[Path, pd.DataFrame]) -> pd.DataFrame:
        files = files_at(self.data)
        table = joined(self.data, {file: tables[file] for file in files}, NEEDED, self.site is None)
        if len(files) > 1 and self.site not in (None, *table):
            raise DataError(
                f"the files {self.data} have no column {self.site!r}; if every file is a site, "
                "leave --site out"
            )
        if self.target_file is None:
            return table
        if self.site_column in table:  # otherwise its name is wrong, which is reported later
            self._check_sources(table)
        mine = {file: tables[file] for file in files_at(self.target_file)}
        own = joined(self.target_file, mine, "the rows of the target", name_files=False)
        own = own.assign(**{self.site_column: self.target_name})
        names = [*table, *(name for name in own if name not in table)]
        return pd.concat([own, table], ignore_index=True)[names]

    def _check_sources(self, table: pd.DataFrame) -> None:
        sites = site_names(table[self.site_column].dropna(), f"the column {self.site_column!r}")
        if n := int((sites == self.target_name).sum()):
            raise DataError(
                f"{self.data} has {count(n, 'row')} of the target {self.target_name!r} too; leave "
                "them out there, or in --target-file, or give the target another name"
            )

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
    def notes(self) -> list[str]:
        """What was decided without being asked for."""
        if self.site is not None:
            return []
        own = [] if self.target_file is None else [self.target_name]
        shown = listed([*own, *names_of(files_at(self.data))], 6)
        return [f"without --site, every file is a site and has its name: {shown}"]

    def __str__(self) -> str:
        apart = "" if self.target_file is None else f", and {self.target_file} for the target"
        return f"{self.data}{apart}"
