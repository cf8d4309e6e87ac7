"""Predictions in parts, written to a file of any kind that can be read, or to standard output."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from shiftune._files import atomic_write
from shiftune._wording import how_to_install
from shiftune.cli._records import safe_for_spreadsheets, writing_to
from shiftune.errors import DataError, MissingPackageError, SettingsError

PIPE = Path("-")
# Rows of a sheet, its header included.
MOST_EXCEL_ROWS = 1_048_576
Parts = Iterator[pd.DataFrame]


def write_predictions(parts: Parts, out: Path, *, safe: bool) -> None:
    """Write predictions; the ending of the file decides its kind, standard output has CSV.

    Parameters
    ----------
    parts : iterator of DataFrames
        At least one, which may have no rows.
    out : Path
    safe : bool
        Whether text that a spreadsheet would take for a formula is changed, in files for them.
    """
    ending = checked_ending(out)
    first = next(parts)  # errors of the model come before the file
    parts = chain([first], parts)
    if safe and ending in FOR_SPREADSHEETS:
        parts = map(safe_for_spreadsheets, parts)
    if out == PIPE:
        try:
            _to_csv(parts, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # of shiftune predict ... | head
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for the flush at the end
        return
    with writing_to(out.parent, "give another file with --out"), atomic_write(out) as part:
        WRITERS[ending](parts, part)


def checked_ending(out: Path) -> str:
    """Return the ending that decides how predictions are written; that of CSV for a pipe."""
    ending = "".join(out.suffixes[-2:]) if out.suffix == ".gz" else out.suffix
    if out == PIPE:
        return ".csv"
    if ending not in WRITERS:
        raise SettingsError(
            f"--out must be a file that ends in one of {' '.join(WRITERS)}, got {out}"
        )
    return ending


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


def _arrow(opened: Callable[[Path, Any], Any]) -> Callable[[Parts, Path], None]:
    def write(parts: Parts, path: Path) -> None:
        pyarrow = _package("pyarrow", "parquet")
        first = next(parts)
        table = pyarrow.Table.from_pandas(first, preserve_index=False)
        with opened(path, table.schema) as file:
            file.write_table(table)
            for part in parts:
                file.write_table(
                    pyarrow.Table.from_pandas(part, schema=table.schema, preserve_index=False)
                )

    return write


def _parquet(path: Path, schema: Any) -> Any:
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(path, schema)


def _feather(path: Path, schema: Any) -> Any:
    from pyarrow.ipc import new_file

    return new_file(str(path), schema)


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
    ".parquet": _arrow(_parquet),
    ".feather": _arrow(_feather),
    ".xlsx": _excel,
}
FOR_SPREADSHEETS = (".csv", ".csv.gz", ".xlsx")
