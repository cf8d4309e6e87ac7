"""Tables and notes on the terminal."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from shiftune._names import Level
from shiftune._wording import (
    count,
    listed,
    loss_in_words,
    number,
    percent,
    printable,
)
from shiftune.checks import Trust
from shiftune.errors import DataWarning, OverlapWarning, SearchWarning
from shiftune.ratio._overlap import (
    effective_share,
    overlapping,
    overlapping_in_part,
    sorted_by_verdict,
)
from shiftune.report._words import (
    effect_in_words,
    estimate_in_words,
    first_in_words,
    metric_facts,
    model_in_words,
    update_facts,
)
from shiftune.tables import SiteFiles, SiteTable

if TYPE_CHECKING:
    from shiftune.cli._options import TuneOptions


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
    from shiftune.models._space import format_range

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


LEVELS = {Trust.TRUST: Level.OK, Trust.WITH_CARE: Level.CAUTION, Trust.DO_NOT_USE: Level.PROBLEM}
FILES = ("report.html", "model-card.md", "best.json", "predictions.csv", "trials.csv")
OTHERS = ("settings.json", "settings.toml", "study.journal", "study.journal.answers")
# The report has the others.
MOST_STEPS = 2


def show_answer(console: Console, best: dict[str, Any], folder: Path) -> None:
    """Show the answer in brief: verdict, figures, what predicts, what to do next, the files."""
    brief = best["brief"]
    console.print()
    console.print(Text(brief["title"], style="bold"))
    console.print(labelled_facts(("Verdict", _verdict(brief))))
    console.print()
    grid = grid_of((f"expected at {best['target']}", "left"), ("", "right"))
    grid.add_column("95 % interval", no_wrap=True)
    grid.add_column("beside", style="dim", ratio=1)
    for figure in brief["figures"]:
        value = Text(figure["value"], style="bold")
        grid.add_row(figure["name"], value, figure["interval"], figure["beside"])
    console.print(grid)
    console.print()
    console.print(
        labelled_facts(
            ("Predicts", _predicts(best)),
            *update_facts(best["update"], best["target"]),
            *_next(best, folder),
        )
    )
    if best["risk"]["fallback"]:
        show_note(console, best["risk"]["fallback"])
    there = [name for name in (*FILES, best["model_file"], *OTHERS) if (folder / name).exists()]
    console.print(f"\nIn {folder}: {', '.join(there)}")
    if best["model_file"].endswith(".pickle"):
        show_note(console, "loading the model executes code; load it only if you trust its origin")


def _verdict(brief: dict[str, Any]) -> Text:
    trust = Trust(brief["trust"])
    words = Text(str(trust), style=f"bold {COLOURS[LEVELS[trust]]}")
    why = f": {brief['reason']}" if brief["reason"] else " (no check found anything)"
    return words.append(why, style="not bold default")


def _predicts(best: dict[str, Any]) -> str:
    params = ", ".join(f"{name} = {number(value, 4)}" for name, value in best["params"].items())
    alone = f"{best['model']}, {params or 'default parameters'}"
    failed = f" ({best['failed_trials']} failed)" if best.get("failed_trials") else ""
    tried = f"best of {count(best['trials'], 'trial')}{failed}"
    trial = f"{tried}, number {best['best_trial']}: {alone}"
    members = best["members"]
    if len(members) == 1:
        return trial
    models = listed(dict.fromkeys(each["model"] for each in members), quoted=False)
    return f"weighted mean of {len(members)} trials of {models}; {trial}"


def _in_short(about: str, step: str) -> str:
    if about == "labels":
        return step
    first, stop, _ = step.partition(". ")
    return f"{first}{stop.rstrip()} ({about})"


def _next(best: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    """Return what to do next; the last step is about labels, where there are figures."""
    steps = best["brief"]["next_steps"]
    shown = [*steps[:-1][:MOST_STEPS], *steps[-1:]]
    found = [("Next", _in_short(about, step)) for about, step in shown]
    if best["label_worth"]:
        how = (
            "With labels in the table: --use-target-labels"
            if best["update_obstacle"]
            else f"Draw such rows with: shiftune label-plan {folder} --n 30"
        )
        found[-1] = ("Next", f"{found[-1][1]} {how}")
    return found


def show_update(console: Console, record: Mapping[str, Any], state: Path) -> None:
    """Show what labels have changed, and whether they agree with the first estimate."""
    loss, target = loss_in_words(record["loss"]), record["target"]
    labels = [f"{record['new_labels']} of them new"] if record["number"] > 1 else []
    if record["labels_of_tune"]:
        labels.append(f"{record['labels_of_tune']} of them used in tune")
    facts: list[tuple[str, str | Text]] = [
        (f"Labels of {target}", ", ".join([str(record["labels"]), *labels])),
        (f"Expected {loss} without labels", estimate_in_words(record["before"])),
        (f"Expected {loss} with labels", Text(estimate_in_words(record["after"]), style="bold")),
        ("Gain", estimate_in_words(record["gain"])),
        *((f"{name} with labels", value) for name, value in metric_facts(record)),
        (f"Effect of {target}", effect_in_words(record, target)),
        ("First estimate", first_in_words(record)),
    ]
    console.print(labelled_facts(*facts))
    files = ("update.json", "predictions.csv", record["model_file"], "labels.csv")
    console.print(f"\nIn {state}: {', '.join(files)}")


def show_updates(
    console: Console, folder: Path, states: Sequence[Mapping[str, Any]], unfinished: Sequence[int]
) -> None:
    """Show all updates of a folder in a table."""
    if not states:
        console.print(
            f"{folder} has no updates; shiftune label-plan {folder} --n 30 draws rows to label"
        )
    else:
        loss = loss_in_words(states[-1]["loss"])
        grid = grid_of(
            ("update", "right"),
            ("labels", "right"),
            (f"{loss} without", "right"),
            ("with", "right"),
            ("gain (95 % interval)", "left"),
            ("model", "left"),
        )
        for state in states:
            grid.add_row(
                str(state["number"]),
                str(state["labels"]),
                number(state["before"]["value"], 4),
                number(state["after"]["value"], 4),
                estimate_in_words(state["gain"]),
                Text(model_in_words(state), style="" if state["current"] else "dim"),
            )
        console.print(grid)
        if not states[-1]["current"]:
            path = folder / "updates" / str(states[-1]["number"]) / "labels.csv"
            show_note(
                console,
                f"the search in {folder} has gone on since: update {states[-1]['number']} is of "
                f"an earlier model; for the present one: shiftune update {folder} {path}",
            )
    for each in unfinished:
        show_note(console, f"update {each} was not finished; the next update replaces it")
