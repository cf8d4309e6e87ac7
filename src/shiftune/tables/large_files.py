"""Files with more rows than are wanted: counted, and read in parts with the types of the whole."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from shiftune.problem.chunks import as_parquet, parquet_dataset, parquet_parts
from shiftune.tables.csv_files import ROWS_AT_ONCE, check_header, explained, read_csv, retyped
from shiftune.tables.files import EXCEL, PARQUET, TableFile, plain_name, read_in_parts

PLAIN_TEXT = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")
BYTES_AT_ONCE = 1 << 24


class LargeFile:
    """A file, or a folder of Parquet files, some of whose rows are read.

    Parameters
    ----------
    path : Path
    rows : int
        Largest number of rows of a part, unless it is of Parquet.
    """

    def __init__(self, path: Path, rows: int = ROWS_AT_ONCE) -> None:
        self.path, self.file = path, TableFile(path, rows)

    @property
    def _parquet(self) -> bool:
        return self.path.is_dir() or self.path.suffix.lower() in PARQUET

    @property
    def row_bound(self) -> float:
        """Upper bound on the number of rows, in much less time than they take to read."""
        if self._parquet:
            found = parquet_dataset(self.path)
            with as_parquet(self.path):
                return float(found.count_rows())
        ending = self.path.suffix.lower()
        if ending in EXCEL:  # sheets are read whole
            return 0.0
        return _lines(self.path) if ending in PLAIN_TEXT else math.inf

    def parts(self, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        """Yield parts of these columns, or of all; those of CSV are text, with gaps."""
        for part in self._read(columns):
            named = part.rename(columns=plain_name)
            yield named if columns is None else named.reindex(columns=list(columns))

    def _read(self, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
        form = self.file.form
        if self._parquet:
            whole = parquet_parts(self.path)
            wanted = [each for each in whole.names if plain_name(each) in (columns or ())]
            # Rows are counted even if the file has none of the columns.
            yield from whole.read(None if columns is None else wanted or whole.names[:1])
        elif form is None:
            yield from self.file.parts(self.file.names if columns is None else columns)
        else:
            chosen = [
                place for place, name in enumerate(self.file.names) if name in (columns or ())
            ]
            some = {} if columns is None else {"usecols": chosen or [0]}
            with explained(self.path):
                check_header(self.path, form)
                reader = read_csv(self.path, form, chunksize=self.file.rows, dtype=str, **some)
            yield from read_in_parts(reader, self.path)

    def typed(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return rows of some parts as the file would be read if it had no others."""
        if not parts:
            return pd.DataFrame(columns=self.file.names)
        table = pd.concat(parts, ignore_index=True)
        form = self.file.form
        return table if form is None else retyped(table, form.separator)


def _lines(path: Path) -> float:
    with path.open("rb") as file:
        counts = [0, 0]
        while block := file.read(BYTES_AT_ONCE):
            counts[0] += block.count(b"\n")
            counts[1] += block.count(b"\r")
    return float(max(counts) + 1)
