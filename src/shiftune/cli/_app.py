"""Application of the command line: registers commands, and turns errors into exit codes."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from shiftune import __version__, _interrupts
from shiftune._wording import printable
from shiftune.errors import ProblemError

MISTAKE = 2
AGAIN = "put this right and run the same again"
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
            typer.echo(printable(f"shiftune: {what}; {AGAIN}"), err=True)
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            _interrupts.print_stopped()
            raise typer.Exit(_interrupts.STOPPED) from None


app = typer.Typer(
    cls=Explaining,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def command(**options: Any) -> Callable[[Command], Command]:
    """Register a command whose docstring is its help; indented paragraphs are examples."""

    def register(function: Command) -> Command:
        return app.command(help=_flowing(function.__doc__ or ""), **options)(function)

    return register


def _flowing(text: str) -> str:
    r"""Join the lines of each paragraph, except indented ones: the terminal breaks them.

    >>> _flowing("One\ntwo.\n\n  kept\n  apart")
    'One two.\n\n  kept\n  apart'
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(p if p.startswith("  ") else " ".join(p.split()) for p in paragraphs)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shiftune {__version__}")
        raise typer.Exit


HELP = """Choose hyperparameters, and know the error, for a site you have no labels from.

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


def command_line() -> str:
    """Return the command line of this process."""
    return shlex.join(["shiftune", *sys.argv[1:]])
