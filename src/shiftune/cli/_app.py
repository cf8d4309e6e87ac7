"""Application of the command line: commands with their options and help, errors as exit codes.

What a command runs is imported when it runs: help and completion load neither NumPy nor pandas.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from shiftune import __version__, _interrupts, _names
from shiftune._wording import check_choice, printable
from shiftune.cli._options import (
    DiagnoseOptions,
    Jobs,
    Json,
    MovedTable,
    MovedTargetFile,
    Overwrite,
    Run,
    SafeCsv,
    TuneOptions,
    argument,
    completing,
    flag,
    option,
    settings_option,
    taking,
)
from shiftune.errors import ProblemError

MISTAKE = 2
Command = TypeVar("Command", bound="Callable[..., Any]")


class Explaining(TyperGroup):
    """Group of commands: errors in the input end with a message and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        _interrupts.keeps_results(False)
        try:
            return super().invoke(ctx)
        except ProblemError as error:
            typer.echo(printable(f"shiftune: {error}"), err=True)
            raise typer.Exit(MISTAKE) from None
        except BrokenPipeError:  # of shiftune ... | head, which Typer handles
            raise
        except OSError as error:  # a full disk, a folder that is gone: wherever that shows first
            where = f": {error.filename}" if error.filename else ""
            what = f"a file cannot be read or written ({error.strerror or error}{where})"
            again = "fix this, then rerun the command"
            typer.echo(printable(f"shiftune: {what}; {again}"), err=True)
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            _interrupts.print_stopped()
            raise typer.Exit(_interrupts.STOPPED) from None


