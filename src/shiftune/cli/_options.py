"""Options of the commands, each declared once: help, check, completion and role."""

# ruff: noqa: RUF009 - `declare` is a field
from __future__ import annotations

import inspect
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from functools import cache, cached_property
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
from shiftune._options import RUNNING, Check, OneOf, Role, first_paragraph, in_shell
from shiftune._wording import check_different, hint
from shiftune.errors import SettingsError, StorageError

if TYPE_CHECKING:
    from shiftune.problem import ShiftProblem
    from shiftune.tables import SiteFiles

# ---------------------------------------------------------------- kinds of options

READING = "Table"  # a panel of the help


def option(metavar: str, text: str, panel: str | None = None, *flags: str, **more: Any) -> Any:
    """Return an option."""
    return typer.Option(*flags, metavar=metavar, help=text, rich_help_panel=panel, **more)


def flag(name: str, text: str, panel: str | None = None) -> Any:
    """Return an option without a value."""
    return typer.Option(name, metavar="", help=text, rich_help_panel=panel)


def argument(metavar: str, text: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=text)


def completing(choices: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function with which the shell completes names."""
    return lambda incomplete: [name for name in choices if name.startswith(incomplete)]


def checked_option(
    check: Check | None, metavar: str, text: str, panel: str | None, flag: str, *short: str
) -> Any:
    """Return an option with a check and completion of names; those of a list are different."""

    def checked(value: Any) -> Any:
        several = value if isinstance(value, list) else [value]
        for entry in several:
            if isinstance(check, OneOf) and isinstance(entry, str) and "," in entry:
                names = [name.strip() for name in entry.split(",")]
                if set(names) <= set(check.choices):
                    repeated = " ".join(f"{flag} {name}" for name in names)
                    raise SettingsError(f"{flag} takes one name at a time; repeat it: {repeated}")
            if check is not None:
                check(entry, flag)
        check_different(several, flag.removeprefix("--"))
        return value

    more = {"autocompletion": completing(check.choices)} if isinstance(check, OneOf) else {}
    return option(metavar, text, panel, flag, *short, callback=checked, **more)


def search_option(name: str) -> Any:
    """Return an option of a search, with its check, completion and help."""
    of_search, shell = in_shell()[name]
    text = shell.text or first_paragraph(of_search.name)
    if get_origin(shell.kind) is list:
        text += " Can be repeated."
    flags = [shell.flag, *filter(None, [shell.short])]
    check = of_search.metadata["check"]
    info = checked_option(check, shell.metavar, text, shell.panel, *flags)
    if dict in [get_origin(kind) for kind in get_args(shell.kind)]:
        info.parser = _space_entries
    return info


def _with_search_options() -> type:
    """Return a dataclass of all options of a search that the command line has."""
    entries = []
    for name, (of_search, shell) in in_shell().items():
        several = get_origin(shell.kind) is list
        default = field(default_factory=list) if several else field(default=of_search.default)
        marks = (search_option(name), of_search.metadata["role"])
        hint: Any = Annotated[(shell.kind, *marks)]
        entries.append((name, hint, default))
    return make_dataclass("SearchFlags", entries, frozen=True, kw_only=True)


def _space_entries(value: str | dict[str, Any]) -> dict[str, Any]:
    """Read a file; the command line has its path, a settings file may have its entries."""
    from shiftune.models._space import read_entries

    return value if isinstance(value, dict) else read_entries(Path(value))


# ---------------------------------------------------------------- options as fields


def declare(
    metavar: str,
    text: str,
    panel: str | None = READING,
    *flags: str,
    default: Any = None,
    role: Role = Role.DATA,
    **more: Any,
) -> Any:
    """Return the field of an option of the command line alone; `list` if it can be repeated."""
    text += " Can be repeated." if default is list else ""
    marks = {"marks": (option(metavar, text, panel, *flags, **more), role)}
    if default is list:
        return field(default_factory=list, metadata=marks)
    return field(default=default, metadata=marks)


SAVED = (Role.DATA, Role.SEARCH, Role.RESULT)
Options = TypeVar("Options")


@dataclass(frozen=True)
class Declared:
    """An option as its field declares it; the default is MISSING if it is required."""

    name: str
    hint: Any
    default: Any

    @property
    def key(self) -> str:
        """Name on the command line, without dashes in front."""
        info = self._mark(OptionInfo | ArgumentInfo)
        # In an annotation, Typer takes the first flag for the default.
        flags = map(str, (info.default, *(info.param_decls or ())))
        first = next((flag for flag in flags if flag.startswith("--")), f"--{self.name}")
        return first.split("/")[0].removeprefix("--").replace("_", "-")

    @property
    def role(self) -> Role:
        """Part of a run that the option decides."""
        return self._mark(Role) or Role.SEARCH

    @property
    def repeated(self) -> bool:
        """Whether it can be given several times."""
        return get_origin(self.hint.__origin__) is list

    @property
    def holds_table(self) -> bool:
        """Whether its value is read from a file, whose content a settings file can have."""
        return dict in [get_origin(kind) for kind in get_args(self.hint.__origin__)]

    @property
    def is_path(self) -> bool:
        """Whether its text is the path of a file or folder."""
        return self.holds_table or Path in (self.hint.__origin__, *get_args(self.hint.__origin__))

    def _mark(self, kind: Any) -> Any:
        return next((mark for mark in self.hint.__metadata__ if isinstance(mark, kind)), None)


def _declared(options: type) -> list[Declared]:
    """Return the options of a dataclass."""
    hints = get_type_hints(options, include_extras=True)
    return [
        Declared(
            spec.name,
            Annotated[(hints[spec.name], *spec.metadata["marks"])]
            if "marks" in spec.metadata
            else hints[spec.name],
            spec.default if spec.default_factory is MISSING else spec.default_factory(),
        )
        for spec in fields(options)
    ]


declared: Callable[[type], list[Declared]] = cache(_declared)  # a command asks 50 times


def named(options: type, role: Role) -> list[str]:
    """Return the names of the fields that have a role."""
    return [option.name for option in declared(options) if option.role is role]


def values_of(options: Any, *roles: Role) -> dict[str, Any]:
    """Return the fields that have a role, with their values."""
    return {name: getattr(options, name) for role in roles for name in named(type(options), role)}


def taking(
    options: type[Options], **more: Any
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a command of a function of these options: Typer sees a parameter for every field.

    Further parameters, whose values are not passed on, are given with their annotations.
    """
    hints = [(option.name, option.hint, option.default) for option in declared(options)]
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=hint,
        )
        for name, hint, default in (*hints, *((name, hint, None) for name, hint in more.items()))
    ]

    def decorate(function: Callable[[Options], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            function(options(**{k: value for k, value in values.items() if k not in more}))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {}
        return command

    return decorate


# ---------------------------------------------------------------- options of several commands

Run = Annotated[Path, argument("DIR", "Folder of a result of shiftune tune.")]
MovedTable = Annotated[Path | None, option("FILE", "The table, if it was moved.")]
MovedTargetFile = Annotated[Path | None, option("FILE", "The target's file, if it was moved.")]
SafeCsv = Annotated[
    bool,
    flag(
        "--safe-csv/--no-safe-csv",
        "Escape cells that a spreadsheet would run as formulas.",
    ),
]
Overwrite = Annotated[bool, flag("--overwrite", "Replace a file that exists.")]
Jobs = Annotated[int, search_option("jobs"), Role.TRIALS]
Json = Annotated[bool, flag("--json", "Print JSON, for scripts.", RUNNING), Role.RUN]


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Files, roles of columns, and how they are read."""

    data: Annotated[
        Path,
        argument(
            "DATA",
            "Table of all sites: CSV (also .gz, .bz2, .xz), Parquet, Feather, Excel or .jsonl. A "
            "quoted pattern, 'data/*.csv', stands for several files; a folder for the Parquet "
            "files in it.",
        ),
        Role.FILE,
    ]
    site: str | None = declare(
        "COLUMN", "Column with the site of each row. Without it, every file is a site.", None
    )
    target: list[str] = declare(
        "SITE",
        "Site to tune for, which needs no labels; 'unlabelled' stands for all sites without any. "
        "Default: that of --target-file.",
        None,
        default=list,
    )
    label: str | None = declare("COLUMN", "Label column; excluded from the comparison.", None)
    target_file: Path | None = declare(
        "FILE",
        "Rows of the target, if DATA has only the sources; it needs no site column.",
        role=Role.FILE,
    )
    subject: str | None = declare(
        "COLUMN",
        "Rows with the same value belong together, such as visits of a patient: never divided "
        "between training and validation, and counted as one in intervals. Not used by the model.",
    )
    sample_weight: str | None = declare(
        "COLUMN",
        "Weights of rows: one of weight 2 counts as two, in training, risk and metrics. Not used "
        "by the model.",
    )
    task: Annotated[
        str | None,
        checked_option(
            OneOf("task", _names.TASKS),
            "NAME",
            "Kind of label, classification or regression; default: inferred.",
            READING,
            "--task",
        ),
        Role.DATA,
    ] = None
    keep: list[str] = declare(
        "COLUMN", "Use this column even if it would be left out.", default=list
    )
    drop: list[str] = declare("COLUMN", "Leave this column out.", default=list)
    identifiers: list[str] = declare(
        "COLUMN",
        "Identifier: not used by the model, copied to predictions.csv.",
        READING,
        "--id",
        default=list,
    )
    date_format: str | None = declare(
        "FORMAT", "Format of dates written as text, such as %d/%m/%Y; default: inferred."
    )
    # as `ShiftProblem.from_large`: 1.5 GiB with 20 columns (results/speed.md)
    most_rows: int = declare(
        "N",
        "Maximum rows to read. Larger tables are sampled; small sites are kept whole, the others "
        "equally.",
        min=1,
        default=1_000_000,
    )
    missing: list[str] = declare(
        "COLUMN=VALUE",
        "Value that stands for a missing one, such as age=999.",
        default=list,
    )

    @cached_property
    def files(self) -> SiteFiles:
        """Where the rows are."""
        from shiftune.tables import SiteFiles

        several = len(self.target) > 1
        if several and self.target_file is not None:
            raise SettingsError(
                "--target-file has the rows of one target; for several, give one table of all "
                "sites, and a --target for each"
            )
        one = None if several or not self.target else self.target[0]
        return SiteFiles(self.data, self.target_file, self.site, one)

    def read(self, *, seed: int, **more: Any) -> ShiftProblem:
        """Read the files as a problem; `more` overrides options.

        Larger tables are sampled with this seed.
        """
        from shiftune.problem import ShiftProblem
        from shiftune.problem._large import read_sampled
        from shiftune.problem._table import TableSettings

        files = self.files
        values = values_of(self, Role.DATA) | more
        keep, drop = (values.get(o, False) for o in ("use_target_labels", "drop_unlabelled"))
        settings = TableSettings(
            site=files.site_column,
            target=self.target if len(self.target) > 1 else files.target_name,
            ids=values["identifiers"],
            dates=values["date_format"],
            missing=_missing_values(values["missing"]),
            target_labels="use" if keep else "hide",
            missing_labels="drop" if drop else "error",
            decimal=files.form.decimal,
            option=shell_option,
            **{name: values[name] for name in _SAME_IN_PYTHON if name in values},
        )
        sampled = read_sampled(files, settings, values["most_rows"], seed)
        table = sampled.table.rename(columns=str)
        return ShiftProblem.of_table(table, settings, files.notes, sampled=sampled, warn=False)


# Options that `ShiftProblem.from_frame` has, too.
_SAME_IN_PYTHON = ("label", "subject", "sample_weight", "task", "keep", "drop")


def shell_option(name: str, value: str) -> str:
    """Write an option of the command line.

    >>> shell_option("keep", "visit id"), shell_option("target_labels", "use")
    ("--keep 'visit id'", '--use-target-labels')
    """
    if name == "target_labels":
        return "--use-target-labels"
    return f"--{name.replace('_', '-')} {shlex.quote(value)}"


def _missing_values(entries: Sequence[str]) -> dict[str, list[str]]:
    """Read entries of the form COLUMN=VALUE."""
    codes: dict[str, list[str]] = {}
    for entry in entries:
        name, sign, text = entry.rpartition("=")
        if not sign or not text.strip():
            raise SettingsError(f"--missing needs COLUMN=VALUE, such as age=999, got {entry!r}")
        codes.setdefault(name, []).append(text.strip())
    return codes


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions(TableOptions):
    """Options of `shiftune diagnose`."""

    ratio: Annotated[str, search_option("ratio")] = "logistic"
    seed: Annotated[int, search_option("seed")] = 0
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class TuneOptions(_with_search_options(), TableOptions):  # type: ignore[misc]
    """Options of `shiftune tune`: those of a search (`SearchOptions`), of a table, and its own.

    Settings that are saved, compared with those of an earlier run and read back follow from the
    fields and their roles.
    """

    # field() takes the inherited default away
    label: str = declare("COLUMN", "Column to predict.", None, default=MISSING)
    out: Path | None = declare(
        "DIR",
        "Folder for the results; the same command continues there. Default: DATA-SITE-MODEL, or "
        "DATA-SITE-auto.",
        None,
        role=Role.RUN,
    )
    drop_unlabelled: Annotated[
        bool,
        flag("--drop-unlabelled", "Leave out source rows without a label.", READING),
        Role.DATA,
    ] = False
    use_target_labels: Annotated[
        bool,
        flag(
            "--use-target-labels",
            "Also train and evaluate on the labelled rows of the target.",
            READING,
        ),
        Role.DATA,
    ] = False
    safe_csv: Annotated[SafeCsv, Role.RESULT] = True
    as_json: Json = False

    def params(self) -> dict[str, Any]:
        """Return the parameters of `ShiftSearch`; those that name files or models are not made."""
        values = {option.name: getattr(self, name) for name, (option, _) in in_shell().items()}
        return {name: None if value == [] else value for name, value in values.items()}

    # ---------------------------------------------------------------- as they are saved

    def saved(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        values = values_of(self, *SAVED)
        return {k: sorted(v) if isinstance(v, list) else v for k, v in values.items()}

    def saved_files(self) -> dict[str, str]:
        """Return the paths of the files that are read."""
        paths = values_of(self, Role.FILE).items()
        return {name: str(path.resolve()) for name, path in paths if path is not None}

    def of_result(self) -> dict[str, Any]:
        """Return the saved settings of what is made of the trials."""
        return {k: v for k, v in self.saved().items() if k in named(type(self), Role.RESULT)}

    def compared(self) -> dict[str, Any]:
        """Return the saved settings that all runs in a folder must have in common."""
        ours = self.of_result()
        return {name: value for name, value in self.saved().items() if name not in ours}

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any], files: Mapping[str, Any], where: str) -> Self:
        """Return the options behind saved settings, for a run that adds no trial.

        Settings that did not exist yet when the folder was written have their defaults.
        """
        names = {option.name for option in declared(cls) if option.role in SAVED}
        required = {option.name for option in declared(cls) if option.default is MISSING} - {"data"}
        if not required <= saved.keys() <= names:
            raise StorageError(
                f"{where} is damaged or was written by another version of shiftune; choose "
                "another place"
            )
        return cls(trials=1, **files, **saved)


# ---------------------------------------------------------------- options in a file


def settings_option(options: type) -> Any:
    """Return the annotation of an option that reads the others from a file.

    Options that only `tune` has are skipped, so that commands can share a file.
    """

    def use(ctx: typer.Context, path: Path | None) -> Path | None:
        if path is not None:
            ctx.default_map = read_settings(path, options)
        return path

    text = "TOML file with options, such as label = 'ill'; command-line options take precedence."
    info = option("FILE", text, None, "--settings", callback=use, is_eager=True)
    return Annotated[Path | None, info]


def read_settings(path: Path, options: type) -> dict[str, Any]:
    """Return the options in a file by the names of their fields; paths begin at its folder."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings {path} cannot be read ({error.strerror})") from error
    except ValueError as error:  # invalid TOML or UTF-8
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    by_key = {option.key: option for option in declared(TuneOptions)}
    names = {option.name for option in fields(options)}
    values = {}
    for key, value in entries.items():
        option = by_key.get(key.replace("_", "-"))
        if option is None:
            raise SettingsError(f"{path} has the unknown option {key!r}; {hint(key, by_key)}")
        if option.name in names:
            values[option.name] = _checked(value, option, path)
    return values


def _checked(value: Any, option: Declared, path: Path) -> Any:
    if isinstance(value, Mapping) and not option.holds_table:
        raise SettingsError(f"{path}: {option.key} is a table; give one value")
    if option.repeated:
        return value if isinstance(value, list) else [value]
    if isinstance(value, list):
        raise SettingsError(f"{path}: {option.key} is a list; give one value")
    return str(path.parent / value) if option.is_path and isinstance(value, str) else value


def settings_text(options: TuneOptions) -> str:
    """Return the text of a file with what another run needs to give the same result."""
    values = {**options.saved_files(), **options.saved(), **values_of(options, Role.TRIALS)}
    entries = {option.key: values.get(option.name) for option in declared(TuneOptions)}
    lines = toml_lines({k: v for k, v in entries.items() if v not in (None, [])})
    return f"# shiftune tune --settings THIS_FILE --out DIR repeats this run.\n{lines}\n"
