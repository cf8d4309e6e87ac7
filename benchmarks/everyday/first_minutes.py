"""The first minutes of a new user: from the wheel to predictions, on a file of 100,000 rows.

    python -m benchmarks.everyday.first_minutes [--timeout SECONDS] [--jobs N] [--out FILE]

The wheel is built from this clone and installed into a new environment, downloads included.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks.everyday.measured import Usage, measured
from benchmarks.everyday.visits import visits, write_visits

ROOT = Path(__file__).parents[2]
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
ROLES = ("--site", "hospital", "--target", "A", "--label", "readmitted")


def built(folder: Path) -> Path:
    """Return the wheel of this clone."""
    args = ["wheel", "--quiet", "--no-deps", str(ROOT), "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *args], check=True)
    return next(folder.glob("*.whl"))


def steps(folder: Path, rows: int, timeout: int, jobs: int) -> dict[str, Usage]:
    """Measure every step in a new environment."""
    wheel, place, run = built(folder), folder / "environment", folder / "run"
    visits(rows).to_csv(folder / "visits.csv", index=False)
    write_visits(folder / "next.csv", rows)
    venv.create(place, with_pip=True)
    python, shiftune = place / "bin" / "python", place / "bin" / "shiftune"
    table = [folder / "visits.csv", *ROLES]
    budget = ["--timeout", timeout, "--jobs", jobs, "--out", run]
    wanted = f"{wheel}[lightgbm,report]"
    commands = {
        "pip install (wheel, lightgbm, report)": [
            *(python, *PIP, "-c", ROOT / "constraints.txt", wanted)
        ],
        "shiftune diagnose": [shiftune, "diagnose", *table],
        f"shiftune tune --timeout {timeout} --jobs {jobs}": [shiftune, "tune", *table, *budget],
        "shiftune report": [shiftune, "report", run],
        f"shiftune predict ({rows:,} rows)": [
            *(shiftune, "predict", run, folder / "next.csv", "--out", folder / "predicted.csv")
        ],
    }
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    found = {}
    for name, args in commands.items():
        found[name] = measured(args, **quiet)
        print(f"| {name} | {found[name]} |", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--timeout", type=int, default=240, help="seconds of trials")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = steps(folder, options.rows, options.timeout, options.jobs)
        best = json.loads((folder / "run" / "best.json").read_text())
        size = (folder / "visits.csv").stat().st_size / 2**20
    whole = sum(usage.seconds for usage in found.values())
    lines = [
        "# python -m benchmarks.everyday.first_minutes",
        "",
        f"Python {platform.python_version()}, versions as in constraints.txt; one thread per "
        f"process. A table of {options.rows:,} rows and 13 columns ({size:.0f} MiB), 8 hospitals.",
        "",
        "| step | seconds | CPU seconds | peak memory, MiB |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {name} | {usage} |" for name, usage in found.items()),
        "",
        f"{whole / 60:.1f} minutes in all. The search finished {best['trials']['finished']} "
        f"trials; expected {best['loss']} {best['risk']['value']:.3f}.",
    ]
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
