"""The regret study from its runs to its tables and figure, in one folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from reproduction.drawing import can_draw
from reproduction.figures import save
from reproduction.markdown import pipe_table
from reproduction.record import RUNS, TABLE, note
from reproduction.regret.picture import figure
from reproduction.regret.study import regret_study
from reproduction.regret.tables import coverage_table, shrinkage_table
from shiftune._files import atomic_write
from shiftune.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Seeds that are written together, and the c at which the study looks at poor overlap.
BLOCK = 10
POOR_OVERLAP = 5.0


def reproduce_regret(
    seeds: range,
    folder: str | Path,
    *,
    ns: Sequence[int] = (100, 300, 1000, 3000),
    Bs: Sequence[int] = (5, 10, 20, 50),
    n_jobs: int = 1,
    progress: bool | None = None,
    command: str = "from Python",
) -> pd.DataFrame:
    """Run the regret study (`reproduction.regret`) and write table and figure.

    Known ratios with GP-LCB and random search and logistic ratios with GP-LCB, at c = 2 for every
    n, and at c = 5, where overlap is poor, for the two smallest. Seeds that the folder has are not
    run again.
    """
    figures = can_draw()
    folder = Path(folder)
    note(folder, {"experiment": "regret", "ns": list(ns), "Bs": list(Bs)}, command)
    path = folder / RUNS
    done = set(read_study(path)["seed"]) if path.exists() else set()
    missing = [seed for seed in seeds if seed not in done]
    for start in range(0, len(missing), BLOCK):
        block = missing[start : start + BLOCK]
        study = partial(regret_study, block, Bs=Bs, n_jobs=n_jobs, progress=progress)
        parts = [
            study(ns, samplers=("gp_lcb", "random")),
            study(ns, ratios=("logistic",)),
            study(ns[:2], c=POOR_OVERLAP, methods=("variance_reduced",)),
            study(ns[:2], c=POOR_OVERLAP, methods=("variance_reduced",), ratios=("logistic",)),
        ]
        frame = pd.concat(parts, ignore_index=True)
        earlier = path.read_text() if path.exists() else ""
        added = frame.to_csv(header=not earlier, index=False, float_format="%.12g")
        with atomic_write(path) as part:  # half a block would count as done
            part.write_text(earlier + added)
    frame = read_study(path)
    frame = frame[frame["seed"].isin(list(seeds))]
    (folder / TABLE).write_text(regret_tables(frame) + "\n", encoding="utf-8")
    if figures:
        save(figure(frame[frame["c"] < POOR_OVERLAP]), folder / "regret")
    return frame


def read_study(path: Path) -> pd.DataFrame:
    """Return the runs of a regret study."""
    try:
        frame = pd.read_csv(path)
        frame[["seed", "c", "B", "regret"]].astype(float)
    except (ValueError, KeyError, OSError) as error:
        raise StorageError(
            f"{path} is damaged or of another experiment ({error}); choose another folder"
        ) from error
    return frame


def regret_tables(frame: pd.DataFrame) -> str:
    """Return how often the bound holds and how the regret shrinks, as Markdown."""
    poor = frame["c"] == POOR_OVERLAP
    usual = frame[~poor]
    parts = {
        f"How often the bound holds (c = {usual['c'].iloc[0]:g}, delta = 0.1 / 0.2)": (
            coverage_table(usual)
        ),
        f"The same where overlap is poor (c = {POOR_OVERLAP:g})": coverage_table(frame[poor]),
        "Mean regret by rows, at the largest B": shrinkage_table(usual, "n"),
        "Mean regret by trials, at the largest n": shrinkage_table(usual, "B"),
    }
    return "\n\n".join(f"{title}:\n\n{pipe_table(table)}" for title, table in parts.items())
