"""Shared by the sections of the page: runs to compare, differences as text, pictures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pandas as pd

from reproduction import tables
from reproduction.markdown import METHODS, pipe_table
from reproduction.record import RUNS, read_runs
from shiftune.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path


def comparable_runs(folder: Path) -> pd.DataFrame:
    """Return the runs of an experiment that have a score, if they can be compared at all."""
    runs = read_runs(folder / RUNS).dropna(subset="score")
    found = set(runs["experiment"])
    if found != {folder.name}:
        raise StorageError(f"{folder} must have runs of {folder.name}, got {sorted(found)}")
    if "variance_reduced" not in set(runs["method"]):
        raise StorageError(
            f"{folder} has no runs of variance_reduced, which the page compares with the others; "
            f"run python -m reproduction {folder.name} -m variance_reduced --out {folder}"
        )
    return runs


def has(runs: pd.DataFrame, method: str, setting: str | None = None) -> bool:
    """Whether a method was run, in a setting or in any."""
    there = runs if setting is None else runs[runs["setting"] == setting]
    return method in set(there["method"])


def paragraph(text: str) -> str:
    """Wrap a text, or an item of a list, at 100 characters.

    >>> paragraph("  One   two.")
    'One two.'
    """
    flowing = " ".join(text.split())
    return textwrap.fill(
        flowing,
        100,
        subsequent_indent="  " if flowing.startswith("- ") else "",
        break_on_hyphens=False,
        break_long_words=False,
    )


def percent(share: float) -> str:
    """Write a share as a whole percentage.

    >>> percent(0.9335)
    '93 %'
    """
    return f"{100 * share:.0f} %"


def compact(compared: pd.DataFrame) -> pd.DataFrame:
    """Write differences as text, with c as columns where there is one."""
    cells = pd.Series(
        [
            f"**{text}**" if row["low"] > 0 or row["high"] < 0 else text
            for _, row in compared.iterrows()
            for text in [f"{row['mean']:.2g} ({row['low']:.2g} to {row['high']:.2g})"]
        ],
        compared.index,
    )
    if "c" not in compared.index.names:
        return cells.to_frame("difference")
    return across(cells, "c").rename(columns=lambda c: f"c = {c:g}")


def across(cells: pd.Series[str], level: str) -> pd.DataFrame:
    """Lay one level of the index out as columns, in the order in which it appears."""
    return cells.unstack(level, sort=False)  # noqa: PD010 - pivoting would sort the rows


def guarded_against_others(runs: pd.DataFrame, value: str) -> str:
    """Compare the guarded setting with the other two, method by method."""
    compared = {}
    there = set(runs["setting"])
    for method in (name for name in ("unbiased", "variance_reduced") if has(runs, name)):
        for than in (name for name in ("as-published", "as-described") if name in there):
            if "guarded" not in there:
                continue
            frame = tables.paired_settings(runs, method, "guarded", than, value=value)
            compared[METHODS[method], than] = compact(frame).reset_index(drop=True)
    if not compared:
        return ""
    together = pd.concat(compared, names=["method", "guarded against"]).droplevel(-1)
    title = "The guarded setting against the others (positive: it is better):"
    return f"{title}\n\n{pipe_table(together)}"


def images(paths: list[Path], pictures: Path) -> str:
    """Show the pictures that lie in a folder beside the page."""
    return "\n\n".join(f"![{path.stem}]({pictures.name}/{path.name})" for path in paths)
