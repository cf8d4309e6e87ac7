"""`shiftune report`: rewrite the report of a result."""

from __future__ import annotations

import typer

from shiftune.cli._app import command
from shiftune.cli._options import MovedTable, MovedTargetFile, Run
from shiftune.cli.tune import NO_REPORT
from shiftune.errors import MissingPackageError, StorageError


@command()
def report(folder: Run, data: MovedTable = None, target_file: MovedTargetFile = None) -> None:
    """Rewrite the report and the other files of a result.

    For example:

      shiftune report data-A-logistic

    The table is read and the model is fitted again; no trial is added. After Ctrl-C, this gives
    the result of the trials so far. Updates by [bold]shiftune update[/] are shown.
    """
    from shiftune.cli._folder import REPORT, ResultFolder, reopened
    from shiftune.cli._screen import notes_for_warnings, screen, show_updates

    if not ResultFolder.can_report():
        raise MissingPackageError(NO_REPORT)
    result = ResultFolder(folder)
    if lost := result.lost() or ("" if result.finished() else f"{folder} has no finished trial"):
        raise StorageError(f"{lost}; run this first: {result.last_command}")
    again = reopened(
        result, {"data": data, "target_file": target_file}
    )  # the study has a trial, so none is added
    with notes_for_warnings():
        again.search.set_params(progress=False).fit(again.table.problem)
        result.write(again)
    if states := result.updates.records:
        show_updates(screen(), result.path, states, ())
    typer.echo(f"Written to {result.path / REPORT}")
