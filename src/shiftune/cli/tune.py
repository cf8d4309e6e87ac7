"""`shiftune tune`: hyperparameters, model and predictions for a site without labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from shiftune.cli.app import STOPPED, checked_jobs, command, command_line, goes_on
from shiftune.cli.options import (
    Data,
    Drop,
    Id,
    Jobs,
    Json,
    Keep,
    Label,
    Loss,
    Model,
    Ratio,
    Risk,
    Seed,
    SiteColumn,
    Target,
    Task,
)
from shiftune.errors import ProblemError

if TYPE_CHECKING:
    from shiftune.cli.folder import ResultFolder
    from shiftune.cli.job import TuneJob


class TuneCommand(TyperCommand):
    """A command whose help lists the names that can be given, once it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from shiftune.cli.choices import loss_names, risk_names
        from shiftune.models import MODELS

        self.epilog = "\n\n".join(
            f"[bold]{what}[/]: {', '.join(names)}"
            for what, names in (
                ("Models", list(MODELS)),
                ("Risk estimators", risk_names()),
                ("Losses for classes", loss_names("classification")),
                ("Losses for quantities", loss_names("regression")),
            )
        )
        super().format_help(ctx, formatter)


@command(cls=TuneCommand, rich_help_panel="Your data")
def tune(
    data: Data,
    site: SiteColumn,
    label: Label,
    target: Target,
    model: Model,
    space: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to look for hyperparameters, TOML or JSON; "
            "[bold]shiftune models NAME[/] prints one to edit.",
            show_default=False,
        ),
    ] = None,
    loss: Loss = None,
    trials: Annotated[
        int, typer.Option(metavar="N", help="How many to try, those of earlier runs included.")
    ] = 50,
    risk: Risk = None,
    ratio: Ratio = "logistic",
    task: Task = None,
    keep: Keep = None,
    drop: Drop = None,
    identifiers: Id = None,
    drop_unlabelled: Annotated[
        bool, typer.Option("--drop-unlabelled", help="Leave out source rows without a label.")
    ] = False,
    use_target_labels: Annotated[
        bool,
        typer.Option(
            "--use-target-labels",
            help="Use the labels that rows of the target have, to judge and to train.",
        ),
    ] = False,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="One model per trial instead of five, for about a third of the gain."
        ),
    ] = False,
    jobs: Jobs = 1,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the result; default: DATA-SITE-MODEL, here. Run again to go on.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the best hyperparameters for a site without labels, and estimate the error there.

    For example:

      shiftune tune visits.csv --site ward --target A --label died --model logistic

    The other sites are the sources, which need labels. Labels that the target has are set aside;
    with --use-target-labels they judge the trials beside the sources, and train the final model.
    Identifiers and constant columns are left out, with a note.

    DIR gets [bold]report.html[/], [bold]best.json[/], [bold]predictions.csv[/] (all rows of the
    target: its identifiers as they stand in the file, the row in the file counted from 0, what the
    model says), [bold]trials.csv[/], the model (load it with [bold]shiftune.load_model[/]),
    settings.json and study.journal, which optuna-dashboard can show. Stop it with Ctrl-C and run
    the same command again: it goes on. More trials: the same command with a larger --trials.
    """
    if trials < 1:
        raise ProblemError(f"--trials is how many to try, at least 1, got {trials}")
    checked_jobs(jobs)
    from shiftune.cli.folder import ResultFolder
    from shiftune.cli.job import TuneOptions, prepare_job
    from shiftune.cli.screen import screen, show_finished, show_table, show_task

    folder = ResultFolder(out or _default_folder(data, target, model))
    asked = TuneOptions(
        data=data,
        site=site,
        target=target,
        label=label,
        model=model,
        task=None if task is None else task.value,
        keep=tuple(keep or ()),
        drop=tuple(drop or ()),
        identifiers=tuple(identifiers or ()),
        drop_unlabelled=drop_unlabelled,
        use_target_labels=use_target_labels,
        fast=fast,
        space=space,
        loss=loss,
        risk=risk,
        ratio=ratio,
        seed=seed,
    )
    undertaking = prepare_job(asked, trials=trials, jobs=jobs, storage=folder.journal)
    new = folder.check(undertaking)
    best = None if new else folder.best()
    console = screen(silent=as_json)
    show_table(console, data, undertaking.table, undertaking.table.notes, label=label)
    stopped = False
    if best is not None and best["trials"] >= trials:
        show_finished(console, best, folder.path)
    else:
        folder.begin(undertaking, command_line())
        show_task(console, undertaking, trials, 0 if best is None else best["trials"])
        with goes_on():
            best = _searched(undertaking, folder, new)
        stopped = undertaking.search.interrupted_
    _show(folder, best, undertaking, as_json)
    if stopped:
        typer.echo("stopped; run the same command again to go on", err=True)
        raise typer.Exit(STOPPED)


NO_REPORT = "no report was written, which needs more packages: pip install 'shiftune[report]'"


def _default_folder(data: Path, target: str, model: str) -> Path:
    stem = data.name.split(".", maxsplit=1)[0]
    return Path(re.sub(r"[^\w.-]+", "_", f"{stem}-{target}-{model}"))


def _searched(undertaking: TuneJob, folder: ResultFolder, new: bool) -> dict[str, Any]:
    from shiftune.cli.screen import notes_for_warnings

    search = undertaking.search
    with notes_for_warnings():
        try:
            search.fit(undertaking.table.problem)
        except ProblemError:
            if getattr(search, "interrupted_", False):
                raise KeyboardInterrupt from None
            if new:
                folder.discard()
            raise
        best = folder.write(undertaking)
        if folder.can_report():
            folder.write_report(undertaking)
        else:
            typer.echo(f"{NO_REPORT}; then: shiftune report {folder.path}", err=True)
    return best


def _show(folder: ResultFolder, best: dict[str, Any], undertaking: TuneJob, as_json: bool) -> None:
    if as_json:
        from shiftune.cli.records import column_records

        table = undertaking.table
        found = {
            "folder": str(folder.path),
            **best,
            "notes": list(table.notes),
            "columns": column_records(table),
        }
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from shiftune.cli.screen import screen, show_answer

    show_answer(screen(), best, folder.path)
