"""`python -m benchmarks.faults_compared`: do the same faults to all systems, and write the page.

Optuna, Ray and Dask are installed in an environment of their own:

    python -m venv ENV && ENV/bin/pip install optuna 'ray[tune]' distributed
    python -m benchmarks.faults_compared --python ENV/bin/python
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.faults_compared.faults import FAULTS, Run, new_folder
from benchmarks.faults_compared.page import page

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "faults_compared.json"
OWN = ROOT / "benchmarks" / "results" / "faults.md"  # of `make faults`
PAGE = ROOT / "docs" / "faults.md"
SYSTEMS = ("shiftune", "optuna", "optuna-heartbeat", "dask", "ray")
COUNTS = {"driver killed": 5, "worker killed": 5, "two drivers": 2, "disk full": 2}
PACKAGES = {"optuna": "optuna", "ray": "ray", "dask": "distributed", "shiftune": "shiftune"}


def records(system: str, python: str, seed: int, faults: list[str]) -> list[dict[str, object]]:
    """Do all faults to one system; the moments are the same for all systems."""
    found = []
    for fault in faults:
        moments = random.Random(f"{seed} {fault}")
        for _ in range(COUNTS[fault]):
            ends, delay = moments.randint(2, 9), moments.random() * 0.3
            if fault in ("two drivers", "disk full") and system == "dask":
                continue  # it keeps nothing on disk that they could share or lose
            name = "shiftune-join" if (fault, system) == ("two drivers", "shiftune") else system
            with (
                tempfile.TemporaryDirectory() as notes,
                new_folder(small=fault == "disk full") as folder,
            ):
                run = Run(name, python, folder, Path(notes) / "evaluations")
                began = time.monotonic()
                try:
                    seen = FAULTS[fault](run, ends, delay)
                finally:
                    run.end_all()
                seen |= {"system": system, "fault": fault, "ends": ends}
                seen |= {"seconds": round(time.monotonic() - began, 1)}
            print(json.dumps(seen), flush=True)
            found.append(seen)
    return found


def version(system: str, python: str) -> str:
    """Version of a system in its environment."""
    package = PACKAGES[system.split("-")[0]]
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.check_output([python, "-c", code], text=True).strip()


def main() -> None:
    """Add to the results, and write the page from all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults_compared")
    parser.add_argument(
        "--python", help="interpreter beside the others; without it, only the page is written"
    )
    parser.add_argument("--systems", nargs="*", default=SYSTEMS, choices=SYSTEMS)
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    wanted = parser.parse_args()
    print(f"--seed {wanted.seed}", flush=True)
    for system in wanted.systems if wanted.python else ():  # otherwise the page alone
        python = sys.executable if system == "shiftune" else wanted.python
        known = json.loads(wanted.results.read_text()) if wanted.results.exists() else {}
        new = records(system, python, wanted.seed, wanted.faults)
        others = [
            each
            for each in known.get("records", [])
            if (each["system"], each["fault"]) not in {(r["system"], r["fault"]) for r in new}
        ]
        versions = known.get("versions", {}) | {system: version(system, python)}
        text = {"seed": wanted.seed, "versions": versions, "records": [*others, *new]}
        wanted.results.write_text(json.dumps(text, indent=1) + "\n")
    own = OWN.read_text() if OWN.exists() else ""
    wanted.page.write_text(page(json.loads(wanted.results.read_text()), own))


if __name__ == "__main__":
    main()
