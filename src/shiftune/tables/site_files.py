"""Files of all sites as one table: with a site column, a file per site, or the target apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from shiftune.errors import DataError, SettingsError
from shiftune.problem.stacked import site_names
from shiftune.tables.files import FILE_NAME, files_at, names_of, read_as_written, read_file
from shiftune.wording import count, listed


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
        several = len(files_at(self.data)) > 1
        if self.site is None and self.target_file is None and not several:
            raise SettingsError(
                f"--site is missing: name the column of {self.data} with the site of each row "
                "(without it every file is a site, and this is one file)"
            )
        table = read_file(self.data, name_files=self.site is None)
        if several and self.site not in (None, *table):
            raise DataError(
                f"the files {self.data} have no column {self.site!r}; if every file is a site, "
                "leave --site out"
            )
        if self.target_file is None:
            return table
        if self.site_column in table:  # otherwise its name is wrong, which is reported later
            self._check_sources(table)
        own = read_file(self.target_file, "the rows of the target")
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

    def as_written(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns of the table that `read` returns, with their values as written."""
        tables = [read_as_written(self.data, columns)]
        if self.target_file is not None:
            own = read_as_written(self.target_file, columns)
            if self.site_column in own:
                own = own.assign(**{self.site_column: self.target_name})
            tables.insert(0, own)
        return pd.concat(tables, ignore_index=True)

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
