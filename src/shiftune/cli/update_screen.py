"""Updates on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from shiftune.cli.screen import grid_of, labelled_facts, show_note
from shiftune.report.update_words import (
    effect_in_words,
    estimate_in_words,
    first_in_words,
    metric_facts,
    model_in_words,
)
from shiftune.wording import loss_in_words, number


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
