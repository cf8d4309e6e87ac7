"""`shiftune predict`: predictions of a result's model for the rows of another table."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftune import _interrupts
from shiftune._files import make_temporary_folder, remove_temporary_folder
from shiftune._wording import count, listed, printable
from shiftune.cli._app import command
from shiftune.cli._options import Run, SafeCsv
from shiftune.errors import DataError, DataWarning

if TYPE_CHECKING:
    import pandas as pd

    from shiftune.predictor._ensemble import TableModel
    from shiftune.tables import TableFile
    from shiftune.tables._schema import NewRows

PIPE = Path("-")
# First bytes of what comes from standard input, if it is no CSV.
SIGNS = {b"PAR1": ".parquet", b"ARRO": ".feather", b"PK\x03\x04": ".xlsx", b"{": ".jsonl"}
# Rows that are compared with those of the target.
MOST_COMPARED = 5_000


@command()
def predict(
    folder: Run,
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="New rows: CSV (also .gz, .bz2, .xz, .zip), Parquet, Feather, Excel or JSON "
            "lines (.jsonl); - reads from standard input.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="File to write: .csv, .csv.gz, .parquet, .feather, .xlsx or .jsonl; - is standard "
            "output, as CSV.",
        ),
    ] = PIPE,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            help="Add an interval (or, for classes, a set of them) that has the true value at a "
            "new site with this probability, such as 0.9.",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            metavar="",
            help="Stop where values cannot be read, or categories or shares of missing values "
            "differ from training.",
        ),
    ] = False,
    safe_csv: SafeCsv = True,
) -> None:
    """Predict the rows of another table with the model of a result.

    For example:

      shiftune predict run next.csv --out predicted.csv
      cat next.csv | shiftune predict run - > predicted.csv

    The table needs the columns that the model reads, in any order. Each line has the identifiers of
    the row, its position in the table counted from 0, the prediction, and for classes their
    probabilities. If [bold]shiftune update[/] has updated the model, the last update predicts.

    Notes on what differs from the training rows go to standard error. The table is read twice, in
    parts, and may be larger than the memory.
    """
    from shiftune.cli._prediction_files import checked_ending, write_predictions
    from shiftune.cli._screen import notes_for_warnings

    checked_ending(out)
    with notes_for_warnings(), _as_file(table) as path:
        rows, parts = _predict(folder, path, interval, strict)
        write_predictions(parts, out, safe=safe_csv)
    if out != PIPE:
        typer.echo(printable(f"{count(rows, 'row')} predicted: {out}"), err=True)


def _predict(
    folder: Path, table: Path, level: float | None, strict: bool
) -> tuple[int, Iterator[pd.DataFrame]]:
    """Note how a table differs from training; return how many rows it has, and predictions."""
    from shiftune.cli._folder import model_in_use
    from shiftune.tables import TableFile
    from shiftune.tables._schema import NewRows

    model, source = model_in_use(folder), TableFile(table)
    q = None if level is None else model.scores.quantile(level)
    rows = NewRows(model.profile, source.decimal)
    if unknown := rows.check_names(source.names, model.identifiers):
        verb = "column is" if len(unknown) == 1 else "columns are"
        _note(f"{len(unknown)} {verb} not used, which training did not have: {listed(unknown)}")
    sample = _scanned(rows, source)
    findings = rows.findings()
    serious = [str(each) for each in findings if each.serious]
    if strict and serious:
        raise DataError("; ".join(serious))
    for each in findings:
        _note(str(each))
    if rows.rows:
        for about in model.about_drift(rows.read(sample)):
            _note(about)
    return rows.rows, _predicted(model, rows, source, q)


def _note(text: str) -> None:
    warnings.warn(text, DataWarning, stacklevel=2)


def _scanned(rows: NewRows, source: TableFile) -> pd.DataFrame:
    """Read all parts of a table once; return a random sample of its rows, as written."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    sample, keys = pd.DataFrame(columns=list(rows.profile.columns)), np.empty(0)
    for part in source.parts(rows.profile.columns):
        _interrupts.check()
        rows.add(part)
        keys = np.concatenate([keys, rng.random(len(part))])
        kept = np.sort(np.argsort(keys)[:MOST_COMPARED])
        sample = (pd.concat([sample, part]) if len(sample) else part).iloc[kept]
        keys = keys[kept]
    return sample


def _predicted(
    model: TableModel, rows: NewRows, source: TableFile, q: float | None
) -> Iterator[pd.DataFrame]:
    """Yield predictions in parts, at least one of them; it may have no rows."""
    import pandas as pd

    from shiftune.cli._records import ROW, with_identifiers
    from shiftune.predictor._ensemble import prediction_columns

    there = [name for name in model.identifiers if name in source.names]
    if lacking := [name for name in model.identifiers if name not in there]:
        _note(f"the table has no identifier {listed(lacking)}; rows are numbered from 0")
    columns = [*model.profile.columns, *there]
    parts: Iterable[pd.DataFrame] = source.parts(columns)
    for part in parts if rows.rows else [pd.DataFrame(columns=columns)]:
        _interrupts.check()
        found = prediction_columns(model.predictor, rows.read(part), q)
        found.index = part.index
        found.insert(0, ROW, part.index)
        yield with_identifiers(part[there], found)


@contextmanager
def _as_file(table: Path) -> Iterator[Path]:
    """Yield a path that can be read twice: standard input is copied to a temporary file."""
    if table != PIPE:
        yield table
        return
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
