"""The answer of a search, on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from shiftune.checks import Trust
from shiftune.cli.screen import COLOURS, grid_of, labelled_facts, show_note
from shiftune.level import Level
from shiftune.report.update_words import update_facts
from shiftune.wording import count, first_sentence, listed, number

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
    return step if about == "labels" else f"{first_sentence(step)} ({about})"


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
