"""The page of the documentation, from the results."""

from __future__ import annotations

import re
from statistics import median
from typing import Any

NAMES = {
    "shiftune": "shiftune, journal",
    "optuna": "Optuna, SQLite",
    "optuna-heartbeat": "Optuna, SQLite, with heartbeat and retry",
    "ray": "Ray Tune, `Tuner.restore`, `max_failures=3`",
    "dask": "Dask, futures",
}
PROMISES = [
    (
        "Optuna",
        "A relational database makes experiments persistent: a study can be saved and resumed.",
        "https://optuna.readthedocs.io/en/stable/tutorial/20_recipes/001_rdb.html",
    ),
    (
        "Optuna",
        "With a heartbeat (experimental), a trial whose process was killed is marked as failed "
        "when the next trial is asked for, and with a callback it is queued again. SQLite is not "
        "recommended for parallel optimisation.",
        "https://optuna.readthedocs.io/en/stable/reference/generated/"
        "optuna.storages.RDBStorage.html",
    ),
    (
        "Ray Tune",
        "`Tuner.restore` resumes an experiment whose driver failed from where it left off; "
        "finished trials are not run again, unfinished ones continue from their last checkpoint.",
        "https://docs.ray.io/en/latest/tune/tutorials/tune-fault-tolerance.html",
    ),
    (
        "Ray Tune",
        "A trial that fails is tried again `max_failures` times; the default is 0.",
        "https://docs.ray.io/en/latest/train/api/doc/ray.air.config.FailureConfig.html",
    ),
    (
        "Dask",
        "Tasks of a lost worker run on others; one that kills three workers is given up. The state "
        "of the scheduler is not kept: records of computations are lost with it.",
        "https://distributed.dask.org/en/stable/resilience.html",
    ),
    (
        "shiftune",
        "The same command continues after any end; a trial of a worker that was killed from "
        "outside runs again; a second search on the same file is refused, or shares the trials "
        "(`join=True`).",
        "how-to/resume.md",
    ),
]
HEAD = """# Faults, here and elsewhere

<!-- Written by python -m benchmarks.faults_compared; do not edit. -->

A search that runs for nights will be killed. This page shows what became of {trials} trials of half
a second, two at a time, under the same faults at the same random moments (seed {seed}) in
{versions}.
Each was used as its documentation advises for runs that may be killed. The objective notes itself
when it begins and ends, so that what a system holds at its end can be compared with what was
evaluated. `python -m benchmarks.faults_compared` repeats it; the single runs are in
`benchmarks/results/faults_compared.json` of the repository.

- *known*: evaluations that had ended at least half a second before the fault.
- *lost*: those of them that the system does not hold at its end.
- *twice*: trials held twice. *Again*: evaluations repeated although they had ended.
- *open*: trials that are neither complete nor continued at the end.

The runs share a busy machine, so seconds are only a rough comparison.
"""
WHAT = {
    "driver killed": "The driver gets SIGKILL, then the same command runs again. *Orphans* are its "
    "processes that are alive 10 seconds after its death. shiftune records trials in the order in "
    "which they were proposed, so one that ended before an earlier one is evaluated again, to the "
    "same result. With a heartbeat, some trials were queued again twice, and are held twice.",
    "worker killed": "A process in the middle of an evaluation gets SIGKILL; the search goes on by "
    "itself. (Optuna's workers are processes that optimise the same study.) *Given up*: the trial "
    "of that worker is not evaluated by another. With a heartbeat, a trial is queued again when "
    "the next one is asked for after a grace period of 3 seconds: short searches may be over by "
    "then.",
    "two drivers": "The same command is started a second time while it runs; shiftune with "
    "`join=True`, since it refuses otherwise. Dask keeps nothing that two drivers could share. "
    "*Evaluations* of the {trials} trials wanted in all.",
    "disk full": "The file system of the results is full until the search ends; then there is room "
    "again, and the same command runs once more. *First end*: how the search on the full disk "
    "ended. Dask writes nothing, and its searches went on. Ray Tune ended without an error; its "
    "state file was cut short, from which `Tuner.restore` began anew (the files of single trials "
    "were there).",
}


def page(results: dict[str, Any], own: str = "", trials: int = 12) -> str:
    """Return the page as Markdown; `own` is what `make faults` wrote."""
    versions = ", ".join(
        f"{name.split(',')[0]} {results['versions'][system]}"
        for system, name in NAMES.items()
        if system in results["versions"] and system != "optuna-heartbeat"
    )
    parts = [HEAD.format(trials=trials, seed=results["seed"], versions=versions)]
    for fault, what in WHAT.items():
        rows = [
            _row(NAMES[system], fault, found)
            for system in NAMES
            if (found := _of(results["records"], system, fault))
        ]
        if not rows:
            continue
        columns = list(rows[0])
        lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
        lines += [f"| {' | '.join(str(v) for v in row.values())} |" for row in rows]
        title = fault[0].upper() + fault[1:]
        parts += [f"\n## {title}\n\n{what.format(trials=trials)}\n", "\n".join(lines) + "\n"]
    if own:
        body = "\n".join(line for line in own.splitlines() if not line.startswith("# "))
        parts.append(f"\n## More faults of shiftune\n\n{body.strip()}\n")
    parts.append("\n## What they promise\n")
    parts += [f"- {who}: {what} ([documentation]({url}))" for who, what, url in PROMISES]
    return "\n".join(parts) + "\n"


def _of(records: list[dict[str, Any]], system: str, fault: str) -> list[dict[str, Any]]:
    return [each for each in records if (each["system"], each["fault"]) == (system, fault)]


def _row(name: str, fault: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """One system under one fault: sums over its runs."""

    def total(key: str) -> int:
        return sum(each.get(key, 0) for each in found)

    row: dict[str, Any] = {"": name, "runs": len(found), "known": total("known")}
    row |= {"lost": total("lost"), "twice": total("twice"), "again": total("evaluated_again")}
    row["open"] = total("left_open")
    if fault == "driver killed":
        row["orphans"] = total("orphans")
    if fault == "worker killed":
        row["given up"] = f"{total('given_up')} of {total('hit')}"
    if fault == "two drivers":
        row["evaluations"] = ", ".join(str(each["evaluations"]) for each in found)
    if fault == "disk full":
        row["first end"] = _counted(
            [_end(each["first_end"], each["first_words"]) for each in found]
        )
    row["end"] = _counted([_end(each["end"], each["words"]) for each in found])
    return row | {"seconds": f"{median(each['seconds'] for each in found):.0f}"}


def _end(end: str, words: str) -> str:
    """Name the exception that ended a search."""
    raised = re.findall(r"^([\w.]*\.)?(\w+(?:Error|Exception|Interrupt))\b", words, re.MULTILINE)
    return raised[-1][1] if end == "traceback" and raised else end


def _counted(ends: list[str]) -> str:
    """Count endings: "5 done" or "2 done, 1 traceback"."""
    return ", ".join(f"{ends.count(end)} {end}" for end in dict.fromkeys(sorted(ends)))
