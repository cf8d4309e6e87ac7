"""`shiftune report`: the report of a result, once more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftune.cli.app import command
from shiftune.errors import ProblemError


@command(rich_help_panel="Your data")
def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A folder that shiftune tune has written.", show_default=False
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where the table is now, if it was moved.", show_default=False
        ),
    ] = None,
) -> None:
    """Write report.html of a result again, from its trials and the table.

    For example:

      shiftune report visits-A-lightgbm

    No new trial is run, but the table is read and the model is fitted once more.
    """
    from shiftune.cli.folder import ResultFolder
    from shiftune.cli.job import from_saved, prepare_job
    from shiftune.cli.screen import notes_for_warnings

    result = ResultFolder(folder)
    settings = result.settings()
    if result.best() is None:
        raise ProblemError(
            f"{folder} has no finished trial; run this first: {settings['runs'][-1]['command']}"
        )
    table = data or Path(settings["file"])
    if not table.exists():
        raise ProblemError(
            f"there is no file {table}; if the table was moved say where with --data"
        )
    # One trial is there, so none is begun.
    again = prepare_job(
        from_saved(table, settings["options"]), trials=1, jobs=1, storage=result.journal
    )
    if settings["options"]["data"] != again.options["data"]:
        raise ProblemError(
            f"{table} is not the table of this result, or has changed since; say where the old one "
            "is with --data"
        )
    result.check(again)
    with notes_for_warnings():
        again.search.set_params(progress=False).fit(again.table.problem)
        path = result.write_report(again)
    typer.echo(f"Written to {path}")
