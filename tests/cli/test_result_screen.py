"""The answer on the terminal: verdict, figures, next steps, in a few lines."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from shiftune.cli._screen import _predicts, show_result, show_updates


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
        "picture": {
            "title": "log loss",
            "better": "lower is better",
            "scale": "linear",
            "rows": [
                {"kind": "expected", "name": "expected at A", "values": [0.62], "low": 0.54}
                | {"high": 0.7, "says": "0.62 (0.54 to 0.70)"},
                {
                    "kind": "sites",
                    "name": "each site",
                    "values": [0.58, 0.64],
                    "says": "0.58 to ..",
                },
                {"kind": "constant", "name": "a constant", "values": [0.67], "says": "0.67"},
                {"kind": "plain_cv", "name": "plain", "values": [0.54], "says": "0.54"},
            ],
        },
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
        "column_importance": None,
        "sets": "",
        "labels": {"updated": None, "worth": [{}], "obstacle": ""},
        "model_file": "model.skops",
    }


def test_twelve_lines(best):
    console = Console(width=100, record=True, quiet=False)
    show_result(console, best, Path("nowhere"))
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
    assert len(lines) <= 16


def test_the_picture(best):
    """An axis from 0.54 to 0.70, in 62 columns."""
    console = Console(width=100, record=True, file=StringIO())
    show_result(console, best, Path("nowhere"))
    rows = console.export_text().splitlines()
    (first,) = (k for k, row in enumerate(rows) if row.startswith("log loss  ") and "lower" in row)
    start = rows[first].index("lower is better")
    drawn = [row[start:] for row in rows[first + 1 : first + 5]]
    ends = drawn[0].index("├"), drawn[0].index("┤")
    width = ends[1]
    assert ends[0] == 0
    assert width > 50

    def places(line, mark):
        return [0.54 + 0.16 * k / width for k, each in enumerate(line) if each == mark]

    assert places(drawn[0], "●") == [pytest.approx(0.62, abs=0.003)]
    assert places(drawn[1], "○") == pytest.approx([0.58, 0.64], abs=0.003)
    assert places(drawn[2], "┃") == [pytest.approx(0.67, abs=0.003)]
    assert places(drawn[3], "┃") == [0.54]
    assert rows[first + 1].split()[-4:] == ["0.62", "(0.54", "to", "0.70)"]


def test_the_picture_where_nothing_is_known_of_the_target(best):
    best["picture"]["rows"][0] |= {"values": [], "low": None, "high": None, "says": "unknown"}
    console = Console(width=60, record=True, file=StringIO())
    show_result(console, best, Path("nowhere"))
    assert re.search(r"\nexpected at A +unknown", console.export_text())


def test_printed_commands_can_be_typed_in_a_shell(best):
    console = Console(width=300, record=True, file=StringIO())
    show_result(console, best, Path("run 2"))
    show_updates(console, Path("run 2"), {}, (), several=False)
    show_updates(console, Path("run 2"), {}, (), several=True)
    text = console.export_text()
    assert text.count("shiftune label-plan 'run 2' --n 30") == 2
    assert text.count("shiftune label-plan 'run 2' --budget 200") == 1


def test_no_draw_of_labels_that_change_nothing(best):
    best["next_steps"][-1]["about"] = "worth of labels"
    console = Console(width=100, record=True, file=StringIO())
    show_result(console, best, Path("nowhere"))
    assert "label-plan" not in console.export_text()


def test_failed_trials_are_counted(best):
    best |= {"params": {}, "model": "ridge", "members": [{}]}
    best["trials"] = {"finished": 40, "best": 3, "failed": 0}
    assert _predicts(best) == "best of 40 trials, number 3: ridge, default parameters"
    best["trials"]["failed"] = 4
    words = _predicts(best)
    assert words == "best of 40 trials (4 failed), number 3: ridge, default parameters"