app = typer.Typer(
    cls=Explaining, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


def command(**options: Any) -> Callable[[Command], Command]:
    """Register a command whose docstring is its help.

    The lines of each paragraph are joined, and the terminal breaks them; indented paragraphs, which
    are examples, stay as they are.
    """

    def register(function: Command) -> Command:
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(p if p.startswith("  ") else " ".join(p.split()) for p in paragraphs)
        return app.command(help=text, **options)(function)

    return register


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shiftune {__version__}")
        raise typer.Exit


HELP = """Tune models for a site without labels, and estimate their error there.

Start with a table of all sites that has a column for the site:

  shiftune diagnose data.csv --site ward --target A --label ill
  shiftune tune data.csv --site ward --target A --label ill --model logistic

Each command has its own --help.
"""


@app.callback(help=HELP)
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Options before the command."""


# ---------------------------------------------------------------- commands, in the help's order


@command()
@taking(DiagnoseOptions, settings=settings_option(DiagnoseOptions))
def diagnose(options: DiagnoseOptions) -> None:
    """Compare the sites with the target, before any model is trained.

    For example:

      shiftune diagnose data.csv --site ward --target A --label ill

    A source whose rows are unlike the target's carries little information about it. The table
    has, for each source, its rows, the mean density ratio (weight; 1: the source covers the
    target), the effective share of its rows after weighting, the share of target rows that are
    unlike any of its rows (uncovered), and a verdict. Half of the rows estimate the ratio, the
    other half its mean. By default, tune uses all sources; risk estimators with density ratios,
    such as variance_reduced, leave doubtful sources out.
    """
    from shiftune.cli import _tune

    _tune.diagnose(options)


NAMES = "\n\n".join(
    f"[bold]{what}[/]: {', '.join(names)}"
    for what, names in (
        ("Models", _names.MODELS),
        ("Risk estimators", [name for name in _names.RISKS if name != "oracle"]),
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

    --target can be repeated, and "unlabelled" stands for all sites without labels: one search then
    serves all of them. DIR has targets.csv and an overview as report.html, and in sites/ a folder
    for each of the 30 most urgent, with the files that one target has.

    DIR receives [bold]report.html[/], [bold]model-card.md[/], [bold]best.json[/],
    [bold]predictions.csv[/] (one line per target row: its identifiers, its position in the file
    counted from 0, the prediction), [bold]trials.csv[/], the model (for
    [bold]shiftune.load_model[/]), settings.json, settings.toml (for --settings, repeats the run),
    study.journal (for optuna-dashboard) and study.journal.predictions. Ctrl-C stops the search; the
    same command continues it, also with a larger --trials.
    """
    from shiftune.cli import _tune

    _tune.tune(options)


@command()
def predict(
    folder: Run,
    table: Annotated[
        Path,
        argument(
            "TABLE",
            "New rows: CSV (also .gz, .bz2, .xz, .zip), Parquet, Feather, Excel or JSON lines "
            "(.jsonl); - reads from standard input.",
        ),
    ],
    out: Annotated[
        Path,
        option(
            "FILE",
            "File to write: .csv, .csv.gz, .parquet, .feather, .xlsx or .jsonl; - is standard "
            "output, as CSV.",
        ),
    ] = Path("-"),
    interval: Annotated[
        float | None,
        option(
            "LEVEL",
            "Add a prediction interval (for classes: a prediction set) that contains the true "
            "value at a new site with this probability, such as 0.9.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        flag(
            "--strict",
            "Stop where values cannot be read, or categories or shares of missing values differ "
            "from training.",
        ),
    ] = False,
    safe_csv: SafeCsv = True,
    overwrite: Overwrite = False,
) -> None:
    """Predict new rows with a tuned model.

    For example:

      shiftune predict run next.csv --out predicted.csv
      cat next.csv | shiftune predict run - > predicted.csv

    The table needs the columns that the model reads, in any order. Each line has the identifiers of
    the row, its position in the table counted from 0, the prediction, and for classes their
    probabilities. The latest update of the model is used, if there is one. With several targets,
    the table names the site of each row, and the site's own model predicts it; for a new site, the
    expected error goes to standard error.

    Notes on what differs from the training rows go to standard error. The table is read twice, in
    parts, and may be larger than the memory.
    """
    # Before NumPy is loaded: threads of BLAS take longer to start than small tables to predict, and
    # large ones gain nothing.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from shiftune.cli import _predict

    _predict.predict(
        folder, table, out, interval, strict=strict, safe=safe_csv, overwrite=overwrite
    )


@command()
def report(folder: Run, data: MovedTable = None, target_file: MovedTargetFile = None) -> None:
    """Rewrite the report and the other files of a result.

    For example:

      shiftune report data-A-logistic

    The table is read and the model is fitted again; no trial is added. After Ctrl-C, this gives
    the result of the trials so far. Updates by [bold]shiftune update[/] are shown.
    """
    from shiftune.cli import _tune

    _tune.report(folder, {"data": data, "target_file": target_file})


@command()
def label_plan(
    folder: Run,
    n: Annotated[
        int, option("N", "Number of rows, of all targets together.", None, "--n", "--budget", min=1)
    ],
    out: Annotated[
        Path | None, option("FILE", "File to write, .csv or .xlsx. Default: DIR-labels.csv.")
    ] = None,
    seed: Annotated[int, option("N", "Random seed; the same seed draws the same rows.", min=0)] = 0,
    data: MovedTable = None,
    target_file: MovedTargetFile = None,
) -> None:
    """Draw rows of the target at random, and write a file to fill in their labels.

    For example:

      shiftune label-plan run --n 30      # writes run-labels.csv; fill in the labels, then
      shiftune update run run-labels.csv
      shiftune label-plan run --budget 200    # divided among several targets

    With several targets, rows are divided so that the summed expected error falls most. The file
    has the identifiers, the number of the row in the table, the columns that the model uses, and an
    empty column for the label. Rows whose label was used before are not drawn. Rows may stay empty,
    but not because of their label.
    """
    from shiftune.cli import _update

    _update.draw_rows(folder, n, out, seed, {"data": data, "target_file": target_file})


@command()
def update(
    folder: Run,
    labels: Annotated[
        Path | None,
        argument(
            "LABELS",
            "Table with the labels of some rows of the target; without it, the updates so far are "
            "listed.",
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

    With several targets, every target with labels in LABELS is updated, in DIR/sites/NAME.
    DIR/updates/1 receives [bold]update.json[/] (the estimated error without and with the
    labels, and whether they agree with the first estimate), [bold]predictions.csv[/], the model
    and all labels so far. The next update uses these as well, and is DIR/updates/2. Other files
    of DIR stay as they are.
    """
    from shiftune.cli import _update

    if labels is None:
        _update.list_updates(folder, as_json)
    else:
        _update.update(folder, labels, {"data": data, "target_file": target_file}, as_json)


@command()
def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Model whose search space is printed as a file to edit.",
            callback=lambda value: value and check_choice(value, _names.MODELS, "model"),
            autocompletion=completing(_names.MODELS),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models by name, with their search spaces.

    For example:

      shiftune models
      shiftune models lightgbm > space.toml     # edit it, then
      shiftune tune ... --model lightgbm --space space.toml

    A space file has a line per hyperparameter; all others keep the model's default.

      learning_rate = { low = 0.01, high = 0.3, log = true }  # decimal numbers
      max_depth = { low = 2, high = 8 }                       # whole numbers
      boosting_type = ["gbdt", "dart"]                        # one of these
      n_estimators = 300                                      # always this
    """
    from shiftune.cli import _screen

    _screen.show_models(name, as_json)


@command()
def demo(
    trials: Annotated[int, option("N", "Number of trials with each risk estimator.", min=1)] = 12,
    seed: Annotated[int, option("N", "Seed of the hospitals.", min=0)] = 0,
    jobs: Jobs = 1,
    out: Annotated[Path, option("DIR", "Folder for the report.")] = Path("shiftune-demo"),
    overwrite: Overwrite = False,
) -> None:
    """Show a whole run in about a minute, on generated hospitals with a known truth.

    The demonstration diagnoses the overlap with hospital A, tunes a model for A with each of
    several risk estimators, and compares the estimated with the true errors at A. The report of
    the default estimator goes to DIR.
    """
    from shiftune.cli import _demo

    _demo.demo(trials, seed, jobs, out / "report.html", overwrite)
