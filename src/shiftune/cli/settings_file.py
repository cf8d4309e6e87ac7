"""Options of a command in a TOML file, for `--settings`; those on the command line win."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftune._files import toml_lines
from shiftune.cli.option_fields import Declared, declared
from shiftune.cli.options import TuneOptions
from shiftune.errors import SettingsError
from shiftune.spelling import hint

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
