"""Tables that may not fit in memory: read in parts, with a random sample of every site's rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from shiftune.errors import DataError, MissingPackageError, SettingsError, StorageError
from shiftune.extras import how_to_install
from shiftune.problem.columns import as_pandas
from shiftune.spelling import check_choice

ROWS_AT_ONCE = 200_000

# Yields the table in parts; with names, these columns only.
Parts = Callable[[Sequence[Hashable] | None], Iterator[pd.DataFrame]]


def read_sampled(
    data: Any,
    site: Hashable,
    most_rows: int,
    *,
    columns: Sequence[Hashable] | None = None,
    random_state: int = 0,
) -> tuple[pd.DataFrame, list[str]]:
    """Read a large table; if it has more rows than wanted, a random sample of every site.

    Small sites are read whole; of all others the same number of rows is drawn, without
    replacement. The table is read twice, in parts: sites are counted, then rows are drawn.

    Parameters
    ----------
    data : path, Dask or polars lazy frame, or DataFrame
        The path is that of a Parquet file or of a folder of them (also one divided by columns, as
        in ``site=A/part-0.parquet``).
    site : column name
    most_rows : int
        Rows of all sites together.
    columns : column names, optional
        To read, `site` included; default: all.
    random_state : int

    Returns
    -------
    table : DataFrame
    notes : list of str
        What was drawn, and how much larger standard errors are for it.

    Examples
    --------
    >>> df = pd.DataFrame({"site": ["A"] * 2 + ["B"] * 50 + ["C"] * 90, "x": range(142)})
    >>> table, notes = read_sampled(df, "site", 42)
    >>> table["site"].value_counts().to_dict()
    {'B': 20, 'C': 20, 'A': 2}
    >>> notes
    ['42 of 142 rows are read, drawn at random: at most 20 of a site; standard errors that come from
    rows are up to 2.1 times those of all rows']
    """
    if not isinstance(most_rows, int | np.integer) or most_rows < 1:
        raise SettingsError(f"most_rows must be a whole number above 0, got {most_rows!r}")
    parts = parts_of(data)
    counts: Counter[Hashable] = Counter()
    missing = 0
    for part in parts([site]):
        counts.update(part[site].value_counts().to_dict())
        missing += int(part[site].isna().sum())
    if missing:
        raise DataError(f"the site column {site!r} is empty in {missing} row(s); fill it")
    if not counts:
        raise DataError("the table has no rows")
    cap = _cap(list(counts.values()), most_rows)
    rng = np.random.default_rng(random_state)
    left = dict(counts)
    wanted = {name: min(n, cap) for name, n in counts.items()}
    kept = [part.iloc[_drawn(part[site], left, wanted, rng)] for part in parts(columns)]
    return pd.concat(kept, ignore_index=True), _about_sample(counts, cap)


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
        raise StorageError(f"there is no file or folder {path}")
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


def _cap(counts: list[int], most: int) -> int:
    """Return the number of rows at which sites are cut, so that `most` are left in all.

    >>> _cap([2, 50, 90], 42), _cap([2, 50, 90], 1000)
    (20, 90)
    """
    if sum(counts) <= most:
        return max(counts)
    left = most
    for done, n in enumerate(sorted(counts)):
        cap = left // (len(counts) - done)
        if n > cap:
            return max(cap, 1)
        left -= n
    return max(counts)


def _drawn(
    names: pd.Series,
    left: dict[Hashable, int],
    wanted: dict[Hashable, int],
    rng: np.random.Generator,
) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Draw rows of a part, as many of every site as a draw from the whole table would have.

    `left` and `wanted` count rows of every site that are still to come, and still to be drawn.
    """
    codes, sites = pd.factorize(names)
    order = np.argsort(codes, kind="stable")
    found, start = [], 0
    for name, n in zip(sites, np.bincount(codes), strict=True):
        rows, start = order[start : start + n], start + n
        take = int(rng.hypergeometric(n, left[name] - n, wanted[name])) if wanted[name] else 0
        found.append(rows if take == n else rng.choice(rows, take, replace=False))
        left[name] -= n
        wanted[name] -= take
    return np.sort(np.concatenate(found))


def _about_sample(counts: Counter[Hashable], cap: int) -> list[str]:
    total, read = sum(counts.values()), sum(min(n, cap) for n in counts.values())
    if read == total:
        return []
    most = np.sqrt(max(counts.values()) / cap)
    return [
        f"{read:,} of {total:,} rows are read, drawn at random: at most {cap:,} of a site; "
        f"standard errors that come from rows are up to {most:.1f} times those of all rows"
    ]
