"""Time and memory of `shiftune predict` on files of up to 10 million rows.

    python -m benchmarks.everyday.predict_rows [--rows N ...] [--out FILE]

The command runs under a limit of its virtual memory, which a file that is held in memory would
exceed; the largest resident set is what the system reports of the finished process.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def predicted(run: Path, rows: int) -> tuple[float, float, float, float]:
    """Return file size in MiB, seconds, CPU seconds and the largest resident set in MiB."""
    table, out = run.parent / "new.csv", run.parent / "predicted.csv"
    write_visits(table, rows)
    args = [*COMMAND, "predict", str(run), str(table), "--out", str(out)]
    start = time.perf_counter()
    process = subprocess.Popen(
        args,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"shiftune predict ended with {process.returncode} on {rows:,} rows")
    seconds = time.perf_counter() - start
    with out.open() as file:
        assert sum(1 for _ in file) == rows + 1
    return (
        table.stat().st_size / 2**20,
        seconds,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1024,
    )


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
            size, seconds, cpu, peak = predicted(run, rows)
            lines.append(f"| {rows:,} | {size:.0f} | {seconds:.0f} | {cpu:.0f} | {peak:.0f} |")
            print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
