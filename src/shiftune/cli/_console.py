"""The terminal: text from users' files is shown as it is, and warnings become notes."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from shiftune._wording import printable
from shiftune.errors import DataWarning, OverlapWarning, SearchWarning


class SafeConsole(Console):
    """Console that shows control characters in a text as codes, and reads no markup in it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yield segments; Rich adds its own codes, for colours, later."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def screen(*, silent: bool = False) -> Console:
    """Return the terminal; text from users' files is never read as markup."""
    return SafeConsole(quiet=silent, soft_wrap=False)


@contextmanager
def notes_for_warnings() -> Iterator[None]:
    """Show each warning of this package once, as a note; hide the warnings of other packages."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            show_note(SafeConsole(stderr=True), str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ours in (DataWarning, OverlapWarning, SearchWarning):
            warnings.simplefilter("always", ours)
        warnings.showwarning = show
        yield


def shell_command(*words: Any) -> str:
    """Return a command of shiftune as it can be typed in a shell."""
    return shlex.join(["shiftune", *map(str, words)])


def note(text: str) -> None:
    """Warn about data; a command shows it as a note."""
    warnings.warn(text, DataWarning, stacklevel=2)


def show_note(console: Console, text: str) -> None:
    """Show a note."""
    console.print(facts_grid(("note", text), style="yellow"))


def facts_grid(*facts: tuple[str, str | Text], style: str = "bold") -> Table:
    """Lay out facts with their names on the left."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=style, no_wrap=True)
    grid.add_column()
    for name, fact in facts:
        grid.add_row(name, fact)
    return grid


def grid_of(*columns: str) -> Table:
    """Return a table without rows; a name that begins with ">" is of a column on the right."""
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        side: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        grid.add_column(name.removeprefix(">"), justify=side)
    return grid
