"""Verdict on a result, on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shiftune.checks import Trust
from shiftune.cli.screen import COLOURS, labelled_facts
from shiftune.level import Level


def show_verdict(console: Console, verdict: dict[str, Any]) -> None:
    """Show whether to use the result, and the findings that limit it."""
    level = {Trust.TRUST: Level.OK, Trust.WITH_CARE: Level.CAUTION}.get(
        verdict["trust"], Level.PROBLEM
    )
    words = Text(verdict["trust"], style=f"bold {COLOURS[level]}")
    if level is Level.OK:
        words.append(" (no check found anything)", style="not bold default")
    console.print()
    console.print(labelled_facts(("Verdict", words)))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for check in verdict["checks"]:
        if check["level"] == level and level is not Level.OK:
            found = f"{check['name']}: {check['finding']}"
            grid.add_row(Text(check["level"], style=COLOURS[level]), found)
    console.print(grid)
