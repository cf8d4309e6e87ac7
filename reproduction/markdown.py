"""Runs as Markdown tables, beside the values of the paper and of its released code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from reproduction.published import PRINTED, RELEASED, RELEASED_SEEDS
from reproduction.tables import c_of, summary

METHODS = {
    "li": "LI",
    "distbo": "DistBO",
    "naive": "naive",
    "unbiased": "unbiased",
    "variance_reduced": "variance reduced",
    "oracle": "oracle",
}
"""Names of the methods in tables and figures, in the paper's order."""

Entries: TypeAlias = Mapping[str, tuple[float | None, ...]]


def markdown(runs: pd.DataFrame, value: str = "score") -> str:
    """Write the means as the paper's table: a row per method, the best feasible one in bold.

    Parkinson and GvHD have one table with a column per setting, the paper's printed values and
    those of the released code. The toy problem has a table per setting with a column per c, and one
    of the released code.

    Parameters
    ----------
    runs : DataFrame
        Runs of one experiment.
    value : str
        Column to describe; values of others are scores, shown beside "score" only.

    Examples
    --------
    >>> runs = pd.DataFrame({"experiment": "toy", "setting": "guarded", "c": 1.0, "seed": [0, 1, 0],
    ...                      "method": ["naive", "naive", "oracle"], "true_risk": [1, 2, 0.75]})
    >>> print(markdown(runs, "true_risk"))
    **guarded** (1 to 2 runs)
    <BLANKLINE>
    | method | c = 1              |
    | ------ | ------------------ |
    | naive  | **1.500 ± 0.5000** |
    | oracle | 0.7500             |
    """
    means = summary(runs, value)
    experiment = runs["experiment"].iloc[0]
    printed: Entries = PRINTED.get(experiment, {}) if value == "score" else {}
    released: Entries = RELEASED.get(experiment, {}) if value == "score" else {}
    settings = {
        str(setting): rows.droplevel("setting")
        for setting, rows in means.groupby("setting", sort=False)
    }
    if not c_of(runs):
        ours = {f"{name} ({_runs(rows)})": _column(rows) for name, rows in settings.items()}
        seeds = RELEASED_SEEDS.get(experiment, 0)
        theirs = {
            "paper (printed)": printed,
            f"released code, run by us ({seeds} runs)": released,
        }
        return pipe_table(_cells(ours, {name: of for name, of in theirs.items() if of}))

    parts = {
        f"**{name}** ({_runs(rows)})": _cells(
            {f"c = {c:g}": _column(of.droplevel("c")) for c, of in rows.groupby("c")}
        )
        for name, rows in settings.items()
    }
    if released:
        at = {f"c = {i + 1}": {m: (row[i],) for m, row in released.items()} for i in range(5)}
        parts[f"**released code, run by us** ({RELEASED_SEEDS[experiment]} runs)"] = _cells({}, at)
    return "\n\n".join(f"{title}\n\n{pipe_table(cells)}" for title, cells in parts.items())


def pipe_table(frame: pd.DataFrame) -> str:
    """Write a frame, its index first, as a Markdown table; numbers to 4 significant digits.

    Examples
    --------
    >>> index = pd.Index(["as-published", "guarded"], name="setting")
    >>> print(pipe_table(pd.DataFrame({"mean": [0.25, np.nan], "clear": [True, False]}, index)))
    | setting      | mean   | clear |
    | ------------ | ------ | ----- |
    | as-published | 0.2500 | yes   |
    | guarded      |        | no    |
    """
    index = frame.index.to_frame().map(lambda key: f"{key:g}" if isinstance(key, float) else key)
    flat = index.join(frame)
    columns = [[str(name), *map(_text, flat[name].tolist())] for name in flat]
    widths = [max(map(len, column)) for column in columns]
    rows: list[tuple[str, ...]] = list(zip(*columns, strict=True))
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join("| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:#.4g}".rstrip(".")
    return str(value)


def _as_given(value: float) -> str:
    return f"{value:g}"  # a figure of others keeps its digits


def _cells(
    ours: Mapping[str, Entries], theirs: Mapping[str, Entries] | None = None
) -> pd.DataFrame:
    """Mean ± standard error as text, a row per method, the best feasible one of a column bold."""
    columns = {name: _marked(of, _text) for name, of in ours.items()}
    columns |= {name: _marked(of, _as_given) for name, of in (theirs or {}).items()}
    there = {method for column in columns.values() for method in column}
    methods = [*(m for m in METHODS if m in there), *sorted(there - set(METHODS))]
    names = pd.Index([METHODS.get(m, m) for m in methods], name="method")
    return pd.DataFrame(
        {name: [column.get(m, "") for m in methods] for name, column in columns.items()}, names
    )


def _marked(entries: Entries, text: Callable[[float], str]) -> dict[str, str]:
    given = {
        method: [text(x) for x in entry if x is not None and not np.isnan(x)]
        for method, entry in entries.items()
    }
    means = {m: entry[0] for m, entry in entries.items() if m != "oracle" and given[m]}
    best = min((mean for mean in means.values() if mean is not None), default=None)
    return {
        method: f"**{' ± '.join(cell)}**" if means.get(method, np.nan) == best else " ± ".join(cell)
        for method, cell in given.items()
    }


def _column(rows: pd.DataFrame) -> Entries:
    return {str(m): (row["mean"], row["stderr"]) for m, row in rows.iterrows()}


def _runs(rows: pd.DataFrame) -> str:
    low, high = rows["n"].min(), rows["n"].max()
    span = f"{high}" if low == high else f"{low} to {high}"
    return f"{span} run" if high == 1 else f"{span} runs"
