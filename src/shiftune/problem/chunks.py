"""Tables that may not fit in memory, in parts."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from shiftune.errors import DataError, MissingPackageError, SettingsError, StorageError
from shiftune.extras import how_to_install
from shiftune.problem.columns import as_pandas
from shiftune.spelling import check_choice

ROWS_AT_ONCE = 200_000

# Yields the table in parts; with names, these columns only.
Parts = Callable[[Sequence[Hashable] | None], Iterator[pd.DataFrame]]


def parts_of(data: Any) -> Parts:
    """Return a function that yields a table in parts, as often as it is called."""
    if isinstance(data, str | os.PathLike):
        return _parquet(Path(data))
    if hasattr(data, "partitions") and hasattr(data, "npartitions"):  # Dask

        def partitions(columns: Sequence[Hashable] | None) -> Iterator[pd.DataFrame]:
            for i in range(data.npartitions):
                part = data.partitions[i]
                yield (part if columns is None else part[list(columns)]).compute()

        return partitions
    if hasattr(data, "collect") and hasattr(data, "slice"):  # polars lazy frame

        def slices(columns: Sequence[Hashable] | None) -> Iterator[pd.DataFrame]:
            chosen = data if columns is None else data.select(list(columns))
            start = 0
            while len(part := as_pandas(chosen.slice(start, ROWS_AT_ONCE).collect())):
                yield part
                start += len(part)

        return slices
    frame = as_pandas(data)
    if not isinstance(frame, pd.DataFrame):
        raise SettingsError(
            "a large table is a path of Parquet files, a Dask or polars lazy frame, or a "
            f"DataFrame, got {type(data).__name__}"
        )
    return lambda columns: iter([frame if columns is None else frame[list(columns)]])


def _parquet(path: Path) -> Parts:
    try:
        from pyarrow import dataset
    except ImportError as error:
        raise MissingPackageError(
            f"reading Parquet files needs the package pyarrow: {how_to_install('parquet')}"
        ) from error
    if not path.exists():
        raise StorageError(
            f"{path} is a pattern; give the folder of the Parquet files, {path.parent}"
            if glob.has_magic(path.name)
            else f"there is no file or folder {path}"
        )
    if ".csv" in (each.lower() for each in path.suffixes):
        raise StorageError(
            f"{path} is a CSV file, and large tables are read from Parquet files; give it as a "
            "Dask frame (dask.dataframe.read_csv), or to from_frame(pandas.read_csv(...)) if it "
            "fits in memory"
        )
    try:
        found = dataset.dataset(path, format="parquet", partitioning="hive")
        names = found.schema.names
    except (OSError, ValueError) as error:  # pyarrow's own errors are among them
        raise StorageError(f"{path} has no Parquet files that can be read ({error})") from error

    def batches(columns: Sequence[Hashable] | None) -> Iterator[pd.DataFrame]:
        for name in columns or ():
            check_choice(name, names, "column", DataError)
        # One batch at a time: reading ahead would keep many of them in memory.
        options = {"batch_size": ROWS_AT_ONCE, "batch_readahead": 0, "fragment_readahead": 0}
        chosen = None if columns is None else [str(name) for name in columns]
        for batch in found.to_batches(columns=chosen, use_threads=False, **options):
            if batch.num_rows:
                yield batch.to_pandas()

    return batches
