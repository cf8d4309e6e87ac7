"""Updates on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from shiftune.cli.screen import figures_or_unknown, grid_of, labelled_facts, show_note
from shiftune.wording import count, listed, loss_in_words, number

# Classes whose odds are shown.
MOST_CLASSES = 4


def show_update(console: Console, record: Mapping[str, Any], state: Path) -> None:
    """Show what labels have changed, and whether they agree with the first estimate."""
    loss, target = loss_in_words(record["loss"]), record["target"]
    labels = [f"{record['new_labels']} of them new"] if record["number"] > 1 else []
    if record["labels_of_tune"]:
        labels.append(f"{record['labels_of_tune']} of them used in tune")
    facts: list[tuple[str, str | Text]] = [
        (f"Labels of {target}", ", ".join([str(record["labels"]), *labels])),
        (f"Expected {loss} without labels", _interval(record["before"])),
        (f"Expected {loss} with labels", Text(_interval(record["after"]), style="bold")),
        ("Gain", _interval(record["gain"])),
        (f"Effect of {target}", effect_in_words(record)),
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
            model = (
                "present" if state["current"] else f"earlier, {count(state['of_trials'], 'trial')}"
            )
            grid.add_row(
                str(state["number"]),
                str(state["labels"]),
                number(state["before"]["value"], 4),
                number(state["after"]["value"], 4),
                _interval(state["gain"]),
                Text(model, style="" if state["current"] else "dim"),
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


def effect_in_words(record: Mapping[str, Any]) -> str:
    """Describe how the effect moves the target's predictions."""
    target, shift = record["target"], record["shift"]
    if not any(each["mean"] for each in shift):
        return (
            f"none: that of {count(record['labels'], 'label')} would not have helped the sources "
            "reliably, so the predictions stay as they are"
        )
    if shift[0]["class"] is None:
        by = shift[0]["mean"]
        way = "raised" if by > 0 else "lowered"
        return f"predictions of {target} are {way} by {number(abs(by))} on average"
    if len(shift) == 2:
        name, by = shift[1]["class"], shift[1]["mean"]
        return f"the odds of {name!r} at {target} are {_odds(by)} what the models expect"
    shown = sorted(shift, key=lambda each: -abs(each["mean"]))[:MOST_CLASSES]
    odds = listed((f"of {each['class']!r} {_odds(each['mean'])}" for each in shown), quoted=False)
    return f"the odds at {target} are {odds} what the models expect"


def _odds(by: float) -> str:
    return f"{number(math.exp(by))} times (log odds {by:+.2f})"


def first_in_words(record: Mapping[str, Any]) -> str:
    """Describe whether the labels agree with the estimate that was made without them."""
    first = record["first_estimate"]
    own = first["mean_loss"]
    text = f"{_interval(first)}; mean at the labelled rows {_interval(own)}: "
    if first["agrees"] is None:
        one = "a single label" if record["labels"] == 1 else "labels of a single group"
        return f"{text}{one} cannot confirm it"
    if first["agrees"]:
        return text + "the labels agree with it"
    lower = own["value"] < first["value"]
    return text + f"the labels contradict it, it was too {'high' if lower else 'low'}"


def _interval(record: Mapping[str, Any]) -> str:
    value, low, high = figures_or_unknown(record["value"], record["low"], record["high"])
    return f"{value} ({low} to {high})"
