"""What the commands show on the terminal: tables, notes, the result, updates."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shiftune._names import Level
from shiftune._wording import (
    MOST_COLUMNS,
    MOST_SITES,
    count,
    estimate_in_words,
    figure_in_words,
    listed,
    loss_in_words,
    most_important,
    number,
    percent,
    shortened,
    updated_model,
)
from shiftune.cli._console import facts_grid, grid_of, screen, shell_command, show_note
from shiftune.models import MODELS, spaces
from shiftune.models._space import format_range, space_as_toml, space_entries
from shiftune.problem import ShiftProblem
from shiftune.ratio._overlap import overlapping, overlapping_in_part, sorted_by_verdict
from shiftune.tables import SiteFiles

# Sources whose rows are counted one by one.
MOST_NAMES = 8
COLOURS = {Level.OK: "green", Level.CAUTION: "yellow", Level.PROBLEM: "red"}


def show_table(
    console: Console,
    files: SiteFiles,
    problem: ShiftProblem,
    notes: Sequence[str],
    *,
    label: str | None,
) -> None:
    """Show the sites, the label, the columns with a remark, and the notes."""
    console.print(_about_table(files, problem, label))
    decisions = problem.columns.decisions
    for note in [*notes, *decisions[:MOST_COLUMNS]]:
        show_note(console, note)
    if (more := len(decisions) - MOST_COLUMNS) > 0:
        console.print(Text(f"and {count(more, 'more column')}, listed by --json", style="dim"))


def _about_table(files: SiteFiles, problem: ShiftProblem, label: str | None) -> Table:
    sites = sorted(problem.sources, key=len, reverse=True)
    names = ", ".join(f"{site.name} ({len(site)})" for site in sites)
    shown = f": {names}" if len(sites) <= MOST_NAMES else ""
    counts = pd.Series([column.kind for column in problem.columns.values()]).value_counts()
    many = {"number": "numbers", "category": "categories", "date": "dates"}
    kinds = ", ".join(f"{n} {many[str(k)] if n > 1 else k}" for k, n in counts.items())
    left = len(problem.columns.left_out)
    few = problem.labelled_target
    labelled = "" if few is None else f", {len(few)} of them with a label"
    target = f"{problem.target.name}: {len(problem.target)} rows{labelled}"
    sources = f"{count(len(sites), 'source')} with {sum(map(len, sites))} rows{shown}"
    facts = [
        ("Table", str(files)),
        ("Target", f"{target}; {sources}"),
        ("Columns", kinds + (f"; {left} left out" if left else "")),
    ]
    if label is not None:
        about = "a quantity"
        if problem.task != "regression":
            classes = [str(name) for name in problem.classes]
            about = f"{len(classes)} classes: {listed(classes, 6, quoted=False)}"
        facts.insert(2, ("Label", f"{label}, {about}"))
    return facts_grid(*facts)


def show_overlap(console: Console, overlap: pd.DataFrame, target: str) -> None:
    """Show how well each source overlaps with the target, a line each, the best first."""
    grid = grid_of("source", ">rows", ">weight", ">effective", ">uncovered")
    grid.add_column("verdict", ratio=1)
    for column in grid.columns:
        column.no_wrap = True
    shown = sorted_by_verdict(overlap).head(MOST_SITES)
    longest = max(12, console.width - 38 - int(shown["verdict"].str.len().max()))
    for name, row in shown.iterrows():
        weight, uncovered = row["mean_weight"], row["uncovered"]
        grid.add_row(
            shortened(str(name), longest),
            str(row["n"]),
            f"{weight:.2f}" if weight >= 0.01 else f"{weight:.0e}",
            percent(row["ess_share"]).replace("less than", "<"),
            percent(uncovered).replace("less than", "<"),
            Text(row["verdict"], style=COLOURS[row["level"]]),
        )
    console.print()
    console.print(grid)
    if len(overlap) > MOST_SITES:
        console.print(Text(f"and {len(overlap) - MOST_SITES} more sources", style="dim"))
    words = Text(_in_one_sentence(overlap, target))
    console.print(words.append(" Columns: shiftune diagnose --help", style="dim"))


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


def show_overlaps(console: Console, overlaps: Mapping[str, pd.DataFrame]) -> None:
    """Show how well the sources overlap with several targets, a line each, the worst first."""
    grid = grid_of("target", ">overlap", ">in part", ">uncovered", "nearest source")
    facts = []
    for target, overlap in overlaps.items():
        nearest = overlap["uncovered"].idxmin()
        whole, part = int(overlapping(overlap).sum()), int(overlapping_in_part(overlap).sum())
        facts.append((whole, part, -float(overlap["uncovered"].min()), target, str(nearest)))
    facts.sort()
    for whole, part, covered, target, nearest in facts[:MOST_SITES]:
        level = Level.OK if whole else Level.CAUTION if part else Level.PROBLEM
        uncovered = percent(-covered).replace("less than", "<")
        name = Text(shortened(target, 24), style=COLOURS[level])
        grid.add_row(name, str(whole), str(part), uncovered, shortened(nearest, 24))
    console.print()
    console.print(grid)
    if len(facts) > MOST_SITES:
        console.print(Text(f"and {len(facts) - MOST_SITES} more targets", style="dim"))
    n = next(len(overlap) for overlap in overlaps.values())
    words = f"Of {count(n, 'source')}, how many overlap with each target, wholly or in part; "
    words += "uncovered: rows of the target that are unlike all of its nearest source."
    console.print(Text(words, style="dim"))


def show_models(name: str | None, as_json: bool) -> None:
    """Show the models and their search spaces, or the space of one model as a file."""
    shown = [(key, MODELS[key], getattr(spaces, key)()) for key in MODELS if name in (None, key)]
    if as_json:
        content = {
            key: {"about": model.about, "tasks": model.tasks, "space": space_entries(space)}
            for key, model, space in shown
        }
        typer.echo(json.dumps(content, indent=2))
        return
    if name is not None:
        ((_, model, space),) = shown
        typer.echo(f"# {name}: {model.about}\n{space_as_toml(space)}")
        return
    console, grid = screen(), grid_of("model", "hyperparameter")
    grid.add_column("search range", ratio=1)
    for key, model, space in shown:
        only = "" if len(model.tasks) > 1 else f", {model.tasks[0]} only"
        grid.add_row(key, Text(f"{model.about}{only}", style="italic"), "")
        for parameter, values in space.items():
            grid.add_row("", parameter, format_range(values))
    console.print(grid)
    console.print(
        Text(
            "\nwhole: whole numbers; log: logarithmic scale. "
            "shiftune models NAME prints a search space as a file for --space.",
            style="dim",
        )
    )


FILES = ("report.html", "model-card.md", "best.json", "predictions.csv", "trials.csv")
OTHERS = ("settings.json", "settings.toml", "study.journal", "study.journal.predictions")


def show_result(console: Console, best: Mapping[str, Any], folder: Path) -> None:
    """Show the result: verdict, figures, what predicts, what to do next, the files."""
    verdict, target, labels = best["verdict"], best["target"], best["labels"]
    console.print()
    console.print(Text(best["title"], style="bold"))
    trust = Text(verdict["trust"], style=f"bold {COLOURS[verdict['level']]}")
    console.print(
        facts_grid(("Verdict", trust.append(f": {verdict['reason']}", style="not bold default")))
    )
    console.print()
    grid = grid_of(f"expected at {target}", ">", "95 % interval")
    grid.add_column("beside", style="dim", ratio=1)
    for figure in best["figures"]:
        value, interval, beside = figure_in_words(figure)
        grid.add_row(figure["title"], Text(value, style="bold"), interval, beside)
    console.print(grid)
    console.print()
    console.print(_picture(best["picture"], console))
    console.print()
    facts = [("Predicts", _predicts(best))]
    if best["column_importance"]:
        facts.append(("Matter most", most_important(best["column_importance"])))
    if updated := labels["updated"]:
        gain = f"Gain from {count(updated['labels'], 'label')}"
        facts.append((gain, estimate_in_words(updated["gain"])))
        facts.append((f"Effect of {target}", updated["says"]["effect"]))
    for step in best["next_steps"]:
        about = "" if step["about"] == "labels" else f" ({step['about']})"
        facts.append(("Next", f"{step['advice'].rstrip('.')}{about or '.'}"))
    if labels["worth"] and best["next_steps"][-1]["about"] == "labels":
        how = f"Draw such rows with: {shell_command('label-plan', folder, '--n', 30)}"
        if labels["obstacle"]:
            how = "With labels in the table: --use-target-labels"
        facts[-1] = ("Next", f"{facts[-1][1]} {how}")
    console.print(facts_grid(*facts))
    for note in filter(None, (best["risk"]["fallback"], best["sets"])):
        show_note(console, note)
    there = [name for name in (*FILES, best["model_file"], *OTHERS) if (folder / name).exists()]
    console.print(f"\nIn {folder}: {', '.join(there)}")
    if best["model_file"].endswith(".pickle"):
        show_note(console, "loading the model executes code; load it only if you trust its origin")


def show_targets(console: Console, best: Mapping[str, Any], folder: Path) -> None:
    """Show a line per target, the most urgent first, and what to do next."""
    targets = [row for row in best["targets"] if row["verdict"] is not None]
    console.print()
    loss = loss_in_words(best["loss"])
    grid = grid_of("site", ">rows", f"expected {loss}", "verdict", ">30 labels")
    grid.add_column("special", style="dim", ratio=1)
    for column in grid.columns:
        column.no_wrap = True
    for row in targets[:MOST_SITES]:
        saved = "" if row["gain_30"] is None else f"{-row['gain_30']:+.2g}"
        grid.add_row(
            shortened(row["site"], max(12, console.width - 64)),
            str(row["rows"]),
            estimate_in_words(row | {"value": row["risk"]}),
            Text(row["verdict"], style=COLOURS[row["level"]]),
            saved,
            row["special"],
        )
    console.print(grid)
    if (more := len(targets) - MOST_SITES) > 0:
        console.print(Text(f"and {more} more, in {folder / 'targets.csv'}", style="dim"))
    facts = [("Predicts", _predicts(best))]
    sources = [row for row in best["targets"] if row["verdict"] is None]
    if sources:
        held = sum(row["low"] <= row["truth"] <= row["high"] for row in sources)
        words = f"each treated as if it were new: within the interval at {held} of {len(sources)}"
        facts.append(("Sources", words))
    if any((row["gain_30"] or 0) > 0 for row in targets):
        draw = shell_command("label-plan", folder, "--budget", 200)
        facts.append(("Next", f"{draw} draws rows to label, where they help most"))
    console.print()
    console.print(facts_grid(*facts))
    if (n := sum(row["folder"] is not None for row in targets)) < len(targets):
        words = f"the {n} most urgent sites have a folder; the others are in targets.csv"
        show_note(console, f"{words} and predictions.csv, and have theirs once labels update them")
    there = [*(name for name in FILES if (folder / name).exists()), "targets.csv", "sites"]
    console.print(f"\nIn {folder}: {', '.join([*there, best['model_file'], *OTHERS])}")


_MARKS = {"expected": "●", "sites": "○"}
_WITHOUT_UNICODE = str.maketrans("●○┃├─┤", "o.||-|")


def _picture(picture: Mapping[str, Any], console: Console) -> Table:
    """Draw the first figure on one axis, with every site and what to compare it with."""
    rows = picture["rows"]
    scale = math.log if picture["scale"] == "logarithmic" else float
    shown = [value for row in rows for value in row["values"]]
    shown += [end for end in (rows[0]["low"], rows[0]["high"]) if end is not None]
    low, high = scale(min(shown)), scale(max(shown))
    taken = (max(len(row[name]) for row in rows) for name in ("name", "says"))
    columns = max(min(console.width, 100) - sum(taken) - 6, 12)

    def place(value: float) -> int:
        return round((scale(value) - low) / ((high - low) or 1) * (columns - 1))

    grid = grid_of(picture["title"])
    grid.add_column(picture["better"], header_style="dim")
    grid.add_column(style="dim")
    for row in rows:
        line = [" "] * columns
        if row["kind"] == "expected" and row["low"] is not None:
            first, last = place(row["low"]), place(row["high"])
            line[first : last + 1] = ["├", *["─"] * (last - first - 1), "┤"][: last - first + 1]
        for value in row["values"]:
            line[place(value)] = _MARKS.get(row["kind"], "┃")
        drawn = "".join(line)
        if console.options.ascii_only:
            drawn = drawn.translate(_WITHOUT_UNICODE)
        grid.add_row(row["name"], drawn, row["says"])
    for column in grid.columns:
        column.no_wrap = True
    return grid


def _predicts(best: Mapping[str, Any]) -> str:
    params = ", ".join(f"{name} = {number(value, 4)}" for name, value in best["params"].items())
    trials, members = best["trials"], best["members"]
    failed = f" ({trials['failed']} failed)" if trials["failed"] else ""
    trial = (
        f"best of {count(trials['finished'], 'trial')}{failed}, number {trials['best']}: "
        f"{best['model']}, {params or 'default parameters'}"
    )
    if len(members) == 1:
        return trial
    models = listed(dict.fromkeys(member["model"] for member in members), quoted=False)
    return f"weighted mean of {len(members)} trials of {models}; {trial}"


def show_update(console: Console, record: Mapping[str, Any], state: Path) -> None:
    """Show what labels have changed, and whether they agree with the first estimate."""
    loss, target = loss_in_words(record["loss"]), record["target"]
    labels = [f"{record['new_labels']} of them new"] if record["number"] > 1 else []
    if record["labels_of_tune"]:
        labels.append(f"{record['labels_of_tune']} of them used in tune")
    after = Text(estimate_in_words(record["after"]), style="bold")
    facts: list[tuple[str, str | Text]] = [
        (f"Labels of {target}", ", ".join([str(record["labels"]), *labels])),
        (f"Expected {loss} without labels", estimate_in_words(record["before"])),
        (f"Expected {loss} with labels", after),
        ("Gain", estimate_in_words(record["gain"])),
        *((f"{row['title']} with labels", estimate_in_words(row)) for row in record["figures"]),
        (f"Effect of {target}", record["says"]["effect"]),
        ("First estimate", record["first_estimate"]["says"]),
    ]
    console.print(facts_grid(*facts))
    files = ("update.json", "predictions.csv", record["model_file"], "labels.csv")
    console.print(f"\nIn {state}: {', '.join(files)}")


def show_updates(
    console: Console,
    folder: Path,
    states: Mapping[Path, Mapping[str, Any]],
    unfinished: Sequence[int],
    *,
    several: bool = False,
) -> None:
    """Show all updates of a folder, maybe of several targets; their own folders name them."""
    if not states:
        draw = shell_command("label-plan", folder, *(["--budget", 200] if several else ["--n", 30]))
        console.print(f"{folder} has no updates; {draw} draws rows to label")
    else:
        last = {state["target"]: path for path, state in states.items()}
        loss = loss_in_words(states[max(last.values())]["loss"])
        names = [">update", ">labels", f">{loss} without", ">with", "gain (95 % interval)", "model"]
        grid = grid_of(*["site"] * (len(last) > 1), *names)
        for state in states.values():
            grid.add_row(
                *[shortened(state["target"], 24)] * (len(last) > 1),
                str(state["number"]),
                str(state["labels"]),
                number(state["before"]["value"], 4),
                number(state["after"]["value"], 4),
                estimate_in_words(state["gain"]),
                Text(updated_model(state), style="" if state["current"] else "dim"),
            )
        console.print(grid)
        for path in last.values():
            if not states[path]["current"]:
                show_note(
                    console,
                    f"the search in {folder} has gone on since: update {path.name} is of an "
                    "earlier model; for the present one: "
                    f"{shell_command('update', folder, path / 'labels.csv')}",
                )
    for n in unfinished:
        show_note(console, f"update {n} was not finished; the next update replaces it")
