"""The tables of results/peers.md, from the raw rows in results/peers.

    python -m benchmarks.peers development judging ...

`benchmarks/arena/automl.py` computes the rows.
"""

from __future__ import annotations

import sys

import pandas as pd
from benchmarks.claims import CELL, HEAD, PEERS, RESULTS, against, compared, line


def page(name: str, labels: int) -> str:
    """Return the tables of a file of raw rows, with so many labels of the target, as Markdown."""
    rows = pd.read_csv(RESULTS / f"peers/{name}.csv").query("labels == @labels")
    peers = [peer for m, peer in compared(name) if m == labels]
    changes = pd.DataFrame({peer: against(name, peer, labels) for peer in peers})
    parts = [
        HEAD,
        "| --- " * 6 + "|",
        *(line('`"auto"`', PEERS[peer], changes[peer].dropna()) for peer in peers),
        "",
        *markdown(cost(rows, ["auto", *peers])),
        "",
        *markdown(by_table(rows, ["auto", *peers], changes)),
    ]
    return "\n".join(parts)


def cost(rows: pd.DataFrame, searched: list[str]) -> pd.DataFrame:
    """Return what each search took: a row per search."""
    found = {}
    for search in searched:
        own = rows[rows["search"] == search]
        found[search] = {
            "version": ", ".join(own["version"].astype(str).unique()),
            "cells": len(own),
            "CPU seconds: mean": f"{own['cpu_seconds'].mean():.1f}",
            "median": f"{own['cpu_seconds'].median():.1f}",
            "most": f"{own['cpu_seconds'].max():.1f}",
            "wall clock: median": f"{own['seconds'].median():.1f}",
            "repeated with more time": int((own["attempts"] > 1).sum()),
            "failed": int(own["loss"].isna().sum()),
        }
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("search")


def by_table(rows: pd.DataFrame, searched: list[str], changes: pd.DataFrame) -> pd.DataFrame:
    """Return mean losses, and the loss of "auto" relative to each peer, by table."""
    cells = rows.pivot_table("loss", index=[*CELL, "loss_name"], columns="search")
    losses = cells.groupby(level=["dataset", "loss_name"]).mean()[searched]
    table = losses.map("{:.4f}".format, na_action="ignore").reset_index("loss_name")
    for peer in changes:
        table[f"to {peer}"] = changes[peer].map("{:+.1f} %".format, na_action="ignore")
    order = changes["autogluon"].sort_values().index
    return table.loc[order].rename(columns={"loss_name": "loss"})


def markdown(table: pd.DataFrame) -> list[str]:
    """Return the lines of a table."""
    frame = table.reset_index().astype(str)
    lines = [list(frame.columns), ["---"] * len(frame.columns), *frame.to_numpy().tolist()]
    return [f"| {' | '.join(cells)} |" for cells in lines]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for labels in sorted({m for m, _ in compared(name)}):
            print(f"## {name}, {labels} labels of the target\n\n{page(name, labels)}\n")
