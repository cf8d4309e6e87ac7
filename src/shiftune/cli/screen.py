"""Tables and notes on the terminal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shiftune.cli.console import SafeConsole
from shiftune.errors import DataWarning, OverlapWarning, SearchWarning
from shiftune.level import Level
from shiftune.ratio.overlap import (
    effective_share,
    overlapping,
    overlapping_in_part,
    sorted_by_verdict,
)
from shiftune.tables import SiteFiles, SiteTable
from shiftune.wording import (
    count,
    listed,
    percent,
)

if TYPE_CHECKING:
    from shiftune.cli.options import TuneOptions

# Longer lists are cut off.
MOST_COLUMNS = 25
MOST_SITES = 40
MOST_METRICS = 6
COLOURS = {Level.OK: "green", Level.CAUTION: "yellow", Level.PROBLEM: "red"}


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


def show_table(
    console: Console, files: SiteFiles, table: SiteTable, notes: Sequence[str], *, label: str | None
) -> None:
    """Show the sites, the label and the columns that were read, and the notes."""
    console.print(_facts(files, table, label))
    columns = table.columns
    remarkable = columns if len(columns) <= MOST_COLUMNS else columns[columns["remark"] != ""]
    shown = remarkable.head(MOST_COLUMNS)
    if len(shown):
        grid = grid_of(("column", "left"), ("read as", "left"), ("distinct", "right"))
        grid.add_column("missing", justify="right", no_wrap=True)
        grid.add_column("note", ratio=1)
        for name, row in shown.iterrows():
            style = "" if row["used"] else "dim"
            missing = percent(row["missing"]) if row["missing"] else ""
            cells = (str(name), row["kind"], str(row["distinct"]), missing, row["remark"])
            grid.add_row(*cells, style=style)
        console.print()
        console.print(grid)
    if more := len(columns) - len(shown):
        how = "used without changes" if len(shown) == len(remarkable) else "listed by --json"
        _more(console, f"{more} more columns, {how}")
    if notes:
        console.print()
    for note in notes:
        show_note(console, note)


def _facts(files: SiteFiles, table: SiteTable, label: str | None) -> Table:
    problem = table.problem
    sites = sorted(problem.sources, key=len, reverse=True)
    shown = listed((f"{site.name} ({len(site)})" for site in sites), 8, quoted=False)
    used = table.columns[table.columns["used"]]
    counts = used["kind"].value_counts()
    many = {"number": "numbers", "category": "categories", "date": "dates"}
    kinds = ", ".join(f"{count} {many[str(k)] if count > 1 else k}" for k, count in counts.items())
    left = len(table.columns) - len(used)
    rows = sum(map(len, sites))
    few = problem.labelled_target
    labelled = "" if few is None else f", {len(few)} of them with a label"
    facts = [
        ("Table", str(files)),
        ("Target", f"{problem.target.name}: {len(problem.target)} rows{labelled}"),
        ("Sources", f"{len(sites)} with {rows} rows: {shown}"),
        ("Columns", kinds + (f"; {left} left out" if left else "")),
    ]
    if label is not None:
        facts.insert(3, ("Label", f"{label}, {_about_label(table)}"))
    return labelled_facts(*facts)


def _about_label(table: SiteTable) -> str:
    problem = table.problem
    if problem.task == "regression":
        return "a quantity"
    classes = [str(name) for name in problem.classes]
    return f"{len(classes)} classes: {listed(classes, 6, quoted=False)}"


def show_overlap(console: Console, overlap: pd.DataFrame, target: str) -> None:
    """Show how well each source overlaps with the target, the best first."""
    grid = grid_of(("source", "left"), ("rows", "right"), ("mean weight", "right"))
    grid.add_column("effective rows", justify="right")
    grid.add_column("out of reach", justify="right")
    grid.add_column("verdict", ratio=1)
    for name, row in sorted_by_verdict(overlap).head(MOST_SITES).iterrows():
        grid.add_row(
            str(name),
            str(row["n"]),
            f"{row['mean_weight']:.2f}"
            if row["mean_weight"] >= 0.01
            else f"{row['mean_weight']:.0e}",
            effective_share(row.to_dict()),
            percent(row["uncovered"]) if row["uncovered"] == row["uncovered"] else "?",
            Text(row["verdict"], style=COLOURS[row["level"]]),
        )
    console.print()
    console.print(grid)
    if len(overlap) > MOST_SITES:
        _more(console, f"{len(overlap) - MOST_SITES} more sources")
    console.print()
    console.print(_in_one_sentence(overlap, target))
    console.print(
        Text(
            "The diagnosis uses half of each source's rows. Mean weight: 1 if the source covers "
            "the target. Effective rows: share left after weighting by similarity to the target. "
            "Out of reach: share of target rows unlike any row of the source. shiftune tune uses "
            "all sources by default; risk estimators with density ratios, such as "
            "variance_reduced, leave doubtful sources out.",
            style="dim",
        )
    )


def _in_one_sentence(overlap: pd.DataFrame, target: str) -> str:
    n, whole = len(overlap), int(overlapping(overlap).sum())
    part = int(overlapping_in_part(overlap).sum())
    if not whole and not part:
        return (
            f"No source by itself overlaps with {target}: any estimate of the error there is an "
            "extrapolation."
        )
    sources = f"source{'s' * (n > 1)}"
    if not whole:
        return f"No source covers all of {target}; {part} of {n} {sources} overlap in part."
    rest = f", and {part} more in part" if part else ""
    return f"{whole} of {n} {sources} overlap{'s' * (whole == 1)} with {target}{rest}."


def show_task(console: Console, options: TuneOptions, earlier: int) -> None:
    """Show the settings of a search that begins or continues."""
    went = f", {earlier} of them done" if earlier else ""
    console.print(
        f"\nTuning {listed(options.model, quoted=False)}: {count(options.trials, 'trial')}{went}, "
        f"loss {options.loss}, risk {options.risk}, seed {options.seed}"
    )


def show_finished(console: Console, best: dict[str, Any], folder: Path) -> None:
    """Show that the folder has all trials already."""
    console.print(
        f"\n{folder} already has {count(best['trials'], 'trial')}; a larger --trials adds more."
    )


def show_models(console: Console) -> None:
    """Show the models and their search spaces."""
    from shiftune.models import MODELS
    from shiftune.models.space_file import format_range

    grid = grid_of(("model", "left"), ("hyperparameter", "left"))
    grid.add_column("search range", ratio=1)
    for name, model in MODELS.items():
        only = "" if len(model.tasks) > 1 else f", {model.tasks[0]} only"
        grid.add_row(name, Text(f"{model.about}{only}", style="italic"), "")
        for parameter, values in model.space().items():
            grid.add_row("", parameter, format_range(values))
    console.print(grid)
    console.print(
        Text(
            "\nwhole: whole numbers; log: logarithmic scale. "
            "shiftune models NAME prints a search space as a file for --space.",
            style="dim",
        )
    )


def show_note(console: Console, text: str) -> None:
    """Show a note."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="yellow", no_wrap=True)
    grid.add_column()
    grid.add_row("note", text)
    console.print(grid)


def _more(console: Console, what: str) -> None:
    console.print(Text(f"and {what}", style="dim"))


def labelled_facts(*facts: tuple[str, str | Text]) -> Table:
    """Lay out facts with their names on the left."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, fact in facts:
        grid.add_row(name, fact)
    return grid


def grid_of(*columns: tuple[str, str]) -> Table:
    """Return a table without rows; columns have a name and a side."""
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, side in columns:
        grid.add_column(name, justify="right" if side == "right" else "left", no_wrap=False)
    return grid
