"""Options of the commands, each declared once: help, check, completion and role."""

from __future__ import annotations

import inspect
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum, auto
from functools import cached_property
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from typer.models import ArgumentInfo, OptionInfo

from shiftune import _names
from shiftune._files import toml_lines
from shiftune._wording import check_choice, check_different, hint, loss_name
from shiftune.errors import SettingsError, StorageError

if TYPE_CHECKING:
    from shiftune.tables import SiteFiles, SiteTable


class Role(Enum):
    """Part of a run that an option decides; `SEARCH` where a field names none."""

    FILE = auto()
    """A file that is read: what it holds is compared, not its path."""
    DATA = auto()
    """The rows, columns and labels that are read: a field of `shiftune.tables.TableSettings`."""
    SEARCH = auto()
    """The model and the trials."""
    RESULT = auto()
    """What is made of the trials; saved, but another run may want another result."""
    RUN = auto()
    """Place, pace and output of this run; neither saved nor compared."""


Options = TypeVar("Options")


@dataclass(frozen=True)
class Declared:
    """An option as its field declares it.

    Attributes
    ----------
    name : str
        Of the field.
    key : str
        As it is called on the command line, without dashes in front.
    hint : type
        With the annotations of the field.
    default : object
        MISSING if the option is required.
    """

    name: str
    key: str
    hint: Any
    default: Any

    @property
    def role(self) -> Role:
        """Part of a run that the option decides."""
        found: Role = _mark(self.hint, Role, Role.SEARCH)
        return found

    @property
    def repeated(self) -> bool:
        """Whether it can be given several times."""
        return get_origin(self.hint.__origin__) is list

    @property
    def holds_table(self) -> bool:
        """Whether its value is read from a file, whose content a settings file can have."""
        return dict in [get_origin(each) for each in get_args(self.hint.__origin__)]

    @property
    def is_path(self) -> bool:
        """Whether its text is the path of a file or folder."""
        return self.holds_table or Path in (self.hint.__origin__, *get_args(self.hint.__origin__))


def declared(options: type) -> list[Declared]:
    """Return the options of a dataclass."""
    hints = get_type_hints(options, include_extras=True)
    return [
        Declared(each.name, _key(hints[each.name], each.name), hints[each.name], _default(each))
        for each in fields(options)
    ]


def _key(hint: Any, name: str) -> str:
    info = _mark(hint, OptionInfo | ArgumentInfo)
    # In an annotation, Typer takes the first flag for the default.
    given = map(str, (info.default, *(info.param_decls or ())))
    flag = next((flag for flag in given if flag.startswith("--")), f"--{name}")
    return flag.split("/")[0].removeprefix("--").replace("_", "-")


def named(options: type, role: Role) -> list[str]:
    """Return the names of the fields that have a role."""
    return [each.name for each in declared(options) if each.role is role]


def values_of(options: Any, *roles: Role) -> dict[str, Any]:
    """Return the fields that have a role, with their values."""
    return {
        each.name: getattr(options, each.name)
        for role in roles
        for each in declared(type(options))
        if each.role is role
    }


def taking(
    options: type[Options], **more: Any
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a command of a function of these options: Typer sees a parameter for every field.

    Further parameters, whose values are not passed on, are given with their annotations.
    """
    parameters = [_parameter(each.name, each.hint, each.default) for each in declared(options)] + [
        _parameter(name, hint, None) for name, hint in more.items()
    ]

    def decorate(function: Callable[[Options], None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            function(options(**{k: value for k, value in given.items() if k not in more}))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {}
        return command

    return decorate


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    given = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=given, annotation=hint)


def _mark(hint: Any, kind: Any, default: Any = None) -> Any:
    return next((mark for mark in hint.__metadata__ if isinstance(mark, kind)), default)


def _default(each: Any) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


READING = "Table"
# As that of `ShiftProblem.from_large`. A search of 20 columns takes 1.5 GiB then
# (benchmarks/results/speed.md).
MOST_ROWS = 1_000_000


def _columns(*flags: str, text: str) -> Any:
    return typer.Option(
        *flags,
        metavar="COLUMN",
        help=f"{text} Can be repeated.",
        rich_help_panel=READING,
        show_default=False,
    )


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Files, roles of columns, and how they are read."""

    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Table of all sites: CSV (also .gz, .bz2, .xz), Parquet, Feather, Excel or "
            ".jsonl. A quoted pattern, 'data/*.csv', stands for several files; a folder for the "
            "Parquet files in it.",
            show_default=False,
        ),
        Role.FILE,
    ]
    site: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the site of each row. Without it, every file is a site.",
            show_default=False,
        ),
        Role.DATA,
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            metavar="SITE",
            help="Site to tune for; needs no labels. Default: that of --target-file.",
            show_default=False,
        ),
        Role.DATA,
    ] = None
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Label, not compared.", show_default=False),
        Role.DATA,
    ] = None
    target_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Rows of the target, if DATA has only the sources; it needs no site column.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.FILE,
    ] = None
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Rows with the same value belong together, such as visits of a patient: never "
            "divided between training and validation, and counted as one in intervals. Not used by "
            "the model.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.DATA,
    ] = None
    sample_weight: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Weights of rows: one of weight 2 counts as two, in training, risk and metrics. "
            "Not used by the model.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.DATA,
    ] = None
    keep: Annotated[
        list[str], _columns(text="Use this column even if it would be left out."), Role.DATA
    ] = field(default_factory=list)
    drop: Annotated[list[str], _columns(text="Leave this column out."), Role.DATA] = field(
        default_factory=list
    )
    identifiers: Annotated[
        list[str],
        _columns("--id", text="Identifier: not used by the model, copied to predictions.csv."),
        Role.DATA,
    ] = field(default_factory=list)
    date_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="Format of dates written as text, such as %d/%m/%Y; default: inferred.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.DATA,
    ] = None

    most_rows: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Most rows that are read: of more, as many are drawn at random, small sites whole "
            "and of all others the same number.",
            rich_help_panel=READING,
        ),
        Role.DATA,
    ] = MOST_ROWS
    missing: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Value that stands for a missing one, such as age=999. Can be repeated.",
            rich_help_panel=READING,
            show_default=False,
        ),
        Role.DATA,
    ] = field(default_factory=list)

    @cached_property
    def files(self) -> SiteFiles:
        """Where the rows are."""
        from shiftune.tables import SiteFiles

        return SiteFiles(self.data, self.target_file, self.site, self.target)

    def read(self, *, seed: int, **more: Any) -> SiteTable:
        """Read the files as a problem; `more` overrides what is said about the table.

        Of more rows than wanted, some are drawn with this seed.
        """
        from shiftune.tables import TableSettings, site_table

        files = self.files
        roles = {"site": files.site_column, "target": files.target_name}
        given = values_of(self, Role.DATA) | roles | more
        most_rows = given.pop("most_rows")
        settings = TableSettings(**given)
        sampled = files.sample(most_rows, settings.label_rules, self.group, seed)
        if sampled is None:
            return site_table(files.read(), settings, files.notes)
        return site_table(sampled.table, settings, files.notes).of_sample(sampled)


