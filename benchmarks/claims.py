"""The README's table of measured figures, from the raw rows in benchmarks/results.

    python -m benchmarks.claims

tests/test_readme.py compares the README with what this prints.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from benchmarks.arena.regret import mean

RESULTS = Path(__file__).parent / "results"
CELL = ["dataset", "target", "seed"]
HEAD = "| loss of | relative to | mean | median table | better on | worst table |"
SEED = 32
EQUAL = 1e-6  # per cent: an update that is not used changes nothing
ORDINARY = "LightGBM tuned by ordinary validation, 24 trials"
# Searches with equal CPU time, by their names in the raw rows (`results/peers.md`).
PEERS = {
    "naive lightgbm": "LightGBM tuned by ordinary validation, equal CPU",
    "autogluon": "AutoGluon, equal CPU, folds of sites",
    "flaml": "FLAML, equal CPU, folds of sites",
}
EQUAL_CPU = {
    "development": ('`"auto"`, 15 s of CPU', list(PEERS)),
    "labels-30": ("the same, updated by 30 labels", ["autogluon", "flaml"]),
    "judging": ('`"auto"`, 15 s of CPU, held-out tables', list(PEERS)),
    "judging-labels-30": ("the same, updated by 30 labels", ["autogluon", "flaml"]),
}


def rows() -> list[str]:
    """Return the rows of the table as Markdown."""
    found = [line('`"auto"`, 24 trials', ORDINARY, searches(SEED))]
    for file, (name, searched) in EQUAL_CPU.items():
        if (RESULTS / f"peers/{file}.csv").exists():  # "judging" is scored once, at the end
            found += [line(name, PEERS[peer], against(file, peer)) for peer in searched]
    found += [
        line(f"update by {labels} labels", "no labels", updates("real-64-65", labels))
        for labels in (10, 30, 100)
    ]
    name = "the same by 30, held-out tables"
    found.append(line(name, "no labels", updates("judging-70-71", 30)))
    return found


def line(name: str, base: str, percent: pd.Series) -> str:
    """Return a row of the table; `percent` has one value per table."""
    change = mean(percent)
    best = (percent < -EQUAL).mean()
    cells = [
        f"{name}, {len(percent)} tables",
        base,
        f"{change.value:+.1f} % ({change.low:+.1f} to {change.high:+.1f})",
        f"{percent.median():+.1f} %",
        f"{100 * best:.0f} %",
        f"{round(percent.max(), 1) + 0:+.1f} % ({percent.idxmax()})",
    ]
    return f"| {' | '.join(cells)} |"


def searches(seed: int) -> pd.Series:
    """Return the loss of "auto" relative to LightGBM by ordinary validation, per table."""
    loss = _read(f"ensembles/searches-seed-{seed}.csv").pivot_table(
        "loss", index=CELL, columns="search"
    )
    return _per_table(loss["auto"], loss["naive lightgbm"])


def against(file: str, peer: str) -> pd.Series:
    """Return the loss of "auto" relative to a peer with equal CPU time, per table."""
    loss = _read(f"peers/{file}.csv").pivot_table("loss", index=CELL, columns="search")
    return _per_table(loss["auto"], loss[peer]).dropna()


def updates(name: str, labels: int) -> pd.Series:
    """Return the loss of predictors updated by labels relative to no labels, per table."""
    drawn = _read(f"labels/{name}.csv").query("labels == @labels").set_index(CELL)
    return _per_table(drawn["update"], drawn["before"])


def coverage(file: str) -> tuple[float, int]:
    """Return how many nominal 90 % intervals of "auto" contain the loss, of how many cells."""
    auto = _read(f"peers/{file}.csv").query("search == 'auto'")
    inside = auto["loss"].between(auto["low"], auto["high"])
    return float(inside.groupby(auto["dataset"]).mean().mean()), len(auto)


def _per_table(loss: pd.Series, base: pd.Series) -> pd.Series:
    return (100 * loss / base - 100).groupby(level="dataset").mean()


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / name)


if __name__ == "__main__":
    print("\n".join([HEAD, "| --- " * 6 + "|", *rows()]))
    for file, (name, _) in EQUAL_CPU.items():
        if (RESULTS / f"peers/{file}.csv").exists():
            covered, cells = coverage(file)
            print(f"\n{name}: nominal 90 % intervals cover {100 * covered:.0f} % ({cells} cells)")
