"""Time and memory of `shiftune predict` on files of up to 10 million rows.

    python -m benchmarks.everyday.predict_rows [--rows N ...] [--out FILE]

The command runs under a limit of its virtual memory, which a file that is held in memory would
exceed; the largest resident set is what the system reports of the finished process.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.everyday.measured import Usage, measured
from benchmarks.everyday.visits import visits, write_visits

LIMIT = 2 * 1024**3
SIZES = (100_000, 1_000_000, 10_000_000)
COMMAND = (sys.executable, "-m", "shiftune")


def tuned(folder: Path) -> Path:
    """Return the folder of a result for hospital A."""
    table, run = folder / "visits.csv", folder / "run"
    visits(8_000).to_csv(table, index=False)
    roles = ["--site", "hospital", "--target", "A", "--label", "readmitted", "--id", "case"]
    options = ["--model", "linear", "--trials", "5", "--out", str(run)]
    subprocess.run(
        [*COMMAND, "tune", str(table), *roles, *options], check=True, capture_output=True
    )
    return run


def predicted(run: Path, rows: int) -> tuple[float, Usage]:
    """Return the size of a file in MiB, and what predicting its rows takes."""
    table, out = run.parent / "new.csv", run.parent / "predicted.csv"
    write_visits(table, rows)
    used = measured(
        [*COMMAND, "predict", run, table, "--out", out],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
    )
    with out.open() as file:
        assert sum(1 for _ in file) == rows + 1
    return table.stat().st_size / 2**20, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES)
    parser.add_argument("--out", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    lines = [
        "# python -m benchmarks.everyday.predict_rows",
        "",
        f"Python {platform.python_version()}, versions as in constraints.txt; one thread; virtual "
        f"memory limited to {LIMIT / 2**30:.0f} GiB. A mean of linear models of classes on 11 "
        "columns.",
        "",
        "| rows | file, MiB | seconds | CPU seconds | peak memory, MiB |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run = tuned(Path(folder))
        for rows in options.rows:
            size, used = predicted(run, rows)
            lines.append(f"| {rows:,} | {size:.0f} | {used} |")
            print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
