"""A random file on its way through the command line: a result, or exit code 2 and a sentence."""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from typer.testing import CliRunner

from fuzz.files import RandomFile
from shiftune.cli import app

Draw = Callable[[st.SearchStrategy[Any]], Any]


def ended(arguments: list[str]) -> str:
    """Run a command in this process; return how it ended, or raise an AssertionError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in (0, 2), f"exit code {done.exit_code}: {done.output}"
    assert "Traceback" not in done.output, done.output
    shown = done.output.replace("\n", "").replace("\t", "").replace("\r", "")
    raw = [character for character in shown if ord(character) < 32 or ord(character) == 127]
    assert not raw, f"control characters {raw} on the terminal"
    if done.exit_code == 2:
        words = done.stderr
        assert len(words.split()) >= 4, f"no sentence: {words!r}"
        return "error in words"
    return "result"


def passed(file: RandomFile, draw: Draw) -> Iterator[tuple[str, str]]:
    """Take a file through commands; yield each with how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = file.write(Path(folder)), str(Path(folder) / "out")
        table = [str(path), *file.options]
        if draw(st.booleans()):
            sites = table[: table.index("--task")] if "--task" in table else table
            options = [o for o in sites if o not in ("--drop-unlabelled", "--use-target-labels")]
            yield "diagnose", ended(["diagnose", *options])
        end = ended(["tune", *table, "--out", out, *_options(draw)])
        yield "tune", end
        if end == "result":
            _check_folder(Path(out))
            yield from _afterwards(path, out, draw)


def _options(draw: Draw) -> list[str]:
    options = ["--model", draw(st.sampled_from(["linear", "linear", "knn", "logistic", "ridge"]))]
    options += ["--trials", str(draw(st.integers(1, 3)))]
    options += ["--risk", draw(st.sampled_from(["adjusted", "adjusted", "naive", "unbiased"]))]
    return options + draw(st.sampled_from([[], [], ["--json"], ["--no-safe-csv"]]))


def _afterwards(path: Path, out: str, draw: Draw) -> Iterator[tuple[str, str]]:
    """Commands that read a result."""
    more = draw(st.sampled_from(["", "predict", "report", "label-plan", "again"]))
    if more == "predict":
        interval = draw(st.sampled_from([[], ["--interval", "0.9"], ["--strict"]]))
        to = draw(st.sampled_from(["-", "p.csv", "p.parquet", "p.jsonl"]))
        to = to if to == "-" else str(path.parent / to)
        yield more, ended(["predict", out, str(path), "--out", to, *interval])
    elif more == "report":
        yield more, ended(["report", out])
    elif more == "label-plan":
        plan = path.parent / "plan.csv"
        end = ended(["label-plan", out, "--n", "2", "--out", str(plan)])
        yield more, end
        if end == "result":
            label = draw(st.sampled_from(["", "1", "0.5", "yes", "class 1"]))
            lines = plan.read_text().splitlines()  # the label is the last column
            plan.write_text("\n".join([lines[0], *(line + label for line in lines[1:])]) + "\n")
            yield "update", ended(["update", out, str(plan)])
    elif more == "again":
        yield "update", ended(["update", out])


def _check_folder(out: Path) -> None:
    """The folder has an estimate and its interval."""
    best = json.loads((out / "best.json").read_text())
    risk = best["risk"]
    assert all(math.isfinite(risk[name]) for name in ("value", "low", "high")), risk
    assert risk["low"] <= risk["high"], risk
    for name in ("report.html", "predictions.csv", "trials.csv", "settings.toml"):
        assert (out / name).stat().st_size > 0, f"{name} is empty"
