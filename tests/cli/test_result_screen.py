"""The answer on the terminal: verdict, figures, next steps, in a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from shiftune.cli._screen import _predicts, show_answer


@pytest.fixture
def best():
    def figure(title, value, low, high, **other):
        known = {"title": title, "value": value, "low": low, "high": high, "note": ""}
        sites = dict.fromkeys(("constant", "lowest", "highest"))
        return known | sites | {"constant_is": "constant", "estimable": True} | other

    return {
        "title": "ill at A",
        "target": "A",
        "verdict": {"trust": "do not use", "level": "problem", "reason": "No better."},
        "figures": [
            figure("AUC", 0.69, 0.0, 1.0, estimable=False, constant=0.5, constant_is="chance"),
            figure("F1", None, None, None, note="1 site with a value, and 2 are needed"),
            figure("log loss", 0.62, 0.54, 0.70, constant=0.67),
        ],
        "next_steps": [
            {"about": "skill", "advice": "Add columns."},
            {"about": "overlap", "advice": "Add sites."},
            {"about": "labels", "advice": "Label 30."},
        ],
        "trials": {"finished": 2, "best": 1, "failed": 0},
        "model": "linear",
        "params": {"alpha": 0.5},
        "members": [{"model": "linear"}, {"model": "linear"}],
        "risk": {"fallback": ""},
        "labels": {"updated": None, "worth": [{}], "obstacle": ""},
        "model_file": "model.skops",
    }


def test_twelve_lines(best):
    console = Console(width=100, record=True, quiet=False)
    show_answer(console, best, Path("nowhere"))
    lines = [line.rstrip() for line in console.export_text().splitlines() if line.strip()]
    assert lines[0] == "ill at A"
    assert " ".join(lines[1].split()) == "Verdict do not use: No better."
    assert " ".join(lines[3].split()) == "AUC ? cannot be estimated from these sites chance 0.5"
    assert lines[4].split()[:4] == ["F1", "?", "1", "site"]
    figures = "log loss 0.62 0.54 to 0.70 constant 0.67"
    assert " ".join(lines[5].split()) == figures
    text = " ".join(" ".join(lines).split())
    assert "weighted mean of 2 trials of linear; best of 2 trials, number 1: linear, alpha" in text
    assert "Add sites (overlap)" in text
    assert "Label 30. Draw such rows with: shiftune label-plan nowhere --n 30" in text
    assert len(lines) <= 12


def test_failed_trials_are_counted(best):
    best |= {"params": {}, "model": "ridge", "members": [{}]}
    best["trials"] = {"finished": 40, "best": 3, "failed": 0}
    assert _predicts(best) == "best of 40 trials, number 3: ridge, default parameters"
    best["trials"]["failed"] = 4
    words = _predicts(best)
    assert words == "best of 40 trials (4 failed), number 3: ridge, default parameters"
