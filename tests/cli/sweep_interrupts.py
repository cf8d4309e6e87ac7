"""Ctrl-C at many moments of `shiftune tune`, evenly over its Python calls; takes minutes.

usage: python -m tests.cli.sweep_interrupts [MOMENTS [JOBS]]

After each the same command is run again; the result must be that of an uninterrupted run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pandas as pd
from faults.started import MARK, orphans

from shiftune.datasets import hospitals

CHILD = Path(__file__).with_name("interrupted_command.py")
PLAIN = [sys.executable, "-m", "shiftune"]
SIGNAL_FILE = "SHIFTUNE_SIGNAL_FILE"  # where the child writes the time of its signal


def problem_with(folder, whole, moment, arguments, seconds):
    """Interrupt, look, run again, compare; return what is wrong, or ""."""
    out = ["--out", str(folder / f"run-{moment}")]
    mark = folder / "mark"
    mark.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, str(CHILD), str(moment), "once", *arguments, *out],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, SIGNAL_FILE: str(mark), MARK: out[1]},
    )
    _, printed = process.communicate()
    if not mark.exists():
        return "no signal was sent"
    seconds.append(time.time() - float(mark.read_text()))
    if process.returncode != 130:
        return f"exit code {process.returncode}: {printed[-300:]}"
    if "Traceback" in printed or "KeyboardInterrupt" in printed or "stopped" not in printed:
        return f"printed {printed[-500:]}"
    if orphans(Path(out[1])):
        return "a process is left"
    again = subprocess.run([*PLAIN, *arguments, *out], capture_output=True, text=True)
    if again.returncode:
        return f"second run ended with {again.returncode}: {again.stderr[-300:]}"
    run = Path(out[1])
    if sorted(p.name for p in run.iterdir()) != sorted(p.name for p in whole.iterdir()):
        return f"files {sorted(p.name for p in run.iterdir())}"
    one, other = (pd.read_csv(place / "trials.csv") for place in (run, whole))
    if not one.drop(columns="seconds").equals(other.drop(columns="seconds")):
        return "other trials"
    for name in ("best.json", "predictions.csv"):
        if (run / name).read_bytes() != (whole / name).read_bytes():
            return f"other {name}"
    return ""


def main(moments=40, jobs=1):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        hospitals(40, random_state=0).to_csv(folder / "visits.csv", index=False)
        arguments = ["tune", str(folder / "visits.csv"), "--site", "hospital", "--target", "A"]
        arguments += ["--label", "readmitted", "--model", "logistic", "--trials", "6"]
        arguments += ["--jobs", str(jobs), "--ratio", "ulsif", "--risk", "unbiased"]
        whole = folder / "whole"
        counting = [sys.executable, str(CHILD), "count", "once", *arguments, "--out", str(whole)]
        done = subprocess.run(counting, capture_output=True, text=True, check=True)
        (calls,) = re.findall(r"^calls (\d+)$", done.stderr, flags=re.M)
        outcomes: Counter[str] = Counter()
        seconds: list[float] = []
        for k in range(moments):
            # The first calls set the handler.
            moment = 100 + (int(calls) - 100) * k // moments
            wrong = problem_with(folder, whole, moment, arguments, seconds)
            outcomes["wrong" if wrong else "right"] += 1
            print(f"call {moment} of {calls}: {wrong or f'right, {seconds[-1]:.2f} s'}", flush=True)
        print(dict(outcomes), f"slowest end {max(seconds):.2f} s", flush=True)
    return bool(outcomes["wrong"])


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
