"""Speed, memory and growth of searches and what surrounds them, as ratios measured in one run.

    python -m benchmarks.speed [names of rows] [--quick] [--out FOLDER] [--peers ENV/bin/python]

Every row of the table is a function that returns `Figures`: a ratio to something a reader knows,
and where it grows the exponents of its growth. Times are CPU seconds of one process with one
thread, so that a busy machine changes them little. The table is written as Markdown and as JSON,
with the versions of the libraries; a row that was measured alone replaces its own figures there.
"""

from __future__ import annotations

import argparse
import json
import platform
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.speed import data_rows, peer_rows, search_rows
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGES = ("numpy", "pandas", "scikit-learn", "lightgbm", "optuna", "scipy", "densratio")
ROWS = {row.__name__: row for row in (*data_rows.ROWS, *search_rows.ROWS, *peer_rows.ROWS)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    parser.add_argument("--out", type=Path, help="folder for speed.json and speed.md")
    parser.add_argument("--peers", type=Path, help="Python of an environment with the peers")
    options = parser.parse_args()
    rows = ROWS | {"peers": partial(peer_rows.peers, python=options.peers)}
    found: dict[str, Any] = {}
    if options.out is not None and (options.out / "speed.json").exists():
        found = json.loads((options.out / "speed.json").read_text())["rows"]
    versions = {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    for name in options.rows or ROWS:
        with threadpool_limits(1):
            found[name] = rows[name](options.quick).record()
        print(line(name, found[name]), flush=True)
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            record = {"versions": versions, "rows": found}
            (options.out / "speed.json").write_text(json.dumps(record, indent=2) + "\n")
            (options.out / "speed.md").write_text(page(found, versions))


def page(found: Mapping[str, Mapping[str, Any]], versions: Mapping[str, str]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# python -m benchmarks.speed",
        "",
        ", ".join(f"{name} {number}" for name, number in versions.items()) + "; one thread.",
        "",
        "| row | ratio | against | exponents | further figures |",
        "| --- | --- | --- | --- | --- |",
        *(line(name, row) for name, row in found.items()),
    ]
    return "\n".join(lines) + "\n"


def line(name: str, row: Mapping[str, Any]) -> str:
    growth = "; ".join(
        f"{each['exponent']:.2f} in {each['along']} ({', '.join(map(_shown, each['sizes']))}: "
        f"{', '.join(map(_shown, each['seconds']))} s; within {each['misfit']:.2f})"
        for each in row["growth"]
    )
    more = "; ".join(f"{key}: {_shown(value)}" for key, value in row["details"].items())
    what = f"{name}: {(ROWS[name].__doc__ or '').splitlines()[0]}"
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
    return f"| {what} | {ratio} | {row['against']} | {growth} | {more} |"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
