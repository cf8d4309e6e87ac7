"""Files of results that can be compared: all columns are there, and no row is there twice."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from regret import CELL

KEYS = {
    "scores": [*CELL, "estimator"],
    "labels": [*CELL, "draw", "labels", "estimator"],
    "training": [*CELL, "weights", "chosen_by"],
    "ratios": [*CELL, "estimator"],
}
COLUMNS = {
    "scores": ["kind", "group", "fits", "value", "loss", "best", "median", "rank", "low", "high"],
    "labels": ["kind", "loss", "best", "median"],
    "training": ["kind", "loss", "best"],
    "ratios": ["kind", "loss", "best", "median"],
}


def read(folder: Path, name: str) -> pd.DataFrame | None:
    """Read one of the files, without rows that have no loss; None where it is missing."""
    path = folder / f"{name}.csv"
    if not path.exists():
        return None
    frame = pd.read_csv(path, dtype={"dataset": str, "target": str})
    lacking = [column for column in KEYS[name] + COLUMNS[name] if column not in frame]
    if lacking:
        raise ValueError(f"{path} lacks the columns {', '.join(lacking)}")
    twice = frame.duplicated(KEYS[name])
    if twice.any():
        first = ", ".join(f"{key} {frame.loc[twice.idxmax(), key]}" for key in KEYS[name])
        raise ValueError(f"{path} has {twice.sum()} rows twice, the first: {first}")
    return frame.dropna(subset="loss")
