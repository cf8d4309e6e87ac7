"""Options of the commands, each declared once: help, check, completion and role."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum, auto
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar, get_type_hints

import typer

from shiftune import names
from shiftune.errors import SettingsError, StorageError
from shiftune.spelling import check_choice, check_different

READING, SEARCHING, RUNNING = "Table", "Search", "Run"


class Role(Enum):
    """Part of a run that an option decides; `SEARCH` where a field names none."""

    DATA = auto()
    """The rows, columns and labels that are read: an argument of `shiftune.tables.site_table`."""
    SEARCH = auto()
    """The model and the trials."""
    RESULT = auto()
    """What is made of the trials; saved, but another run may want another result."""
    RUN = auto()
    """Place, pace and output of this run; neither saved nor compared."""


class ReadFile(NamedTuple):
    """Mark of an option whose value is read from a file: the command line takes its path."""

    read: Callable[[Path], Any]


def _name(
    what: str,
    choices: Sequence[str],
    text: str,
    panel: str | None = None,
    show_default: bool = False,
) -> Any:
    """Return an option for names out of several: checked, and completed by the shell."""

    def check(value: Any) -> Any:
        if isinstance(value, list):
            for each in value:
                _check_one(each, choices, what)
            check_different(value, what)
            return value
        return None if value is None else check_choice(value, choices, what)

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


def _check_one(name: str, choices: Sequence[str], what: str) -> None:
    """Check a name of an option that can be repeated."""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= set(choices):
        repeated = " ".join(f"--{what} {part}" for part in parts)
        raise SettingsError(f"--{what} takes one name at a time; repeat it: {repeated}")
    check_choice(name, choices, what)


def _columns(*flags: str, text: str) -> Any:
    return typer.Option(
        *flags,
        metavar="COLUMN",
        help=f"{text} Can be repeated.",
        rich_help_panel=READING,
        show_default=False,
    )


def _check_jobs(value: Any) -> Any:
    if value == 0 or value < -1:
        raise SettingsError(f"--jobs must be a number of processes, or -1 for all cores: {value}")
    return value


def _space_entries(path: Path) -> dict[str, Any]:
    from shiftune.models.space_file import read_entries

    return read_entries(path)


# "oracle" needs labels of the target that are kept aside, which only Python code can do.
RISKS = tuple(name for name in names.RISKS if name != "oracle")

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table of all sites: CSV (also .gz, .bz2, .xz, .zip), Parquet or Feather.",
        show_default=False,
    ),
    Role.RUN,  # the fingerprint of what it holds is compared, not its path
]
SiteColumn = Annotated[
    str,
    typer.Option(metavar="COLUMN", help="Column with the site of each row.", show_default=False),
    Role.DATA,
]
Target = Annotated[
    str,
    typer.Option(metavar="SITE", help="Site to tune for; needs no labels.", show_default=False),
    Role.DATA,
]
Keep = Annotated[
    list[str], _columns(text="Use this column even if it would be left out."), Role.DATA
]
Drop = Annotated[list[str], _columns(text="Leave this column out."), Role.DATA]
Identifiers = Annotated[
    list[str],
    _columns("--id", text="Identifier: not used by the model, copied to predictions.csv."),
    Role.DATA,
]
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
        help="Random seed; the same seed gives the same result.",
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
class DiagnoseOptions:
    """Options of `shiftune diagnose`."""

    data: Data
    site: SiteColumn
    target: Target
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Label, not compared.", show_default=False),
        Role.DATA,
    ] = None
    keep: Keep = field(default_factory=list)
    drop: Drop = field(default_factory=list)
    identifiers: Identifiers = field(default_factory=list)
    ratio: Ratio = "logistic"
    seed: Seed = 0
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Options of `shiftune tune`.

    A new option is a field here, and its use. Settings that are saved, compared with those
    of an earlier run and read back follow from the fields and their roles.
    """

    data: Data
    site: SiteColumn
    target: Target
    label: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Column to predict.", show_default=False),
        Role.DATA,
    ]
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
    keep: Keep = field(default_factory=list)
    drop: Drop = field(default_factory=list)
    identifiers: Identifiers = field(default_factory=list)
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
            help="Search space, TOML or JSON; [bold]shiftune models NAME[/] prints one to edit.",
            rich_help_panel=SEARCHING,
            show_default=False,
        ),
        ReadFile(_space_entries),
    ] = None
    loss: Annotated[
        str | None,
        _name(
            "loss",
            names.LOSSES,
            "Loss of a prediction; default: log_loss for classes, squared for quantities.",
            SEARCHING,
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
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            metavar="",
            help="Fit one model per trial instead of five; keeps a third of the gain over naive.",
            rich_help_panel=SEARCHING,
        ),
    ] = False
    seed: Seed = 0
    jobs: Jobs = 1
    as_json: Json = False

    def saved(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        roles = (Role.DATA, Role.SEARCH, Role.RESULT)
        found = {k: v for role in roles for k, v in values_of(self, role).items()}
        return {k: sorted(v) if isinstance(v, list) else v for k, v in found.items()}

    def compared(self) -> dict[str, Any]:
        """Return the saved settings that all runs in a folder must have in common."""
        ours = named(type(self), Role.RESULT)
        return {name: value for name, value in self.saved().items() if name not in ours}

    @classmethod
    def from_saved(cls, data: Path, saved: Mapping[str, Any], where: str) -> Self:
        """Return the options behind saved settings, for a run that adds no trial.

        Settings that did not exist yet when the folder was written have their defaults.
        """
        known = {each.name for each in fields(cls)} - set(named(cls, Role.RUN))
        required = {each.name for each in fields(cls) if _default(each) is MISSING} - {"data"}
        if not required <= saved.keys() <= known:
            raise StorageError(
                f"{where} is damaged or was written by another version of shiftune; choose "
                "another place"
            )
        return cls(data=data, trials=1, **saved)


# ---------------------------------------------------------------- from fields to commands

Options = TypeVar("Options")


def named(options: type, role: Role) -> list[str]:
    """Return the names of the fields that have a role."""
    hints = get_type_hints(options, include_extras=True)
    return [
        each.name for each in fields(options) if _mark(hints[each.name], Role, Role.SEARCH) is role
    ]


def values_of(options: Any, role: Role) -> dict[str, Any]:
    """Return the fields that have a role, with their values."""
    return {name: getattr(options, name) for name in named(type(options), role)}


def taking(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a command of a function of these options: Typer sees a parameter for every field."""
    hints = get_type_hints(options, include_extras=True)
    readers: dict[str, ReadFile] = {}
    parameters = []
    for each in fields(options):  # type: ignore[arg-type]
        hint = hints[each.name]
        if reader := _mark(hint, ReadFile):
            readers[each.name] = reader
            hint = Annotated[Path | None, *hint.__metadata__]
        default = _default(each)
        parameters.append(
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=hint,
            )
        )

    def decorate(function: Callable[[Options], None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            for name, reader in readers.items():
                if given[name] is not None:
                    given[name] = reader.read(given[name])
            function(options(**given))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {}
        return command

    return decorate


def _mark(hint: Any, kind: type, default: Any = None) -> Any:
    return next((mark for mark in hint.__metadata__ if isinstance(mark, kind)), default)


def _default(each: Any) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()
