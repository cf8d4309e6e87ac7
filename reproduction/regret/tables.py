"""Tables of the regret study."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from reproduction.regret.run import DELTAS
from reproduction.regret.study import coverage, shrinkage

if TYPE_CHECKING:
    from collections.abc import Hashable

CLAIMS = ("lemma B", "lemma C", "theorem", "plug-in")


def coverage_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the share of runs in which each claim holds, by method, ratio and n.

    Of the searches with GP-LCB and the largest B; a cell has one share per delta, and the last
    columns the medians of the theorem's (or plug-in) bound at the first delta and of the regret.

    Examples
    --------
    >>> from reproduction.regret import regret_study
    >>> frame = regret_study(range(4), ns=(100,), Bs=(5,), methods=["unbiased"])
    >>> coverage_table(frame)["theorem"].tolist()
    ['1.00 / 1.00']
    """
    held = coverage(frame[frame["sampler"] == "gp_lcb"])
    keys = ["method", "ratio", "n"]
    rows: dict[tuple[Hashable, ...], dict[str, str]] = {}
    for key, group in held.groupby(keys, sort=False):
        cells = {
            claim: " / ".join(f"{share:.2f}" for share in of["holds"])
            for claim, of in group.groupby("claim")
        }
        first = group[group["delta"] == DELTAS[0]].set_index("claim")
        whole = first.loc["theorem" if "theorem" in first.index else "plug-in"]
        rows[tuple(key)] = {
            **{claim: cells.get(claim, "") for claim in CLAIMS},
            "median bound": f"{whole['median_bound']:.2g}",
            "median regret": f"{whole['median_bounded']:.2g}",
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(list(rows), names=keys)
    return table


def shrinkage_table(frame: pd.DataFrame, along: str) -> pd.DataFrame:
    """Return the mean regret and its standard error along n or B, and the slope of the former.

    Examples
    --------
    >>> from reproduction.regret import regret_study
    >>> frame = regret_study(range(4), ns=(100, 300), Bs=(5,), methods=["unbiased"])
    >>> list(shrinkage_table(frame, "n").columns)
    ['n = 100', 'n = 300', 'slope in log-log']
    """
    found = shrinkage(frame)
    found = found[found["along"] == along]
    keys = ["method", "ratio", "sampler"]
    rows: dict[tuple[Hashable, ...], dict[str, str]] = {}
    for key, group in found.groupby(keys, sort=False):
        cells = {
            f"{along} = {row['value']:g}": f"{row['mean']:.2g} ± {row['stderr']:.1g}"
            for _, row in group.iterrows()
        }
        if along == "n":
            slope = group.iloc[0]
            cells["slope in log-log"] = f"{slope['slope']:.2f} ± {slope['slope_stderr']:.2f}"
        rows[tuple(key)] = cells
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(list(rows), names=keys)
    return table
