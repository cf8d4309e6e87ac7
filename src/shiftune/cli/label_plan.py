"""`shiftune label-plan`: rows of the target to label, drawn at random."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftune._wording import count
from shiftune.cli._app import command
from shiftune.cli._options import MovedTable, MovedTargetFile, Run
from shiftune.errors import DataError, SettingsError, StorageError

if TYPE_CHECKING:
    import pandas as pd

    from shiftune.cli._job import TuneJob
    from shiftune.cli._updates import Updates


@command()
def label_plan(
    folder: Run,
    n: Annotated[
        int, typer.Option("--n", metavar="N", min=1, help="Number of rows.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV file to write. Default: DIR-labels.csv.", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Random seed; the same seed draws the same rows."),
    ] = 0,
    data: MovedTable = None,
    target_file: MovedTargetFile = None,
) -> None:
    """Draw rows of the target at random, and write a file to fill in their labels.

    For example:

      shiftune label-plan run --n 30      # writes run-labels.csv; fill in the labels, then
      shiftune update run run-labels.csv

    The file has the identifiers, the number of the row in the table, the columns that the model
    uses, and an empty column for the label. Rows whose label was used before are not drawn. Rows
    may stay empty, unless it is their label that makes them so.
    """
    from shiftune._files import atomic_write
    from shiftune.cli._folder import ResultFolder, completed, reopened
    from shiftune.cli._records import writing_to
    from shiftune.cli._screen import notes_for_warnings, screen, show_note
    from shiftune.tables import separator_of

    result = ResultFolder(folder)
    obstacle = completed(result).get("update_obstacle")
    path = out or Path(f"{folder.resolve().name}-labels.csv")
    if path.suffix.lower() != ".csv":
        raise SettingsError(f"--out must be a CSV file, which ends in .csv, got {path}")
    if path.exists():
        raise StorageError(
            f"{path} exists, and may have labels in it; give another file with --out"
        )
    with notes_for_warnings():
        job = reopened(result, {"data": data, "target_file": target_file})
        plan = _plan(job, result.updates, n, seed)
    with writing_to(path.parent, "give another file with --out"), atomic_write(path) as part:
        plan.to_csv(part, index=False, sep=separator_of(job.options.files.of_target))
    console = screen()
    target, label = job.table.problem.target.name, job.options.label
    written = f"Written to {path}: {count(n, 'row')} of {target}, drawn at random."
    if obstacle:
        console.print(written)
        show_note(
            console,
            f"labels cannot update this predictor: {obstacle}. Fill them in in the table, and run "
            "shiftune tune with --use-target-labels",
        )
        return
    console.print(f"{written} Fill in {label!r}, then run:")
    typer.echo(f"  {shlex.join(['shiftune', 'update', str(folder), str(path)])}")


def _plan(job: TuneJob, updates: Updates, n: int, seed: int) -> pd.DataFrame:
    """Return rows of the target without a label so far, as written in the table."""
    import numpy as np

    from shiftune.cli._updates import row_column

    table = job.table
    left = ~table.target_labelled
    left[list(updates.labels(job))] = False
    rows = table.target_rows[left]
    if n > len(rows):
        raise DataError(
            f"{table.problem.target.name!r} has {count(len(rows), 'row')} without a label so far; "
            f"give an --n of at most {len(rows)}"
            if len(rows)
            else f"all rows of {table.problem.target.name!r} have a label already"
        )
    drawn = np.sort(np.random.default_rng(seed).choice(rows, n, replace=False))
    used = table.columns.index[table.columns["used"]].to_list()
    found = job.options.files.as_written([*table.identifiers, *used], drawn)
    found.insert(len(table.identifiers), row_column(job), drawn)
    return found.assign(**{job.options.label: ""})
