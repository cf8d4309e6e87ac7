"""`shiftune tune`: hyperparameters, model and predictions for a site without labels."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shiftune import _interrupts, _names
from shiftune._wording import how_to_install, printable
from shiftune.cli._app import command, command_line
from shiftune.cli._options import RISKS, TuneOptions, settings_option, taking
from shiftune.errors import ProblemError, StorageError

if TYPE_CHECKING:
    from shiftune.cli._folder import ResultFolder
    from shiftune.cli._job import TuneJob

NAMES = "\n\n".join(
    f"[bold]{what}[/]: {', '.join(each)}"
    for what, each in (
        ("Models", _names.MODELS),
        ("Risk estimators", RISKS),
        ("Density ratios", _names.RATIOS),
        ("Losses for classes", _names.LOSSES_OF["classification"]),
        ("Losses for quantities", _names.LOSSES_OF["regression"]),
        ("Metrics", _names.METRICS),
    )
)


@command(epilog=NAMES)
@taking(TuneOptions, settings=settings_option(TuneOptions))
def tune(options: TuneOptions) -> None:
    """Find the best hyperparameters for a site without labels, and estimate the error there.

    For example:

      shiftune tune data.csv --site ward --target A --label ill --model logistic
      shiftune tune ... --model linear --model lightgbm   # they share the trials
      shiftune tune --settings run/settings.toml --out again

    All other sites are sources, which need labels. The target's own labels are ignored, unless
    --use-target-labels is given. Identifiers and constant columns are left out, with a note.

    DIR receives [bold]report.html[/], [bold]model-card.md[/], [bold]best.json[/],
    [bold]predictions.csv[/] (one line per target row: its identifiers, its position in the file
    counted from 0, the prediction), [bold]trials.csv[/], the model (for
    [bold]shiftune.load_model[/]), settings.json, settings.toml (for --settings, repeats the run),
    study.journal (for optuna-dashboard) and study.journal.answers. Ctrl-C stops the search; the
    same command continues it, also with a larger --trials.
    """
    from shiftune.cli._folder import ResultFolder, one_beginning
    from shiftune.cli._job import prepare_job
    from shiftune.cli._screen import screen, show_finished, show_table, show_task

    folder = ResultFolder(options.out or _default_folder(options))
    job = prepare_job(options, folder.journal)
    with one_beginning(folder) if options.join else nullcontext():
        new = folder.check(job)
        best = None if new else folder.complete(options.trials, job.options.of_result())
        if best is not None and (lost := folder.lost()):
            typer.echo(f"{lost}; the others run again", err=True)
            best = None
        if best is None:
            folder.begin(job, command_line())
    console = screen(silent=options.as_json)
    show_table(console, options.files, job.table, job.table.notes, label=options.label)
    if best is not None:
        show_finished(console, best, folder.path)
    else:
        _interrupts.keeps_results(True)
        show_task(console, job.options, 0 if new else folder.finished())
        best = _searched(job, folder, new)
    if best is None:
        typer.echo(f"the time is over; other processes go on and write {folder.path}", err=True)
        return
    if options.timeout is not None and best["trials"] < options.trials:
        done = f"{best['trials']} of {options.trials} trials"
        typer.echo(f"--timeout: {done}; the same command continues", err=True)
    _show(folder, best, job)


NO_REPORT = f"no report, because packages are missing: {how_to_install('report')}"


def _default_folder(options: TuneOptions) -> Path:
    pattern = any(sign in options.data.name for sign in "*?[")
    name = options.data.resolve().parent.name if pattern else options.data.name
    stem = name.split(".", maxsplit=1)[0]
    models = "-".join(sorted(options.model)) or "auto"
    return Path(re.sub(r"[^\w.-]+", "_", f"{stem}-{options.files.target_name}-{models}"))


def _searched(job: TuneJob, folder: ResultFolder, new: bool) -> dict[str, Any] | None:
    from shiftune.cli._folder import searched_together
    from shiftune.cli._screen import notes_for_warnings

    if not folder.can_report():
        typer.echo(f"{NO_REPORT}; then: shiftune report {folder.path}", err=True)
    with notes_for_warnings():
        if job.options.join:
            return searched_together(job, folder)
        try:
            job.search.fit(job.table.problem)
        except StorageError:  # the folder may be that of another run of the same command
            raise
        except ProblemError:
            if new:
                folder.discard()
            raise
        return folder.write(job)


def _show(folder: ResultFolder, best: dict[str, Any], job: TuneJob) -> None:
    if job.options.as_json:
        from shiftune.cli._records import column_records

        table = job.table
        found = {
            "folder": str(folder.path),
            **best,
            "notes": list(table.notes),
            "columns": column_records(table),
        }
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from shiftune.checks import Trust
    from shiftune.cli._screen import screen, show_answer

    show_answer(screen(), best, folder.path)
    if best["verdict"]["trust"] == Trust.DO_NOT_USE:
        reason = f"Do not use this model at {best['target']}: {best['verdict']['reason']}"
        typer.echo(printable(reason), err=True)
