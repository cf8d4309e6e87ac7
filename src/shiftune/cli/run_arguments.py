"""Arguments that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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
