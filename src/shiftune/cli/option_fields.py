"""Fields of a dataclass as the parameters of a command, each with a role."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import Enum, auto
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints


class Role(Enum):
    """Part of a run that an option decides; `SEARCH` where a field names none."""

    FILE = auto()
    """A file that is read: what it holds is compared, not its path."""
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
        default = default_of(each)
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


def default_of(each: Any) -> Any:
    """Return the default of a field; MISSING where it has none."""
    return each.default if each.default_factory is MISSING else each.default_factory()