Run = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Folder of a result of shiftune tune.", show_default=False),
]
MovedTable = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The table, if it was moved.", show_default=False),
]
MovedTargetFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The target's file, if it was moved.", show_default=False),
]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv/--no-safe-csv",
        metavar="",
        help="Write text that a spreadsheet would take for a formula with ' before it.",
    ),
]


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
    from shiftune.models._space import read_entries

    return given if isinstance(given, dict) else read_entries(Path(given))


def _metrics_with(incomplete: str) -> list[str]:
    return [name for name in _names.METRICS if name.startswith(incomplete)]


# "oracle" needs labels of the target that are kept aside, which only Python code can do.
RISKS = tuple(name for name in _names.RISKS if name != "oracle")

Ratio = Annotated[
    str,
    _name(
        "density ratio",
        _names.RATIOS,
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
            (*_names.MODELS, _names.AUTO),
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
            _names.TASKS,
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
            _names.LOSSES,
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
            _names.FINALS,
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


HEADING = "# shiftune tune --settings THIS_FILE --out DIR repeats this run."


def settings_option(options: type) -> Any:
    """Return the annotation of an option that reads the others from a file.

    Parameters
    ----------
    options : dataclass
        Options of the command; those that only `tune` has are skipped, so that commands can share
        a file.
    """

    def use(ctx: typer.Context, path: Path | None) -> Path | None:
        if path is not None:
            ctx.default_map = read_settings(path, options)
        return path

    option = typer.Option(
        "--settings",
        metavar="FILE",
        help="TOML file with options, such as label = 'ill'; options of the command line win.",
        callback=use,
        is_eager=True,
        show_default=False,
    )
    return Annotated[Path | None, option]


def read_settings(path: Path, options: type) -> dict[str, Any]:
    """Return the options in a file by the names of their fields; paths begin at its folder."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings {path} cannot be read ({error.strerror})") from error
    except ValueError as error:  # invalid TOML or UTF-8
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    known = {each.key: each for each in declared(TuneOptions)}
    names = {each.name for each in fields(options)}
    found = {}
    for key, value in entries.items():
        option = known.get(key.replace("_", "-"))
        if option is None:
            raise SettingsError(f"{path} has the unknown option {key!r}; {hint(key, known)}")
        if option.name in names:
            found[option.name] = _checked(value, option, path)
    return found


def _checked(value: Any, option: Declared, path: Path) -> Any:
    if isinstance(value, Mapping) and not option.holds_table:
        raise SettingsError(f"{path}: {option.key} is a table; give one value")
    if option.repeated:
        return value if isinstance(value, list) else [value]
    if isinstance(value, list):
        raise SettingsError(f"{path}: {option.key} is a list; give one value")
    return str(path.parent / value) if option.is_path and isinstance(value, str) else value


def settings_text(options: TuneOptions) -> str:
    """Return the text of a file that repeats a run."""
    values = options.repeated()
    given = {each.key: values.get(each.name) for each in declared(TuneOptions)}
    return f"{HEADING}\n{toml_lines({k: v for k, v in given.items() if v not in (None, [])})}\n"
