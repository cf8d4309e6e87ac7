"""Tables that may not fit in memory, in parts."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pandas as pd

from shiftune.errors import MissingPackageError, SettingsError, StorageError
from shiftune.extras import how_to_install
from shiftune.problem.columns import as_pandas

ROWS_AT_ONCE = 200_000
CHANGED = "the table changed while it was read; read it again"
NO_PARQUET = "cannot be read as parquet"

T = TypeVar("T")
Columns = Sequence[Hashable] | None


class Parts(Protocol):
    """A table in parts, which are read as often as needed, in the same order."""

    @property
    def names(self) -> Sequence[Hashable]:
        """Names of the columns."""

    def map(
        self, task: Callable[..., T], columns: Columns, given: Iterable[Any] | None = None
    ) -> list[T]:
        """Return ``task(part)`` of every part, or ``task(part, its)`` with what is given for each.

        With names of columns, parts have these columns only.
        """


class PartsHere:
    """Parts that are read one after another in this process.

    Parameters
    ----------
    names : column names
    read : function from column names, or None for all, to an iterator of tables
    """

    def __init__(
        self, names: Sequence[Hashable], read: Callable[[Columns], Iterable[pd.DataFrame]]
    ) -> None:
        self.names, self.read = names, read

    def map(
        self, task: Callable[..., T], columns: Columns, given: Iterable[Any] | None = None
    ) -> list[T]:
        """See `Parts`."""
        if given is None:
            return [task(part) for part in self.read(columns)]
        return [task(part, its) for part, its in _together(self.read(columns), given)]


def _together(parts: Iterable[pd.DataFrame], given: Iterable[T]) -> Iterator[tuple[Any, T]]:
    for part, its in zip_longest(parts, given):
        if part is None or its is None:
            raise StorageError(CHANGED)
        yield part, its


class DaskParts:
    """Partitions of a Dask frame: tasks run where they are, and only their results come here.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    """

    def __init__(self, frame: Any) -> None:
        self.names, self._frame = list(frame.columns), frame

    def map(
        self, task: Callable[..., T], columns: Columns, given: Iterable[Any] | None = None
    ) -> list[T]:
        """See `Parts`."""
        from dask.base import compute
        from dask.delayed import delayed

        frame = self._frame if columns is None else self._frame[list(columns)]
        run, parts = delayed(task), frame.to_delayed()
        each = [() for _ in parts] if given is None else zip(given, strict=True)
        tasks = (run(part, *its) for part, its in zip(parts, each, strict=True))
        return list(compute(*tasks))  # type: ignore[no-untyped-call]


def parts_of(data: Any) -> Parts:
    """Return a table in parts; one that has them already stays as it is."""
    if isinstance(data, PartsHere | DaskParts):
        return data
    if isinstance(data, str | os.PathLike):
        return parquet_parts(Path(data))
    if hasattr(data, "partitions") and hasattr(data, "npartitions"):
        return DaskParts(data)
    if hasattr(data, "collect") and hasattr(data, "slice"):
        return _lazy_parts(data)
    frame = as_pandas(data)
    if not isinstance(frame, pd.DataFrame):
        raise SettingsError(
            "a large table is a path of Parquet files, a Dask or polars lazy frame, or a "
            f"DataFrame, got {type(data).__name__}"
        )
    return PartsHere(
        list(frame),
        lambda columns: iter([frame if columns is None else frame[list(columns)]]),
    )


def _lazy_parts(data: Any) -> Parts:
    """Slices of a polars lazy frame."""

    def slices(columns: Columns) -> Iterator[pd.DataFrame]:
        chosen = data if columns is None else data.select(list(columns))
        start = 0
        while len(part := as_pandas(chosen.slice(start, ROWS_AT_ONCE).collect())):
            yield part
            start += len(part)

    return PartsHere(data.collect_schema().names(), slices)


def parquet_parts(path: Path) -> PartsHere:
    """Batches of a Parquet file, or of a folder of them, also one divided by columns."""
    found = parquet_dataset(path)

    def tables(columns: Columns) -> Iterator[pd.DataFrame]:
        batches = batches_of(found, columns)
        while True:
            with as_parquet(path):
                batch = next(batches, None)
            if batch is None:
                return
            table = batch.to_pandas()
            # Pandas stores an index as a column, and makes it an index again.
            yield table.reset_index([name for name in table.index.names if name is not None])

    return PartsHere(found.schema.names, tables)


def parquet_dataset(path: Path) -> Any:
    """Return the pyarrow dataset of a Parquet file, or of a folder of them."""
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
    with as_parquet(path):
        return dataset.dataset(path, format="parquet", partitioning="hive")


@contextmanager
def as_parquet(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises about damaged files into one error."""
    try:
        yield
    except (OSError, ValueError) as error:  # pyarrow's own errors are among them
        what = "has a Parquet file that cannot be read" if path.is_dir() else NO_PARQUET
        raise StorageError(f"{path} {what}: {str(error).splitlines()[0]}") from error


def batches_of(dataset: Any, columns: Columns = None) -> Iterator[Any]:
    """Yield batches of a pyarrow dataset that are not empty."""
    # One batch at a time: reading ahead would keep many of them in memory.
    options = {"batch_size": ROWS_AT_ONCE, "batch_readahead": 0, "fragment_readahead": 0}
    chosen = None if columns is None else [str(name) for name in columns]
    for batch in dataset.to_batches(columns=chosen, use_threads=False, **options):
        if batch.num_rows:
            yield batch
