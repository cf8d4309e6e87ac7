"""The answer on the terminal: verdict, figures, next steps, in a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from shiftune.cli._screen import _predicts, show_answer


@pytest.fixture
def best():
    def figure(name, value, interval, beside=""):
        return {"name": name, "value": value, "interval": interval, "meaning": "", "beside": beside}

    brief = {
        "title": "ill at A",
        "trust": "do not use",
        "reason": "No better than a constant.",
        "figures": [
            figure("log loss", "0.62", "0.54 to 0.70", "constant learned at the sources 0.67"),
            figure("AUC", "0.69", "unknown"),
            figure("F1", "?", "", "1 site with a value, and 2 are needed"),
        ],
        "next_steps": [
            ["skill", "Add columns."],
            ["overlap", "Add sites."],
            ["few", "Not shown."],
            ["labels", "Label 30."],
        ],
    }
    return {
        "brief": brief,
        "target": "A",
        "trials": 2,
        "best_trial": 1,
        "model": "linear",
        "params": {"alpha": 0.5},
        "members": [{"model": "linear"}, {"model": "linear"}],
        "risk": {"fallback": ""},
        "label_worth": [{}],
        "update_obstacle": "",
        "update": None,
        "model_file": "model.skops",
    }


def test_ten_lines(best):
    console = Console(width=100, record=True, quiet=False)
    show_answer(console, best, Path("nowhere"))
    lines = [line.rstrip() for line in console.export_text().splitlines() if line.strip()]
    assert lines[0] == "ill at A"
    assert " ".join(lines[1].split()) == "Verdict do not use: No better than a constant."
    figures = "log loss 0.62 0.54 to 0.70 constant learned at the sources 0.67"
    assert " ".join(lines[3].split()) == figures
    assert lines[5].split()[:4] == ["F1", "?", "1", "site"]
    text = " ".join(" ".join(lines).split())
    assert "weighted mean of 2 trials of linear; best of 2 trials, number 1: linear, alpha" in text
    assert "Add sites. (overlap)" in text
    assert "Not shown" not in text
    assert "Label 30. Shiftune label-plan" not in text
    assert "Label 30. Draw such rows with: shiftune label-plan nowhere --n 30" in text
    assert len(lines) <= 12


def test_failed_trials_are_counted():
    best = {"params": {}, "model": "ridge", "trials": 40, "best_trial": 3, "members": [{}]}
    assert _predicts(best) == "best of 40 trials, number 3: ridge, default parameters"
    words = _predicts(best | {"failed_trials": 4})
    assert words == "best of 40 trials (4 failed), number 3: ridge, default parameters"
