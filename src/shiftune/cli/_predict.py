"""`shiftune predict`: predictions for the rows of another table, in parts, in files of any kind."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from shiftune import _interrupts
from shiftune._files import atomic_write, make_temporary_folder, remove_temporary_folder
from shiftune._wording import count, how_to_install, listed, printable
from shiftune.cli._console import note, notes_for_warnings
from shiftune.cli._folder import ResultFolder, check_free, writing_to
from shiftune.columns._columns import NewRows
from shiftune.errors import DataError, MissingPackageError, SettingsError
from shiftune.predictor._ensemble import TableModel, prediction_columns
from shiftune.tables import TableFile

PIPE = Path("-")
# First bytes of what comes from standard input, if it is not CSV.
SIGNS = {b"PAR1": ".parquet", b"ARRO": ".feather", b"PK\x03\x04": ".xlsx", b"{": ".jsonl"}
# Rows that are compared with those of the target.
MOST_COMPARED = 5_000
# Rows of a sheet, its header included.
MOST_EXCEL_ROWS = 1_048_576
ROW = "row"
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
    """Predict the rows of a table, which is read twice, and write them."""
    ending = _checked_ending(out)
    if out != PIPE:
        check_free(out, overwrite)
    with notes_for_warnings(), _as_file(table) as path:
        model, source = ResultFolder(folder).model(), TableFile(path)
        q = None if level is None else model.scores.quantile(level)
        rows = _compared(model, source, strict)
        parts = _predicted(model, rows, source, q)
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


def _compared(model: TableModel, source: TableFile, strict: bool) -> NewRows:
    """Read all parts of a table once, and note how they differ from training."""
    # A name that pandas has numbered is one of the columns in training.
    source.refuse_doubled(n for n in model.columns if f"{n}.1" not in model.columns)
    rows = NewRows(model.columns, source.form.decimal)
    rows.check_names(source.names)
    for unused in rows.about_names(source.names, model.identifiers):
        note(unused)
    rng = np.random.default_rng(0)
    sample, keys = pd.DataFrame(columns=list(model.columns)), np.empty(0)
    for part in source.parts(model.columns):
        _interrupts.check()
        rows.add(part)
        keys = np.concatenate([keys, rng.random(len(part))])
        kept = np.sort(np.argsort(keys)[:MOST_COMPARED])
        sample = (pd.concat([sample, part]) if len(sample) else part).iloc[kept]
        keys = keys[kept]
    findings = rows.findings()
    serious = [str(each) for each in findings if each.serious]
    if strict and serious:
        raise DataError("; ".join(serious))
    for each in findings:
        note(str(each))
    if rows.rows:
        for about in model.about_drift(rows.read(sample)):
            note(about)
    return rows


def _predicted(model: TableModel, rows: NewRows, source: TableFile, q: float | None) -> Parts:
    """Yield predictions in parts, at least one of them; it may have no rows."""
    there = [name for name in model.identifiers if name in source.names]
    if lacking := [name for name in model.identifiers if name not in there]:
        note(f"the table has no identifier {listed(lacking)}; rows are numbered from 0")
    columns = [*model.columns, *there]
    parts: Iterable[pd.DataFrame] = source.parts(columns)
    for part in parts if rows.rows else [pd.DataFrame(columns=columns)]:
        _interrupts.check()
        found = prediction_columns(model.predictor, rows.read(part), q)
        found.index = part.index
        found.insert(0, ROW, part.index)
        yield with_identifiers(part[there], found)


# ---------------------------------------------------------------- columns


def with_identifiers(identifiers: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Prepend identifier columns, renaming prediction columns on a clash."""
    free = {name: free_name(name, identifiers.columns) for name in map(str, found)}
    if ours := [other for name, other in free.items() if name != other]:
        note(
            "identifiers have names of columns that shiftune writes to the predictions; these are "
            f"called {listed(ours)} there"
        )
    return pd.concat([identifiers, found.rename(columns=free)], axis=1)


def free_name(name: str, taken: Collection[str] | pd.Index) -> str:
    """Return a name that is not taken: the same one, or with "_" behind it."""
    return name if name not in taken else free_name(f"{name}_", taken)


# A lone sign is shown as it is. The last four are wide forms of the first, for East Asian Excel.
FORMULA = re.compile(r"[=+\-@\t\r\uff1d\uff0b\uff0d\uff20].", re.DOTALL)
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?\s*%?\Z", re.IGNORECASE)


def safe_text(value: Any) -> Any:
    """Put an apostrophe before text that begins like a formula; anything else stays as it is.

    >>> [safe_text(each) for each in ("=1+1", "-2.5", "-", "@SUM(A1)", -3.0, "B-7", "\uff1d1")]
    ["'=1+1", '-2.5', '-', "'@SUM(A1)", -3.0, 'B-7', "'\uff1d1"]
    """
    if not isinstance(value, str) or not FORMULA.match(value) or NUMBER.match(value):
        return value
    return f"'{value}"


def safe_for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """Escape texts and column names that a spreadsheet would run; a note names what changed."""
    found = frame.copy()
    changed = []
    for at, name in enumerate(frame.columns):
        column = frame.iloc[:, at]
        if column.dtype.kind not in "biufcmM":
            values = column.tolist()
            safe = [safe_text(value) for value in values]
            if any(now is not value for now, value in zip(safe, values, strict=True)):
                found.isetitem(at, safe)
                changed.append(str(name))
    names = [safe_text(name) for name in frame.columns]
    changed += [str(name) for name, safe in zip(frame.columns, names, strict=True) if name != safe]
    if changed:
        note(
            f"text in {listed(dict.fromkeys(changed))} begins like a formula of a spreadsheet and "
            "is written with ' before it; --no-safe-csv writes it as it is"
        )
    found.columns = pd.Index(names, name=frame.columns.name)
    return found


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
