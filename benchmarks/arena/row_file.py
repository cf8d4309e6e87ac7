"""CSV file of a run that can be stopped: a row per result, and none is computed twice."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path


class RowFile:
    """Rows on disk, known by the columns of their key.

    Parameters
    ----------
    path : Path
        The file is started with its header if it is not there.
    key, others : names of columns
    """

    def __init__(self, path: Path, key: Sequence[str], others: Sequence[str]) -> None:
        self.path, self.columns = path, [*key, *others]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(",".join(self.columns) + "\n")
        with path.open(newline="") as file:
            self._done = {tuple(row[name] for name in key) for row in csv.DictReader(file)}

    def __contains__(self, key: Sequence[object]) -> bool:
        """Whether the file had a row of this key when it was opened."""
        return tuple(map(str, key)) in self._done

    def add(self, row: Mapping[str, object]) -> None:
        """Append a row."""
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, self.columns).writerow(row)
