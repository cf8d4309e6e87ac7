"""The table of all cases, as text."""

from __future__ import annotations

from collections import Counter
from statistics import median

from faults.cases import Record

COUNTS = ["lost", "twice", "orphans", "tracebacks", "hangs", "temporary"]
HEADS = ["lost", "counted twice", "orphans", "tracebacks", "hangs", "temporary folders"]


def table(records: list[Record]) -> str:
    """Return a table in Markdown, one line for each kind of fault.

    >>> print(table([Record("a fault", "somewhere", same=True, seconds=1.5)]).splitlines()[2])
    | a fault | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 1.5 (1.5) |
    """
    lines = [
        f"| fault | tried | same result | {' | '.join(HEADS)} | seconds: median (longest) |",
        "|" + " --- |" * (len(HEADS) + 4),
    ]
    for row in dict.fromkeys(record.row for record in records):
        these = [record for record in records if record.row == row]
        counts = [sum(getattr(record, name) for record in these) for name in COUNTS]
        seconds = [record.seconds for record in these]
        same = sum(record.same for record in these)
        cells = [row, len(these), same, *counts]
        times = f"{median(seconds):.1f} ({max(seconds):.1f})"
        lines.append(f"| {' | '.join(map(str, cells))} | {times} |")
    return "\n".join(lines)


def phases(records: list[Record]) -> str:
    """Return the numbers of signals that met each phase of a search."""
    met = Counter(record.phase for record in records if record.phase)
    return ", ".join(f"{phase}: {count}" for phase, count in met.most_common())
