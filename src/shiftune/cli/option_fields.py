"""Fields of a dataclass as the parameters of a command, each with a role."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo


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
