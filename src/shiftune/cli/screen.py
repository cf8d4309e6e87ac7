"""Tables and notes on the terminal."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shiftune.errors import DataWarning, OverlapWarning, SearchWarning
from shiftune.level import Level
from shiftune.ratio.overlap import is_doubtful
from shiftune.tables import SiteTable
from shiftune.wording import (
    count,
    figures_or_unknown,
    listed,
    loss_in_words,
    lower_by,
    metric_in_words,
    number,
    percent,
    written_like,
)

if TYPE_CHECKING:
    from shiftune.cli.options import TuneOptions
    from shiftune.demo import Answer

# Longer lists are cut off.
MOST_COLUMNS = 25
MOST_SITES = 40
MOST_METRICS = 6
COLOURS = {Level.OK: "green", Level.CAUTION: "yellow", Level.PROBLEM: "red"}


def screen(*, silent: bool = False) -> Console:
    """Return the terminal; text from users' files is never read as markup."""
    return Console(markup=False, highlight=False, emoji=False, quiet=silent, soft_wrap=False)


@contextmanager
def notes_for_warnings() -> Iterator[None]:
    """Show each warning of this package once, as a note; hide the warnings of other packages."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            show_note(Console(stderr=True, markup=False, highlight=False), str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ours in (DataWarning, OverlapWarning, SearchWarning):
            warnings.simplefilter("always", ours)
        warnings.showwarning = show
        yield


def show_table(
    console: Console, path: Path, table: SiteTable, notes: Sequence[str], *, label: str | None
) -> None:
    """Show the sites, the label and the columns that were read, and the notes."""
    console.print(_facts(path, table, label))
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


def _facts(path: Path, table: SiteTable, label: str | None) -> Table:
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
        ("Table", str(path)),
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
    out = is_doubtful(overlap)
    ordered = overlap.assign(out=out).sort_values(["out", "ess_share"], ascending=[True, False])
    for name, row in ordered.head(MOST_SITES).iterrows():
        grid.add_row(
            str(name),
            str(row["n"]),
            f"{row['mean_weight']:.2f}"
            if row["mean_weight"] >= 0.01
            else f"{row['mean_weight']:.0e}",
            percent(row["ess_share"]),
            percent(row["uncovered"]) if row["uncovered"] == row["uncovered"] else "?",
            Text(row["verdict"], style=COLOURS[row["level"]]),
        )
    console.print()
    console.print(grid)
    if len(ordered) > MOST_SITES:
        _more(console, f"{len(ordered) - MOST_SITES} more sources")
    left = len(overlap) - int(out.sum())
    console.print()
    console.print(
        f"{left} of {len(overlap)} source{'s' * (len(overlap) > 1)} overlap{'s' * (left == 1)} "
        f"with {target}."
        if left
        else f"No source by itself overlaps with {target}: any estimate of the error there is an "
        "extrapolation."
    )
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


def show_task(console: Console, options: TuneOptions, earlier: int) -> None:
    """Show the settings of a search that begins or continues."""
    went = f", {earlier} of them done" if earlier else ""
    fast = ", one model per trial" if options.fast else ""
    console.print(
        f"\nTuning {listed(options.model, quoted=False)}: {count(options.trials, 'trial')}{went}, "
        f"loss {options.loss}, "
        f"risk {options.risk}{fast}, seed {options.seed}"
    )


def show_finished(console: Console, best: dict[str, Any], folder: Path) -> None:
    """Show that the folder has all trials already."""
    console.print(
        f"\n{folder} already has {count(best['trials'], 'trial')}; a larger --trials adds more."
    )


def show_answer(console: Console, best: dict[str, Any], folder: Path) -> None:
    """Show the best trial, its risk by source, and the names of the files."""
    from shiftune.report.update_words import update_facts

    risk = best["risk"]
    loss = loss_in_words(best["loss"])
    params = ", ".join(f"{name} = {number(value, 4)}" for name, value in best["params"].items())
    chosen = f"{best['model']}, {params or 'default parameters'}"
    value, low, high = figures_or_unknown(risk["value"], risk["low"], risk["high"])
    grid = labelled_facts(
        (f"Expected {loss} at {best['target']}", Text(value, style="bold")),
        (f"{percent(risk['level'])} interval", f"{low} to {high}"),
        ("Risk estimator", risk["method"]),
        *update_facts(best.get("update"), best["target"]),
    )
    console.print()
    console.print(grid)
    _show_metrics(console, best)
    _show_members(console, best)
    console.print()
    console.print(
        labelled_facts(
            (f"Best of {count(best['trials'], 'trial')}", f"number {best['best_trial']}: {chosen}")
        )
    )
    if risk["fallback"]:
        show_note(console, risk["fallback"])
    estimates = ("estimate ± std. error", "right")
    grid = grid_of(("source", "left"), ("rows", "right"), estimates, ("share", "right"))
    if any(source["left_out"] for source in best["sources"]):
        grid.add_column("left out", ratio=1)
    for source in sorted(best["sources"], key=lambda each: -each["share"])[:MOST_SITES]:
        estimate = " ± ".join(_with_error(source["estimate"], source["stderr"]))
        share = percent(source["share"])
        reason = [source["left_out"]] if len(grid.columns) > 4 else []
        grid.add_row(source["site"], str(source["n"]), estimate, share, *reason)
    console.print()
    console.print(grid)
    if len(best["sources"]) > MOST_SITES:
        _more(console, f"{len(best['sources']) - MOST_SITES} more sources")
    if best.get("label_worth"):
        _more_labels(console, best, folder)
    files = ("report.html", "best.json", "predictions.csv", "trials.csv", best["model_file"])
    others = ("settings.json", "study.journal", "study.journal.answers")
    there = [name for name in (*files, *others) if (folder / name).exists()]
    console.print()
    console.print(f"In {folder}: {', '.join(there)}")
    if best["model_file"].endswith(".pickle"):
        show_note(console, "loading the model executes code; load it only if you trust its origin")


def _show_metrics(console: Console, best: dict[str, Any]) -> None:
    """Show metrics at the target, and the lowest and highest of the sources."""
    grid = grid_of(
        (f"at {best['target']}", "left"),
        ("estimate", "right"),
        ("95 % interval", "left"),
        ("sources", "left"),
    )
    for row in best["metrics"][:MOST_METRICS]:
        if row["estimate"] is None:
            grid.add_row(metric_in_words(row["metric"]), "?", row["note"], "")
            continue
        value, low, high = figures_or_unknown(row["estimate"], row["low"], row["high"])
        lowest, highest = (number(row[end], 3) for end in ("lowest", "highest"))
        of_sites = f"{lowest} ({row['lowest_site']}) to {highest} ({row['highest_site']})"
        grid.add_row(metric_in_words(row["metric"]), value, f"{low} to {high}", of_sites)
    console.print()
    console.print(grid)


def _show_members(console: Console, best: dict[str, Any]) -> None:
    """Show what predicts: one model, or a weighted mean and what it gains."""
    members, gain = best["members"], best["ensemble_gain"]
    if len(members) == 1:
        return
    grid = grid_of(
        ("weight", "right"), ("trial", "right"), ("model", "left"), ("parameters", "left")
    )
    for member in members:
        params = ", ".join(f"{name} {number(v, 3)}" for name, v in member["params"].items())
        grid.add_row(
            percent(member["weight"]),
            str(member["trial"]),
            member["model"],
            Text(params or "default parameters", style="dim"),
        )
    console.print(f"\nThe weighted mean of {len(members)} models predicts:")
    console.print(grid)
    ends = [math.nan if gain[end] is None else gain[end] for end in ("low", "high")]
    console.print(
        Text(
            f"Compared with the best single trial, the {loss_in_words(best['loss'])} is "
            f"{lower_by(gain['value'], (ends[0], ends[1]))}, judged at sites that had no say in "
            "the choice.",
            style="dim",
        )
    )


def _more_labels(console: Console, best: dict[str, Any], folder: Path) -> None:
    import pandas as pd

    from shiftune.report.explanations import worth_in_words

    worth = pd.DataFrame(best["label_worth"]).set_index("labels")
    gain = worth_in_words(worth, best["target"])
    how = (
        "--use-target-labels uses labels in the table"
        if best.get("update_obstacle")
        else f"shiftune label-plan {folder} --n 10 draws such rows"
    )
    console.print(Text(f"\n{gain} ({how}).", style="dim"))


def show_answers(console: Console, answers: Sequence[Answer], target: str) -> None:
    """Show the estimates of several risk estimators beside the truth."""
    grid = grid_of(
        ("estimator", "left"),
        ("estimate", "right"),
        ("95 % interval", "right"),
        (f"truth at {target}", "right"),
        ("covered", "left"),
    )
    for answer in answers:
        risk = answer.search.risk_
        low, high = risk.interval()
        grid.add_row(
            answer.method,
            f"{risk.value:.3f}",
            f"{low:.3f} to {high:.3f}",
            f"{answer.truth:.3f}",
            Text("yes", style="green") if low <= answer.truth <= high else Text("no", style="red"),
        )
    console.print()
    console.print(grid)
    console.print(
        Text(
            f"\nLog loss; less is better. Truth: the chosen model on 20,000 other patients of "
            f"{target}. naive: mean over the sources; unbiased and variance_reduced: the paper's "
            "estimators; adjusted: the default, which averages its best trials; oracle: tuned with "
            f"the hidden labels of {target}. One random draw of hospitals: other draws give other "
            "figures.",
            style="dim",
        )
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


def _with_error(value: float | None, error: float | None) -> tuple[str, str]:
    """Write an estimate and its standard error with the same decimals."""
    if value is None or error is None:
        return "?" if value is None else number(value, 3), "?"
    interval = value - error, value + error
    return written_like(value, interval), written_like(error, interval)


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
