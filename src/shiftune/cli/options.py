"""Options of the commands, each declared once: help, check, completion and role."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from shiftune import names
from shiftune.cli.option_fields import Role, declared, named, values_of
from shiftune.cli.run_arguments import SafeCsv
from shiftune.cli.table_options import READING, TableOptions
from shiftune.errors import SettingsError, StorageError
from shiftune.loss_names import loss_name
from shiftune.spelling import check_choice, check_different

SEARCHING, RUNNING = "Search", "Run"
SAVED = (Role.DATA, Role.SEARCH, Role.RESULT)


def _name(
    what: str,
    choices: Sequence[str],
    text: str,
    panel: str | None = None,
    show_default: bool = False,
    checked: Callable[[Any], str] | None = None,
) -> Any:
    """Return an option for names out of several: checked, and completed by the shell."""

    def check(value: Any) -> Any:
        if isinstance(value, list):
            for each in value:
                _check_one(each, choices, what)
            check_different(value, what)
            return value
        if value is None:
            return None
        return check_choice(value, choices, what) if checked is None else checked(value)

    def complete(incomplete: str) -> list[str]:
        return [name for name in choices if name.startswith(incomplete)]

    return typer.Option(
        metavar="NAME",
        help=text,
        callback=check,
        autocompletion=complete,
        rich_help_panel=panel,
        show_default=show_default,
    )


def _above_zero(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise typer.BadParameter(f"{seconds:g} is no time above 0 seconds")
    return seconds


def _check_one(name: str, choices: Sequence[str], what: str) -> None:
    """Check a name of an option that can be repeated."""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= set(choices):
        repeated = " ".join(f"--{what} {part}" for part in parts)
        raise SettingsError(f"--{what} takes one name at a time; repeat it: {repeated}")
    check_choice(name, choices, what)


def _check_jobs(value: Any) -> Any:
    if value == 0 or value < -1:
        raise SettingsError(f"--jobs must be a number of processes, or -1 for all cores: {value}")
    return value


def _space_entries(given: str | dict[str, Any]) -> dict[str, Any]:
    """Read a file; the command line has its path, a settings file may have its entries."""
    from shiftune.models.space_file import read_entries

    return given if isinstance(given, dict) else read_entries(Path(given))


def _metrics_with(incomplete: str) -> list[str]:
    return [name for name in names.METRICS if name.startswith(incomplete)]


# "oracle" needs labels of the target that are kept aside, which only Python code can do.
RISKS = tuple(name for name in names.RISKS if name != "oracle")

Ratio = Annotated[
    str,
    _name(
        "density ratio",
        names.RATIOS,
        "Density ratios, for the risk estimators that need them; auto compares all, and is slow.",
        SEARCHING,
        True,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Random seed; the same seed and --jobs give the same result.",
        rich_help_panel=SEARCHING,
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        help="Number of processes; -1: one per core.",
        callback=_check_jobs,
        rich_help_panel=RUNNING,
    ),
    Role.RUN,
]
Json = Annotated[
    bool,
    typer.Option("--json", metavar="", help="Print JSON, for scripts.", rich_help_panel=RUNNING),
    Role.RUN,
]


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions(TableOptions):
    """Options of `shiftune diagnose`."""

    ratio: Ratio = "logistic"
    seed: Seed = 0
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class TuneOptions(TableOptions):
    """Options of `shiftune tune`.

    A new option is a field here, and its use. Settings that are saved, compared with those
    of an earlier run and read back follow from the fields and their roles.
    """

    label: Annotated[  # field() takes the inherited default away
        str,
        typer.Option(metavar="COLUMN", help="Column to predict.", show_default=False),
        Role.DATA,
    ] = field()
    model: Annotated[
        list[str],
        _name(
            "model",
            (*names.MODELS, names.AUTO),
            "Model to tune; names below. Can be repeated: several models share the trials. "
            "Default: auto, which is boosted trees, a kernel machine and a linear model.",
        ),
    ] = field(default_factory=list)
    trials: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of trials, those of earlier runs included."),
        Role.RUN,
    ] = 50
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            callback=_above_zero,
            help="Begin no trial after this time; the same command continues.",
            rich_help_panel=RUNNING,
            show_default=False,
        ),
        Role.RUN,
    ] = None
    trial_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            callback=_above_zero,
            help="Time for the fits of one trial; a longer trial fails, and the search goes on.",
            rich_help_panel=RUNNING,
            show_default=False,
        ),
        Role.RUN,
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the results; the same command continues there. "
            "Default: DATA-SITE-MODEL, or DATA-SITE-auto.",
            show_default=False,
        ),
        Role.RUN,
    ] = None
    task: Annotated[
        str | None,
        _name(
            "task",
            names.TASKS,
            "Kind of label, classification or regression; default: inferred.",
            READING,
        ),
        Role.DATA,
    ] = None
    drop_unlabelled: Annotated[
        bool,
        typer.Option(
            "--drop-unlabelled",
            metavar="",
            help="Leave out source rows without a label.",
            rich_help_panel=READING,
        ),
        Role.DATA,
    ] = False
    use_target_labels: Annotated[
        bool,
        typer.Option(
            "--use-target-labels",
            metavar="",
            help="Also evaluate and train with the labels that rows of the target have.",
            rich_help_panel=READING,
        ),
        Role.DATA,
    ] = False
    space: Annotated[
        dict[str, Any] | None,
        typer.Option(
            metavar="FILE",
            parser=_space_entries,
            help="Search space, TOML or JSON; [bold]shiftune models NAME[/] prints one to edit.",
            rich_help_panel=SEARCHING,
            show_default=False,
        ),
    ] = None
    loss: Annotated[
        str | None,
        _name(
            "loss",
            names.LOSSES,
            "Loss of a prediction, or a metric such as auc; default: log_loss or squared.",
            SEARCHING,
            checked=loss_name,
        ),
    ] = None
    risk: Annotated[
        str,
        _name("risk estimator", RISKS, "Estimator of the risk at the target.", SEARCHING, True),
    ] = "adjusted"
    ratio: Ratio = "logistic"
    final: Annotated[
        str | None,
        _name(
            "final model",
            names.FINALS,
            "What predicts: a weighted mean of the best trials (ensemble) or the best trial alone "
            "(best); default: ensemble with the risk estimator adjusted, best otherwise.",
            SEARCHING,
        ),
        Role.RESULT,
    ] = None
    metric: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Metric to estimate beside the loss, such as auc, o_e, sensitivity@0.2, rmse, or "
            "a scorer of scikit-learn. Can be repeated. Default: a set for the label.",
            autocompletion=_metrics_with,
            rich_help_panel=SEARCHING,
            show_default=False,
        ),
        Role.RESULT,
    ] = field(default_factory=list)
    safe_csv: Annotated[SafeCsv, Role.RESULT] = True
    seed: Seed = 0
    jobs: Jobs = 1
    join: Annotated[
        bool,
        typer.Option(
            "--join",
            metavar="",
            help="Share the trials with other processes that run the same command with the same "
            "--out, on machines that share the folder; the last one writes the results.",
            rich_help_panel=RUNNING,
        ),
        Role.RUN,
    ] = False
    as_json: Json = False

    def saved(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        found = values_of(self, *SAVED)
        return {k: sorted(v) if isinstance(v, list) else v for k, v in found.items()}

    def saved_files(self) -> dict[str, str]:
        """Return the paths of the files that are read."""
        given = values_of(self, Role.FILE).items()
        return {name: str(path.resolve()) for name, path in given if path is not None}

    def repeated(self) -> dict[str, Any]:
        """Return what another run needs to give the same result."""
        run = {"trials": self.trials, "jobs": self.jobs, "trial_timeout": self.trial_timeout}
        return {**self.saved_files(), **self.saved(), **run}

    def of_result(self) -> dict[str, Any]:
        """Return the saved settings of what is made of the trials."""
        return {name: self.saved()[name] for name in named(type(self), Role.RESULT)}

    def compared(self) -> dict[str, Any]:
        """Return the saved settings that all runs in a folder must have in common."""
        ours = self.of_result()
        return {name: value for name, value in self.saved().items() if name not in ours}

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any], files: Mapping[str, Any], where: str) -> Self:
        """Return the options behind saved settings, for a run that adds no trial.

        Settings that did not exist yet when the folder was written have their defaults.
        """
        known = {n for role in SAVED for n in named(cls, role)}
        required = {each.name for each in declared(cls) if each.default is MISSING} - {"data"}
        if not required <= saved.keys() <= known:
            raise StorageError(
                f"{where} is damaged or was written by another version of shiftune; choose "
                "another place"
            )
        return cls(trials=1, **files, **saved)
