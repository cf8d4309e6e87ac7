"""The README's table of measured figures, from the raw rows in benchmarks/results.

    python -m benchmarks.claims

tests/test_readme.py compares the README with what this prints.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from benchmarks.arena.regret import LEVEL, Measured, mean
from scipy.stats import t

RESULTS = Path(__file__).parent / "results"
CELL = ["dataset", "target", "seed"]
HEAD = "| loss of | relative to | mean | median table | lower on | worst table |"
# Of fewer tables a bootstrap gives intervals that are too narrow.
FEW = 10
EQUAL = 1e-6  # per cent: an update that is not used changes nothing
# Searches with as much CPU time, by their names in the raw rows (`results/peers.md`).
PEERS = {
    "naive lightgbm": "LightGBM, tuned on random rows, equal CPU",
    "autogluon": "AutoGluon, equal CPU, folds of sites",
    "flaml": "FLAML, equal CPU, folds of sites",
}
# Files of raw rows: of the tables of the development, and of held-out ones.
EQUAL_CPU = {
    "development": '`"auto"`, 15 s of CPU',
    "judging": '`"auto"`, 15 s of CPU, held-out',
}
UPDATED = "{} labels, on which peers train"


def rows() -> list[str]:
    """Return the rows of the table as Markdown."""
    found = []
    for file, name in EQUAL_CPU.items():
        for labels, peer in compared(file):
            cells = f"{name}, {UPDATED.format(labels)}" if labels else name
            found.append(line(cells, PEERS[peer], against(file, peer, labels)))
    held_out = updates("judging-70-71", 30)
    found.append(line("30 labels of the target, held-out", "no labels", held_out))
    found += [
        line(f"{labels} labels of the target", "no labels", updates("real-64-65", labels))
        for labels in (10, 30, 100)
    ]
    return found


def interval_of(percent: pd.Series) -> Measured:
    """Return the mean with its 90 % interval: by bootstrap, or of few tables by Student's t."""
    if len(percent) >= FEW:
        return mean(percent)
    value, half = percent.mean(), t.ppf((1 + LEVEL) / 2, len(percent) - 1) * percent.sem()
    return Measured(value, value - half, value + half)


def line(name: str, base: str, percent: pd.Series) -> str:
    """Return a row of the table; `percent` has one value per table."""
    change = interval_of(percent)
    best = (percent < -EQUAL).mean()
    cells = [
        f"{name}, {len(percent)} tables",
        base,
        f"{change.value:+.1f} % ({change.low:+.1f} to {change.high:+.1f})",
        f"{percent.median():+.1f} %",
        f"{100 * best:.0f} %",
        f"{_signed(percent.max())} % ({percent.idxmax()})",
    ]
    return f"| {' | '.join(cells)} |"


def compared(file: str) -> list[tuple[int, str]]:
    """Return numbers of labels and peers that a file of raw rows has; none if it is not there."""
    if not (RESULTS / f"peers/{file}.csv").exists():
        return []
    there = set(_read(f"peers/{file}.csv").groupby(["labels", "search"]).groups)
    return [
        (m, peer) for m in sorted({m for m, _ in there}) for peer in PEERS if (m, peer) in there
    ]


def against(file: str, peer: str, labels: int = 0) -> pd.Series:
    """Return the loss of "auto" relative to a peer with equal CPU time, per table."""
    rows = _read(f"peers/{file}.csv").query("labels == @labels")
    loss = rows.pivot_table("loss", index=CELL, columns="search")
    return _per_table(loss["auto"], loss[peer]).dropna()


def updates(name: str, labels: int) -> pd.Series:
    """Return the loss of predictors updated by labels relative to no labels, per table."""
    drawn = _read(f"labels/{name}.csv").query("labels == @labels").set_index(CELL)
    return _per_table(drawn["update"], drawn["before"])


def coverage(file: str) -> tuple[float, int]:
    """Return how many nominal 90 % intervals of "auto" contain the loss, of how many cells."""
    auto = _read(f"peers/{file}.csv").query("search == 'auto' and labels == 0")
    inside = auto["loss"].between(auto["low"], auto["high"])
    return float(inside.groupby(auto["dataset"]).mean().mean()), len(auto)


def _per_table(loss: pd.Series, base: pd.Series) -> pd.Series:
    return (100 * loss / base - 100).groupby(level="dataset").mean()


def _signed(percent: float) -> str:
    return f"{percent:+.1f}" if round(percent, 1) else "0.0"


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / name)


if __name__ == "__main__":
    print("\n".join([HEAD, "| --- " * 6 + "|", *rows()]))
    for file, name in EQUAL_CPU.items():
        if compared(file):
            covered, cells = coverage(file)
            print(f"\n{name}: nominal 90 % intervals cover {100 * covered:.0f} % ({cells} cells)")
