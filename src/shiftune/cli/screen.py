"""What is shown on the terminal."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shiftune.errors import DataWarning, OverlapWarning
from shiftune.level import Level
from shiftune.ratio.overlap import is_doubtful
from shiftune.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from shiftune.cli.options import TuneOptions
    from shiftune.demo import Answer
    from shiftune.tables import SiteTable

# Columns of a table with more are not all listed.
MOST_COLUMNS = 25
MOST_SITES = 40
COLOURS = {Level.OK: "green", Level.CAUTION: "yellow", Level.PROBLEM: "red"}


def screen(*, silent: bool = False) -> Console:
    """Return the terminal; what users' files hold is shown as it is, never as markup."""
    return Console(markup=False, highlight=False, emoji=False, quiet=silent, soft_wrap=False)


@contextmanager
def notes_for_warnings() -> Iterator[None]:
    """Show this package's warnings as notes, each once; those of models are not for the user."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            show_note(Console(stderr=True, markup=False, highlight=False), str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ours in (DataWarning, OverlapWarning):
            warnings.simplefilter("always", ours)
        warnings.showwarning = show
        yield


def show_table(
    console: Console, path: Path, table: SiteTable, notes: Sequence[str], *, label: str | None
) -> None:
    """Show how the table was understood: sites, label, columns, notes."""
    console.print(_facts(path, table, label))
    columns = table.columns
    remarkable = columns if len(columns) <= MOST_COLUMNS else columns[columns["remark"] != ""]
    listed = remarkable.head(MOST_COLUMNS)
    if len(listed):
        grid = _grid(("column", "left"), ("read as", "left"), ("distinct", "right"))
        grid.add_column("missing", justify="right", no_wrap=True)
        grid.add_column("note", ratio=1)
        for name, row in listed.iterrows():
            style = "" if row["used"] else "dim"
            missing = f"{row['missing']:.0%}" if row["missing"] else ""
            cells = (str(name), row["kind"], str(row["distinct"]), missing, row["remark"])
            grid.add_row(*cells, style=style)
        console.print()
        console.print(grid)
    if more := len(columns) - len(listed):
        how = "used as they are" if len(listed) == len(remarkable) else "which --json lists"
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
        facts.insert(3, ("Label", f"{label}: {_about_label(table)}"))
    return _labelled(*facts)


def _about_label(table: SiteTable) -> str:
    problem = table.problem
    if problem.task == "regression":
        return "a quantity (regression)"
    classes = [str(name) for name in problem.classes]
    return f"{len(classes)} classes: {listed(classes, 6, quoted=False)}"


def show_overlap(console: Console, overlap: pd.DataFrame, target: str) -> None:
    """Show who overlaps with the target, the best first."""
    grid = _grid(("source", "left"), ("rows", "right"), ("mean weight", "right"))
    grid.add_column("rows that count", justify="right")
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
            f"{row['ess_share']:.0%}",
            f"{row['uncovered']:.0%}" if row["uncovered"] == row["uncovered"] else "?",
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
        else f"No source by itself overlaps with {target}: any estimate of the error there has to "
        "reach far."
    )
    console.print(
        Text(
            "Rows are a half of each source, kept for looking. Mean weight: 1 where a source "
            "covers the target. Out of reach: target rows unlike any of the source's. The default "
            "of shiftune tune adjusts all sources together; estimates with density ratios (--risk "
            "variance_reduced, say) leave doubtful ones out.",
            style="dim",
        )
    )


def show_task(console: Console, options: TuneOptions, earlier: int) -> None:
    """Show the settings of a search that begins or continues."""
    went = f", {earlier} of them done" if earlier else ""
    fast = ", one model per trial" if options.fast else ""
    console.print(
        f"\nTuning {options.model}: {options.trials} trials{went}, loss {options.loss}, "
        f"risk {options.risk}{fast}, seed {options.seed}"
    )


def show_finished(console: Console, best: dict[str, Any], folder: Path) -> None:
    """Say that there is nothing to do."""
    console.print(
        f"\n{folder} already has {best['trials']} trials; for more give a larger --trials."
    )


def show_answer(console: Console, best: dict[str, Any], folder: Path) -> None:
    """Show the winner, what every source says of it, and where the files are."""
    from shiftune.wording import loss_in_words, number

    risk = best["risk"]
    loss = loss_in_words(best["loss"])
    params = ", ".join(f"{name} = {number(value, 4)}" for name, value in best["params"].items())
    grid = _labelled(
        (f"Expected {loss} at {best['target']}", Text(_if_known(risk["value"]), style="bold")),
        (f"{risk['level']:.0%} interval", f"{_if_known(risk['low'])} to {_if_known(risk['high'])}"),
        ("Estimator", risk["method"]),
        (f"Best of {best['trials']} trials", f"number {best['best_trial']}: {params}"),
    )
    console.print()
    console.print(grid)
    if risk["fallback"]:
        show_note(console, risk["fallback"])
    says = ("says ± std. error", "right")
    grid = _grid(("source", "left"), ("rows", "right"), says, ("share", "right"))
    if any(source["left_out"] for source in best["sources"]):
        grid.add_column("left out because of", ratio=1)
    for source in sorted(best["sources"], key=lambda each: -each["share"])[:MOST_SITES]:
        estimate = f"{_if_known(source['estimate'])} ± {_if_known(source['stderr'], 2)}"
        share = f"{source['share']:.0%}"
        reason = [source["left_out"]] if len(grid.columns) > 4 else []
        grid.add_row(source["site"], str(source["n"]), estimate, share, *reason)
    console.print()
    console.print(grid)
    if len(best["sources"]) > MOST_SITES:
        _more(console, f"{len(best['sources']) - MOST_SITES} more sources")
    if best.get("label_worth"):
        _more_labels(console, best)
    files = ("report.html", "best.json", "predictions.csv", "trials.csv", best["model_file"])
    console.print()
    console.print(f"In {folder}: {', '.join(files)}, settings.json, study.journal")
    if best["model_file"].endswith(".pickle"):
        show_note(console, "loading the model executes code: load it only if you trust its origin")


def _more_labels(console: Console, best: dict[str, Any]) -> None:
    import pandas as pd

    from shiftune.report.labels_in_words import worth_in_words

    worth = pd.DataFrame(best["label_worth"]).set_index("labels")
    gain = worth_in_words(worth, best["target"])
    console.print(Text(f"\n{gain} (--use-target-labels).", style="dim"))


def show_answers(console: Console, answers: Sequence[Answer], target: str) -> None:
    """Show what several estimators came to, beside what is true."""
    grid = _grid(
        ("estimator", "left"),
        ("says", "right"),
        ("95% interval", "right"),
        (f"truth at {target}", "right"),
        ("lies in it", "left"),
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
            f"\nLog loss, less is better. The truth is that of the chosen model on 20,000 other "
            f"patients of {target}. naive: the mean over the sources; unbiased and "
            "variance_reduced: the paper's; adjusted: the default; oracle: tuned with the labels "
            f"of {target}, which nobody has. One draw of hospitals, so chance has a say too.",
            style="dim",
        )
    )


def show_models(console: Console) -> None:
    """Show the models and their spaces."""
    from shiftune.models import MODELS
    from shiftune.models.space_file import format_range

    grid = _grid(("model", "left"), ("hyperparameter", "left"))
    grid.add_column("looked for in", ratio=1)
    for name, model in MODELS.items():
        only = "" if len(model.tasks) > 1 else f", {model.tasks[0]} only"
        grid.add_row(name, Text(f"{model.about}{only}", style="italic"), "")
        for parameter, values in model.space().items():
            grid.add_row("", parameter, format_range(values))
    console.print(grid)
    console.print(
        Text(
            "\nwhole: whole numbers; log: on a logarithmic scale. "
            "shiftune models NAME prints a space as a file that --space reads.",
            style="dim",
        )
    )


def _if_known(value: float | None, digits: int = 4) -> str:
    from shiftune.wording import number

    return "?" if value is None else number(value, digits)


def show_note(console: Console, text: str) -> None:
    """Show what the user should know."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="yellow", no_wrap=True)
    grid.add_column()
    grid.add_row("note", text)
    console.print(grid)


def _more(console: Console, what: str) -> None:
    console.print(Text(f"and {what}", style="dim"))


def _labelled(*facts: tuple[str, str | Text]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, fact in facts:
        grid.add_row(name, fact)
    return grid


def _grid(*columns: tuple[str, str]) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, side in columns:
        grid.add_column(name, justify="right" if side == "right" else "left", no_wrap=False)
    return grid
