"""`shiftune report`: rewrite the report of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftune.cli.app import command
from shiftune.cli.tune import NO_REPORT
from shiftune.errors import DataError, MissingPackageError, StorageError


@command()
def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder of a result of shiftune tune.", show_default=False
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The table, if it was moved.", show_default=False),
    ] = None,
) -> None:
    """Rewrite the report and the other files of a result.

    For example:

      shiftune report data-A-logistic

    The table is read and the model is fitted again; no trial is added. After Ctrl-C, this gives
    the result of the trials so far.
    """
    from shiftune.cli.folder import REPORT, ResultFolder
    from shiftune.cli.job import prepare_job
    from shiftune.cli.screen import notes_for_warnings

    if not ResultFolder.can_report():
        raise MissingPackageError(NO_REPORT)
    result = ResultFolder(folder)
    settings = result.settings()
    if not result.finished():
        raise StorageError(
            f"{folder} has no finished trial; run this first: {settings['runs'][-1]['command']}"
        )
    table = data or Path(settings["file"])
    if not table.exists():
        raise DataError(f"there is no file {table}; if the table was moved, give --data FILE")
    # The study has a trial, so none is added.
    again = prepare_job(result.options(table), result.journal)
    if settings["data"] != again.fingerprint:
        raise DataError(
            f"{table} is not the table of this result, or has changed since; give the old one "
            "with --data"
        )
    result.check(again)
    with notes_for_warnings():
        again.search.set_params(progress=False).fit(again.table.problem)
        result.write(again)
    typer.echo(f"Written to {result.path / REPORT}")
