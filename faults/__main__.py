"""`python -m faults`: faults at random moments, each compared with a search without it.

Every case has a seed of its own. A file of cases that are done lets a run go on after a stop.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from faults.cases import AFTER_THE_END, Cases, Record, is_good
from faults.table import phases, rows, table

COUNTS = {
    "driver_stopped": 200,
    "stopped_in_hang": 10,
    "workers_signalled": 60,
    "faulty_model": 25,
    "several_drivers": 20,
    "damaged_journal": 500,
    "storage_fault": 60,
    "damaged_file": 48,
    "odd_surroundings": 40,
    "joining_without_locks": 5,
    "many_trials": 6,
    "notebook": 30 * bool(find_spec("jupyter_client") and find_spec("ipykernel")),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the cases that are not done yet and print the table; return 1 if any did harm."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    for name, count in COUNTS.items():
        help_ = getattr(Cases, name).__doc__.splitlines()[0]
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=count, help=help_)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no case after")
    parser.add_argument("--out", type=Path, default=Path("faults-run"), help="folder for the cases")
    parser.add_argument("--page", type=Path, help="Markdown file for the table")
    wanted = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the cluster, too
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background, otherwise
    wanted.out.mkdir(parents=True, exist_ok=True)
    log = wanted.out / "cases.jsonl"
    done: dict[tuple[int, str, int], Record] = {}
    commits: dict[str, None] = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        case = json.loads(line)
        wanted.seed = case["seed"]
        done[wanted.seed, case["name"], case["number"]] = Record(**case["record"])
        commits[case["commit"]] = None
    print(f"--seed {wanted.seed}", flush=True)
    end = time.monotonic() + 60 * wanted.minutes
    commit = _commit()
    with _cluster(wanted.driver_stopped) as cluster:
        cases = Cases(wanted.out.resolve(), cluster)
        for name, number in _in_turn({name: getattr(wanted, name) for name in COUNTS}):
            if (wanted.seed, name, number) in done or time.monotonic() > end:
                continue
            rng = random.Random(f"{wanted.seed} {name} {number}")
            record = getattr(cases, name)(rng, number)
            done[wanted.seed, name, number] = record
            commits[commit] = None
            case = {"name": name, "number": number, "seed": wanted.seed, "commit": commit}
            case["record"] = asdict(record)
            with log.open("a") as file:
                file.write(json.dumps(case) + "\n")
            if not is_good(record):
                print(f"{name} {number}: {record}", flush=True)
    # A signal that came after the end of the search was no fault.
    met = [record for record in done.values() if record.phase != AFTER_THE_END]
    records = sorted(met, key=lambda record: record.row)
    text = f"{table(records)}\n\nPhases that signals to drivers met: {phases(records)}."
    print(text)
    if wanted.page is not None:
        _write_page(wanted.page, text, sorted({seed for seed, *_ in done}), list(commits))
        wanted.page.with_suffix(".json").write_text(json.dumps(rows(records), indent=1) + "\n")
    return int(not all(map(is_good, records)))


def _in_turn(counts: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Mix the kinds, so that a run that is stopped early has some of each."""
    turns = [((k + 0.5) / count, name, k) for name, count in counts.items() for k in range(count)]
    for _, name, number in sorted(turns):
        yield name, number


@contextmanager
def _cluster(needed: int) -> Iterator[str]:
    """Start a Dask scheduler with two workers in other processes; yield its file."""
    if not needed or find_spec("distributed") is None:
        yield ""
        return
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/scheduler.json"
        here = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file]
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "dask", *command, *here],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            for command in (["scheduler", "--port", "0"], ["worker", "--nworkers", "2"])
        ]
        try:
            yield file
        finally:
            for process in processes:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _commit() -> str:
    """Return the commit of the code, with a mark if it was changed since."""
    command = ["git", "describe", "--always", "--dirty", "--match="]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _write_page(path: Path, text: str, seeds: list[int], commits: list[str]) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    path.write_text(
        f"# python -m faults --seed {', '.join(map(str, seeds))}\n\n"
        f"{time.strftime('%Y-%m-%d')}; commit {', '.join(commits)}; Python "
        f"{platform.python_version()}, {cores} cores shared with other work. Every case is one "
        "fault at a random moment of a small search; its trials and its result are compared with "
        "those of the same search without the fault, digit by digit. Drivers that were stopped "
        "are started again. Workers are killed and paused one to five times in a search. Trials "
        "that hang, crash or eat memory must fail alone. Seconds are those from the fault, or the "
        "begin of a search with faults, to its end.\n\n"
        f"{text}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
