"""`shiftune update`: update the predictor of a result by labels of the target."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftune.cli._app import command, command_line
from shiftune.cli._options import Json, MovedTable, MovedTargetFile, Run
from shiftune.errors import DataError, DataWarning, SettingsError

if TYPE_CHECKING:
    from shiftune.cli._folder import ResultFolder
    from shiftune.cli._job import TuneJob


@command()
def update(
    folder: Run,
    labels: Annotated[
        Path | None,
        typer.Argument(
            metavar="LABELS",
            help="Table with the labels of some rows of the target; without it, the updates so "
            "far are listed.",
            show_default=False,
        ),
    ] = None,
    data: MovedTable = None,
    target_file: MovedTargetFile = None,
    as_json: Json = False,
) -> None:
    """Update the model of a result by labels of the target, without a new search.

    For example:

      shiftune label-plan run --n 30      # writes run-labels.csv; fill in the labels, then
      shiftune update run run-labels.csv
      shiftune update run                 # list the updates

    LABELS has the label column of the table, and its identifiers or a column [bold]row[/] (the
    number of the row in the table, counted from 0, as in predictions.csv). Rows without a label are
    left out.

    DIR/updates/1 receives [bold]update.json[/] (the estimated error without and with the
    labels, and whether they agree with the first estimate), [bold]predictions.csv[/], the model
    and all labels so far. The next update uses these as well, and is DIR/updates/2. Other files
    of DIR stay as they are.
    """
    from shiftune.cli._folder import ResultFolder

    result = ResultFolder(folder)
    result.settings()  # an error where this is no folder of a result
    if labels is None:
        _list(result, as_json)
        return
    from shiftune.cli._screen import notes_for_warnings, screen, show_update
    from shiftune.search._storage import only_search_of

    with notes_for_warnings(), only_search_of(result.journal):
        record = _updated(result, labels, {"data": data, "target_file": target_file})
    state = result.updates.state(record["number"])
    if as_json:
        found = {"folder": str(state), **record}
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        show_update(screen(), record, state)


def _list(result: ResultFolder, as_json: bool) -> None:
    from shiftune.cli._screen import screen, show_updates

    updates = result.updates
    if as_json:
        found = {"updates": updates.records, "unfinished": updates.unfinished}
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        show_updates(screen(), result.path, updates.records, updates.unfinished)


def _updated(result: ResultFolder, path: Path, moved: Mapping[str, Path | None]) -> dict[str, Any]:
    """Return the record of a new state, or of the last one if the labels are all in it."""
    from shiftune.cli._folder import completed, reopened
    from shiftune.cli._updates import in_words, read_given

    best, updates = completed(result), result.updates
    if obstacle := best.get("update_obstacle"):
        raise SettingsError(f"labels cannot update this predictor: {obstacle}")
    job = reopened(result, moved)
    last = max(updates.finished, default=None)
    earlier = updates.labels(job)
    given = _without_known(read_given(path, job), job, path)
    new = given.keys() - earlier.keys()
    replaced = [each for each in given if given[each] != earlier.get(each, given[each])]
    if last is not None and not new and not replaced and updates.record(last)["current"]:
        warnings.warn(f"update {last} has all labels of {path} already", DataWarning, stacklevel=2)
        return updates.record(last)
    if replaced:
        words = f"new labels replace those of {in_words(replaced, job)}"
        warnings.warn(words, DataWarning, stacklevel=2)
    for number in updates.unfinished:
        words = f"{updates.state(number)} was not finished, and is written again"
        warnings.warn(words, DataWarning, stacklevel=2)
    counts = {"new_labels": len(new), "replaced_labels": len(replaced)}
    return _written(result, job, best, dict(sorted((earlier | given).items())), counts)


def _written(
    result: ResultFolder,
    job: TuneJob,
    best: dict[str, Any],
    labels: dict[int, Any],
    counts: dict[str, int],
) -> dict[str, Any]:
    """Update the predictor by labels of some rows, by their positions, and write a state."""
    import numpy as np

    from shiftune.cli._folder import handed_over, table_model
    from shiftune.cli._records import predictions
    from shiftune.cli._updates import row_column, update_record
    from shiftune.problem._site import rows_of
    from shiftune.search._result import site_scores
    from shiftune.search._updating import update as update_predictor

    problem = job.table.problem
    kind = float if problem.task == "regression" else problem.classes.dtype
    positions, y = np.array(list(labels)), np.array(list(labels.values()), dtype=kind)
    job.search.reopen(problem)
    model = handed_over(result, best, job)
    X = rows_of(problem.target.X, positions)
    groups = None if problem.target.groups is None else problem.target.groups[positions]
    updated = update_predictor(job.search.result_, model, X, y, groups)
    scores = site_scores(job.search.result_, updated.labels_)
    used = job.table.target_labelled.copy()
    used[positions] = True
    rows = {row_column(job): job.table.target_rows[positions], job.options.label: y}
    record = {
        "command": command_line(),
        **counts,
        **update_record(job, model, updated, X, y, groups),
        "of_trials": best["trials"],
    }
    return result.updates.write(
        table_model(job, updated.predictor_, scores),
        job.identifiers.iloc[positions].assign(**rows),
        predictions(job, updated.predictor_, used),
        record,
    )


def _without_known(given: dict[int, Any], job: TuneJob, path: Path) -> dict[int, Any]:
    """Leave labels out that the search had; they must be the same."""
    few = job.table.problem.labelled_target
    if few is None:
        return given
    had = dict(zip(few.rows.tolist(), few.labels.tolist(), strict=True))
    rows = job.table.target_rows
    for position, label in given.items():
        before = had.get(int(rows[position]), label)
        if before != label:
            raise DataError(
                f"row {rows[position]} has the label {str(label)!r} in {path}, and had "
                f"{str(before)!r} in tune; correct the one, or correct the table and tune again"
            )
    left = {place: label for place, label in given.items() if int(rows[place]) not in had}
    if not left:
        raise DataError(f"all labels of {path} are those that tune has used; give others")
    return left
