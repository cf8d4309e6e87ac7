"""`shiftune predict`: predictions for the rows of another table, in parts, in files of any kind."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from shiftune import _interrupts
from shiftune._files import atomic_write, make_temporary_folder, remove_temporary_folder
from shiftune._wording import count, how_to_install, listed, printable
from shiftune.cli._console import note, notes_for_warnings
from shiftune.cli._folder import (
    ROW,
    ResultFolder,
    check_free,
    safe_for_spreadsheets,
    with_identifiers,
    writing_to,
)
from shiftune.columns._column import as_text, spelled_like
from shiftune.columns._columns import NewRows
from shiftune.errors import DataError, MissingPackageError, SettingsError
from shiftune.predictor._ensemble import TableModel, prediction_columns
from shiftune.tables import TableFile

PIPE = Path("-")
# First bytes of what comes from standard input, if it is not CSV.
SIGNS = {b"PAR1": ".parquet", b"ARRO": ".feather", b"PK\x03\x04": ".xlsx", b"{": ".jsonl"}
# Rows that are compared with those of the target.
MOST_COMPARED = 5_000
# Of each site, if there are many.
FEWEST_COMPARED = 50
# Sites whose rows have a note.
MOST_SITES = 8
# Rows of a sheet, its header included.
MOST_EXCEL_ROWS = 1_048_576
Parts = Iterator[pd.DataFrame]


def predict(
    folder: Path,
    table: Path,
    out: Path,
    level: float | None,
    *,
    strict: bool,
    safe: bool,
    overwrite: bool,
) -> None:
    """Predict the rows of a table, which is read twice, and write them.

    With a result of several targets, each row is predicted by the model of its site.
    """
    ending = _checked_ending(out)
    if out != PIPE:
        check_free(out, overwrite)
    with notes_for_warnings(), _as_file(table) as path:
        source = TableFile(path)
        models = SiteModels(ResultFolder(folder), source)
        if level is not None:
            models.common.scores.quantile(level)  # refused before the table is read
        rows = _compared(models, source, strict)
        parts = _predicted(models, rows, source, level)
        first = next(parts)  # errors of the model come before the file
        parts = chain([first], parts)
        if safe and ending in (".csv", ".csv.gz", ".xlsx"):
            parts = map(safe_for_spreadsheets, parts)
        _write(parts, out, ending)
    if out != PIPE:
        typer.echo(printable(f"{count(rows.rows, 'row')} predicted: {out}"), err=True)


@contextmanager
def _as_file(table: Path) -> Iterator[Path]:
    """Yield a path that can be read twice: standard input is copied to a temporary file."""
    if table != PIPE:
        yield table
        return
    if sys.stdin is None:
        raise SettingsError("standard input is closed; give the table as a file")
    folder = make_temporary_folder()
    try:
        source = sys.stdin.buffer
        start = source.read(4)
        ending = next((e for sign, e in SIGNS.items() if start.startswith(sign)), ".csv")
        path = Path(folder) / f"standard input{ending}"
        with path.open("wb") as file:
            file.write(start)
            shutil.copyfileobj(source, file)
        yield path
    finally:
        remove_temporary_folder(folder)


class SiteModels:
    """Models of a result by site; where it has one target, one model for all rows.

    With several, `column` names the sites. A site without a folder of its own has the `common`
    model.
    """

    def __init__(self, folder: ResultFolder, source: TableFile) -> None:
        self.folder, self.sites, self.common = folder, folder.sites(), folder.model()
        self.sources = {site["name"] for site in folder.completed()["sites"]}
        self.site_column = folder.options().files.site_column
        self.column: str | None = None
        self._loaded: dict[str, TableModel] = {}
        self._respelled: dict[str, str] = {}
        if len(self.sites) > 1:
            self.column = self.site_column
            if self.column not in source.names:
                first = next(site.path for site in self.sites.values() if site.path.exists())
                raise DataError(
                    f"{source.path} has no column {self.column!r}, which names the site of each "
                    f"row; add it, or predict with the folder of one site, such as {first}"
                )

    def names(self, part: pd.DataFrame) -> pd.Series:
        """Return the site of every row; spreadsheets may have rewritten 021 as 21 or 21.0."""
        if self.column is None:
            return pd.Series("", part.index, dtype=object)
        names = as_text(part[self.column]).replace("", None)
        if missing := int(names.isna().sum()):
            raise DataError(f"{count(missing, 'row')} of the table have no site in {self.column!r}")
        self._respelled |= (same := spelled_like({*self.sites, *self.sources}, names.unique()))
        return names.map(lambda name: same.get(name, name))

    def of(self, site: str) -> TableModel:
        """Return the model of a site."""
        if site not in self._loaded:
            site_dir = self.sites.get(site)
            self._loaded[site] = (
                self.common if site_dir is None or not site_dir.best() else site_dir.model()
            )
        return self._loaded[site]

    def split(self, part: pd.DataFrame) -> Iterator[tuple[TableModel, NDArray[np.intp]]]:
        """Yield the models that predict a part, each with the positions of its rows."""
        names = self.names(part)
        models = {site: self.of(site) for site in names.unique()} or {"": self.common}
        of_row = names.map({site: id(model) for site, model in models.items()}).to_numpy()
        for model in {id(model): model for model in models.values()}.values():
            yield model, np.flatnonzero(of_row == id(model))

    def about(self, names: pd.Series, part: pd.DataFrame, read: pd.DataFrame) -> Iterator[str]:
        """Note drift at every site, and the sites that are new.

        `read` are the rows of a part, as the models read them.
        """
        new, drift, seen = {}, [], []
        for site, rows in read.groupby(names):
            if self.column is None or (site in self.sites and self.of(site) is not self.common):
                drift += [(site, about) for about in self.of(site).about_drift(rows)]
            elif site in self.sources:
                seen.append(str(site))
            elif site not in self.sites:
                new[str(site)] = rows
        if self.column is None and self.site_column in part:
            (target,) = self.sites
            there = {str(site) for site in as_text(part[self.site_column]).dropna().unique()}
            if others := sorted(there - {target, *spelled_like([target], there)}):
                yield f"the model is for {target!r}, and rows are of {listed(others, MOST_SITES)}"
        if same := [f"{old!r} is read as {new!r}" for old, new in self._respelled.items()]:
            yield f"sites: {listed(same, MOST_SITES, quoted=False)}"
        if seen:
            shown = listed(seen, MOST_SITES, quoted=False)
            yield f"rows of sources are predicted as those of a new site: {shown}"
        for site, about in drift[:MOST_SITES]:
            yield about if self.column is None else f"{site}: {about}"
        if (more := len(drift) - MOST_SITES) > 0:
            yield f"the rows of {count(more, 'more site')} differ, too"
        if new:
            from shiftune.cli._tune import expected_at  # a whole search is loaded

            yield from expected_at(self.folder, new)


def _compared(models: SiteModels, source: TableFile, strict: bool) -> NewRows:
    """Read all parts of a table once, and note how they differ from training."""
    model = models.common
    # A name that pandas has numbered is one of the columns in training.
    source.refuse_doubled(n for n in model.columns if f"{n}.1" not in model.columns)
    rows = NewRows(model.columns, source.form.decimal)
    rows.check_names(source.names)
    for unused in rows.about_names(source.names, model.identifiers):
        note(unused)
    rng = np.random.default_rng(0)
    columns = [*model.columns, *({models.site_column} & set(source.names))]
    sample, keys = pd.DataFrame(columns=columns), np.empty(0)
    for part in source.parts(columns):
        _interrupts.check()
        rows.add(part)
        keys = np.concatenate([keys, rng.random(len(part))])
        sample = pd.concat([sample, part]) if len(sample) else part
        names = models.names(sample).to_numpy()
        most = max(MOST_COMPARED // max(len(set(names)), 1), FEWEST_COMPARED)
        kept = np.flatnonzero(pd.Series(keys).groupby(names).rank() <= most)
        sample, keys = sample.iloc[kept], keys[kept]
    findings = rows.findings()
    serious = [str(finding) for finding in findings if finding.serious]
    if strict and serious:
        raise DataError("; ".join(serious))
    for finding in findings:
        note(str(finding))
    if rows.rows:
        for about in models.about(models.names(sample), sample, rows.read(sample)):
            note(about)
    return rows


def _predicted(models: SiteModels, rows: NewRows, source: TableFile, level: float | None) -> Parts:
    """Yield predictions in parts, at least one of them; it may have no rows."""
    model = models.common
    there = [name for name in model.identifiers if name in source.names]
    if lacking := [name for name in model.identifiers if name not in there]:
        note(f"the table has no identifier {listed(lacking)}; rows are numbered from 0")
    there = [*([] if models.column is None else [models.column]), *there]
    columns = [*model.columns, *there]
    parts: Iterable[pd.DataFrame] = source.parts(columns)
    for part in parts if rows.rows else [pd.DataFrame(columns=columns)]:
        _interrupts.check()
        read, of_models = rows.read(part), []
        for model, places in models.split(part):
            q = None if level is None else model.scores.quantile(level)
            of_model = prediction_columns(model.predictor, read.iloc[places], q)
            of_models.append(of_model.set_axis(part.index[places]))
        predictions = pd.concat(of_models).loc[part.index] if len(of_models) > 1 else of_models[0]
        predictions.insert(0, ROW, part.index)
        yield with_identifiers(part[there], predictions)


# ---------------------------------------------------------------- files


def _checked_ending(out: Path) -> str:
    """Return the ending that decides how predictions are written; that of CSV for a pipe."""
    ending = "".join(out.suffixes[-2:]) if out.suffix == ".gz" else out.suffix
    if out == PIPE:
        if sys.stdout is None:
            raise SettingsError("standard output is closed; give a file with --out")
        return ".csv"
    if ending not in WRITERS:
        raise SettingsError(
            f"--out must be a file that ends in one of {' '.join(WRITERS)}, got {out}"
        )
    return ending


def _write(parts: Parts, out: Path, ending: str) -> None:
    if out == PIPE:
        try:
            _to_csv(parts, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # of shiftune predict ... | head
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for the flush at the end
        return
    with writing_to(out.parent, "give another file with --out"), atomic_write(out) as part:
        WRITERS[ending](parts, part)


def _to_csv(parts: Parts, file: Any) -> None:
    for at, part in enumerate(parts):
        part.to_csv(file, index=False, header=at == 0)


def _csv(parts: Parts, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        _to_csv(parts, file)


def _gzip(parts: Parts, path: Path) -> None:
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        _to_csv(parts, file)


def _json_lines(parts: Parts, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for part in parts:
            part.to_json(file, orient="records", lines=True, force_ascii=False)


def _arrow(parts: Parts, path: Path) -> None:
    pyarrow = _package("pyarrow", "parquet")
    from pyarrow.ipc import new_file
    from pyarrow.parquet import ParquetWriter

    table = pyarrow.Table.from_pandas(next(parts), preserve_index=False)
    opened = new_file if path.suffix == ".feather" else ParquetWriter
    with opened(str(path), table.schema) as file:
        file.write_table(table)
        for part in parts:
            file.write_table(
                pyarrow.Table.from_pandas(part, schema=table.schema, preserve_index=False)
            )


def _excel(parts: Parts, path: Path) -> None:
    _package("openpyxl", "excel")
    table = pd.concat(parts, ignore_index=True)
    if len(table) >= MOST_EXCEL_ROWS:
        raise DataError(
            f"a sheet of Excel has room for {MOST_EXCEL_ROWS - 1:,} rows, and there are "
            f"{len(table):,}; give a file with another ending with --out"
        )
    with path.open("wb") as file:
        table.to_excel(file, index=False, engine="openpyxl")


def _package(name: str, extra: str) -> Any:
    with suppress(ImportError):
        return __import__(name)
    raise MissingPackageError(f"this file needs {name}: {how_to_install(extra)}, or write .csv")


WRITERS: dict[str, Callable[[Parts, Path], None]] = {
    ".csv": _csv,
    ".csv.gz": _gzip,
    ".jsonl": _json_lines,
    ".parquet": _arrow,
    ".feather": _arrow,
    ".xlsx": _excel,
}
