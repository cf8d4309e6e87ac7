"""Metrics on the terminal: numbers, unknown ends of intervals, reasons."""

from __future__ import annotations

from rich.console import Console

from shiftune.cli.screen import _show_metrics


def row(metric, estimate, low, high, note=""):
    ends = {"lowest": 0.5, "lowest_site": "B", "highest": 0.8, "highest_site": "C"}
    return {"metric": metric, "estimate": estimate, "low": low, "high": high, "note": note} | ends


def test_metrics_on_the_screen():
    console = Console(width=80, record=True, quiet=False)
    rows = [
        row("auc", 0.6543, 0.51, 0.77),
        row("rmse", 12.3, 0.1, None),  # infinity is null in JSON
        row("o_e", None, None, None, "1 site with a value, and 2 are needed"),
    ]
    _show_metrics(console, {"target": "A", "metrics": rows})
    lines = [line.split() for line in console.export_text().splitlines() if line.strip()]
    assert lines[0][:2] == ["at", "A"]
    assert lines[1] == ["AUC", "0.65", "0.51", "to", "0.77", "0.5", "(B)", "to", "0.8", "(C)"]
    assert lines[2][:5] == ["RMSE", "12.3", "?", "to", "?"]
    assert lines[3][:6] == ["O:E", "?", "1", "site", "with", "a"]
