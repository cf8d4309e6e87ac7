"""The table of all cases, as text."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

from faults.cases import Record

COUNTS = ["lost", "twice", "orphans", "tracebacks", "hangs", "temporary"]
HEADS = ["lost", "counted twice", "orphans", "tracebacks", "hangs", "temporary folders"]


def rows(records: list[Record]) -> list[dict[str, Any]]:
    """Count cases and harm, for each kind of fault."""
    found = []
    for row in dict.fromkeys(record.row for record in records):
        these = [record for record in records if record.row == row]
        seconds = [record.seconds for record in these]
        found.append(
            {
                "fault": row,
                "tried": len(these),
                "same result": sum(record.same for record in these),
                **{
                    head: sum(getattr(record, name) for record in these)
                    for name, head in zip(COUNTS, HEADS, strict=True)
                },
                "median seconds": round(median(seconds), 1),
                "longest": round(max(seconds), 1),
            }
        )
    return found


def table(records: list[Record]) -> str:
    """Return a table in Markdown, one line for each kind of fault.

    >>> print(table([Record("a fault", "somewhere", same=True, seconds=1.5)]).splitlines()[2])
    | a fault | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 1.5 | 1.5 |
    """
    lines = rows(records)
    heads = list(lines[0])
    marks = " --- |" * len(heads)
    cells = [" | ".join(map(str, line.values())) for line in lines]
    return "\n".join([f"| {' | '.join(heads)} |", f"|{marks}", *(f"| {each} |" for each in cells)])


def phases(records: list[Record]) -> str:
    """Return the numbers of signals that met each phase of a search."""
    met = Counter(record.phase for record in records if record.phase)
    return ", ".join(f"{phase}: {count}" for phase, count in met.most_common())
