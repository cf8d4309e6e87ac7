"""Random sample of every site's rows, of a table that may not fit in memory.

The table is read twice, in parts: rows of every site are counted, then drawn. `read_sampled` is the
entry point; the kinds of tables that come in parts follow last.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune._wording import check_choice, how_to_install
from shiftune.errors import DataError, DataWarning, MissingPackageError, SettingsError, StorageError
from shiftune.problem._reading import about_unlabelled, as_pandas, check_columns, refuse_unlabelled

ROWS_AT_ONCE = 200_000
FEATHER, EXCEL = (".feather", ".arrow"), (".xlsx", ".xls", ".ods")
# Fewest rows of a site that are drawn: they are divided into rows that train and rows that judge.
_FEWEST_ROWS = 10
# More rows of a site cannot be divided among parts at random (NumPy).
MOST_OF_A_SITE = 999_999_999
_CHANGED = "the table changed while it was read; read it again"

Columns = Sequence[Hashable] | None
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sample:
    """Numbers of rows that the sites of a table have, of which some were drawn."""

    counts: Mapping[str, int]  # rows of each site that could be drawn
    cap: int  # most rows of a site that were drawn

    def share_of(self, name: str) -> float:
        """Share of a site's rows that was drawn.

        >>> Sample({"B": 50, "C": 400}, 100).share_of("C")
        0.25
        """
        n = self.counts.get(name, 0)
        return min(n, self.cap) / n if n else 1.0

    @property
    def rows(self) -> int:
        """Rows that could be drawn."""
        return sum(self.counts.values())

    @property
    def rows_drawn(self) -> int:
        """Rows that were drawn."""
        return sum(min(n, self.cap) for n in self.counts.values())


@dataclass(frozen=True, slots=True)
class LabelRules:
    """Part that labels have in a draw."""

    column: Hashable
    target: Any  # site name, or None where the table has no rows of the target
    keep: bool  # whether all labelled rows of the target are read
    drop: bool  # whether other rows without a label are left out; otherwise they are an error


class Parts(NamedTuple):
    """A table in parts, which can be read as often as needed, in the same order."""

    names: Sequence[Hashable]  # of the columns
    read: Callable[[Columns], Iterable[pd.DataFrame]]  # parts with these columns; None for all


class SampledParts(NamedTuple):
    """Rows that were drawn of every part of a table."""

    tables: list[pd.DataFrame]  # the index has the number of each row in the whole table
    added: Mask  # labelled rows of the target that were not drawn, shape (n,)
    sample: Sample | None  # None where all rows were read
    notes: list[str]  # what was drawn and left out, and what it costs

    @property
    def table(self) -> pd.DataFrame:
        """All rows, numbered from 0."""
        return pd.concat(self.tables, ignore_index=True)

    @property
    def rows(self) -> NDArray[np.intp]:
        """Number of each row in the whole table, shape (n,)."""
        return np.concatenate([table.index.to_numpy() for table in self.tables])


def read_sampled(
    data: Any, site: Hashable, most_rows: int, *, columns: Columns = None, **options: Any
) -> SampledParts:
    """Read a large table; if it has more rows than wanted, a random sample of every site.

    `columns` are those to read, `site` included; the options are those of `draw`.
    """
    parts = _parts_of(data)
    sampled = draw(parts, site, most_rows, columns=columns, **options)
    if sampled is None:
        tables = list(parts.read(columns))
        return SampledParts(tables, np.zeros(sum(map(len, tables)), dtype=bool), None, [])
    return sampled


def draw(
    parts: Parts,
    site: Hashable,
    most_rows: int,
    *,
    columns: Columns = None,
    labels: LabelRules | None = None,
    group: Hashable | None = None,
    random_state: int = 0,
) -> SampledParts | None:
    """Draw rows of every site if there are more than wanted in all; return None otherwise.

    Small sites are read whole; of all others the same number of rows is drawn, without
    replacement. Without `labels`, rows are drawn whether they have a label or not. Rows of a
    `group` belong together: none are drawn, which would divide them.
    """
    if not isinstance(most_rows, int | np.integer) or most_rows < 1:
        raise SettingsError(f"most_rows must be a whole number above 0, got {most_rows!r}")
    check_columns(pd.Index(parts.names, tupleize_cols=False), "the table")
    needed = [site] if labels is None else [site, labels.column]
    for name in needed:
        check_choice(name, parts.names, "column", DataError)
    counted = _total([_count(part, site, labels) for part in parts.read(needed)], site, labels)
    if counted.rows <= most_rows:
        return None
    counts, kept = counted.possible, counted.kept
    if group is not None:
        raise SettingsError(
            f"a draw of {most_rows:,} of {counted.rows:,} rows would divide groups of the column "
            f"{group!r}; allow all rows, or draw whole groups yourself"
        )
    if kept >= most_rows:
        raise SettingsError(
            f"the target has {kept:,} labelled rows, which are all kept, so a draw of "
            f"{most_rows:,} rows has no room for others; allow more rows"
        )
    cap = _cap(list(counts.values()), most_rows - kept)
    if cap < min(max(counts.values()), _FEWEST_ROWS):
        raise SettingsError(
            f"a draw of {most_rows:,} rows leaves {cap} of each of {len(counts):,} sites; allow at "
            f"least {kept + _FEWEST_ROWS * len(counts):,} rows"
        )
    drawing = _Drawing(counts, cap, random_state, site)
    taken = [drawing.take(part, labels) for part in parts.read(columns)]
    if drawing.first != counted.rows or drawing.seen != counts:
        raise StorageError(_CHANGED)
    notes = []
    sample = None  # if there were more rows than wanted only because some lack a label
    if max(counts.values()) > cap:
        sample = Sample({str(name): n for name, n in counts.items()}, cap)
        larger = np.sqrt(max(counts.values()) / cap)
        notes.append(
            f"{sample.rows_drawn:,} of {sample.rows:,} rows are read, drawn at random: at most "
            f"{cap:,} of a site; models learn from fewer rows, and standard errors that come from "
            f"rows are about {larger:.1f} times as large at the largest site"
        )
    if counted.lacking:
        notes.append(about_unlabelled(counted.lacking))
        warnings.warn(notes[-1], DataWarning, stacklevel=4)
    if kept:
        notes.append(f"all {kept:,} labelled rows of the target are read, beside those drawn")
    added = np.concatenate([added for _, added in taken])
    return SampledParts([table for table, _ in taken], added, sample, notes)


class _Counts(NamedTuple):
    """Rows of a part, or of all: by site those that can be drawn, and those that lack a label."""

    possible: Counter[Hashable]
    lacking: Counter[Hashable]
    rows: int
    kept: int  # read in any case
    nowhere: int  # without a site


def _count(part: pd.DataFrame, site: Hashable, labels: LabelRules | None) -> _Counts:
    drawable, certain = _marks(part, site, labels)
    where = part[site]
    by_site = (where[mask].value_counts(sort=False) for mask in (drawable, ~drawable))
    # Categories may have no row.
    possible, lacking = (Counter({name: int(n) for name, n in c.items() if n}) for c in by_site)
    return _Counts(possible, lacking, len(part), int(certain.sum()), int(where.isna().sum()))


def _total(parts: Sequence[_Counts], site: Hashable, labels: LabelRules | None) -> _Counts:
    """Add the counts of all parts up.

    Rows without a site, and source rows without a label where they are not left out, are errors.
    """
    possible: Counter[Hashable] = Counter()
    lacking: Counter[Hashable] = Counter()
    for part in parts:
        possible.update(part.possible)
        lacking.update(part.lacking)
    if nowhere := sum(part.nowhere for part in parts):
        raise DataError(f"the site column {site!r} is empty in {nowhere} row(s); fill it")
    if lacking and labels is not None and not labels.drop:
        refuse_unlabelled(labels.column, lacking, possible + lacking)
    if not possible:
        raise DataError(f"the table has {'no row with a label' if lacking else 'no rows'}")
    rows, kept = sum(part.rows for part in parts), sum(part.kept for part in parts)
    return _Counts(possible, lacking, rows, kept, nowhere)


def _marks(part: pd.DataFrame, site: Hashable, labels: LabelRules | None) -> tuple[Mask, Mask]:
    """Mark rows that can be drawn, and rows that are read in any case, shape (n,) each."""
    none = np.zeros(len(part), dtype=bool)
    if labels is None:
        return ~none, none
    codes, names = pd.factorize(part[site])
    same = [labels.target is not None and _alike(name, labels.target) for name in names]
    own, known = np.array([*same, False])[codes], none
    if labels.column in part:  # a file of the target's rows may lack it
        known = part[labels.column].notna().to_numpy()
    return own | known, own & known if labels.keep else none


def _alike(name: Hashable, other: Any) -> bool:
    """Whether two names may be of one site: 7, "7", "7.0" and "007" are.

    >>> _alike("007", 7), _alike("007", "70"), _alike("A", "A")
    (True, False, True)
    """
    one, two = (str(each).removesuffix(".0") for each in (name, other))
    return one == two or (one.isdigit() and two.isdigit() and int(one) == int(two))


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


class _Drawing:
    """Rows of every site that are drawn, by their place among the rows of their site."""

    def __init__(
        self, counts: Mapping[Hashable, int], cap: int, random_state: int, site: Hashable
    ) -> None:
        self.site, self.first, self.total = site, 0, 0
        self.seen: Counter[Hashable] = Counter()
        rng = np.random.default_rng(random_state)
        self.places: dict[Hashable, NDArray[np.intp] | None] = {}
        for name, n in counts.items():
            if n > MOST_OF_A_SITE:
                raise DataError(
                    f"site {str(name)!r} has {n:,} rows; no more than {MOST_OF_A_SITE:,} can be "
                    "drawn from: give a part of them"
                )
            self.places[name] = None if n <= cap else np.sort(rng.choice(n, cap, replace=False))

    def take(self, part: pd.DataFrame, labels: LabelRules | None) -> tuple[pd.DataFrame, Mask]:
        """Draw rows of the next part; return them, and which of them are read without a draw."""
        possible, certain = _marks(part, self.site, labels)
        drawn = np.zeros(len(part), dtype=bool)
        places = np.flatnonzero(possible)
        codes, sites = pd.factorize(part[self.site].iloc[places])
        for code, name in enumerate(sites):
            rows = places[codes == code]
            start, self.seen[name] = self.seen[name], self.seen[name] + len(rows)
            chosen = self.places.get(name)
            if chosen is not None:
                low, high = np.searchsorted(chosen, [start, self.seen[name]])
                rows = rows[chosen[low:high] - start]
            drawn[rows] = True
        chosen_rows = drawn | certain
        table = part[chosen_rows].set_axis(self.first + np.flatnonzero(chosen_rows), axis=0)
        self.first += len(part)
        return table, (certain & ~drawn)[chosen_rows]


def _parts_of(data: Any) -> Parts:
    """Return a table in parts; one that has them already stays as it is."""
    if isinstance(data, Parts):
        return data
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        names = arrow_dataset(path).schema.names
        return Parts(names, lambda columns: arrow_parts(path, columns))
    frame = as_pandas(data)
    if not isinstance(frame, pd.DataFrame):
        raise SettingsError(
            f"a large table is a path of Parquet files or a DataFrame, got {type(data).__name__}"
        )
    return Parts(list(frame), lambda columns: [frame if columns is None else frame[list(columns)]])


def arrow_dataset(path: Path) -> Any:
    """Return the pyarrow dataset of a Parquet or Feather file, or of a folder of Parquet files."""
    if not path.exists():
        raise StorageError(
            f"{path} is a pattern; give the folder of the Parquet files, {path.parent}"
            if glob.has_magic(path.name)
            else f"there is no file or folder {path}"
        )
    if ".csv" in (each.lower() for each in path.suffixes):
        raise StorageError(
            f"{path} is a CSV file, and from_large reads Parquet files; the command line reads "
            "CSV files of any size, and from_frame(pandas.read_csv(...)) those that fit in memory"
        )
    with typed_file(path):
        from pyarrow import dataset

        kind = "feather" if path.suffix.lower() in FEATHER else "parquet"
        return dataset.dataset(path, format=kind, partitioning="hive")


def arrow_parts(
    path: Path, columns: Columns, rows: int = ROWS_AT_ONCE, *, exact: bool = False
) -> Iterator[pd.DataFrame]:
    """Yield parts of a Parquet or Feather file, or of a folder of Parquet files.

    `rows` is the largest number of rows of a part. With `exact`, whole numbers beside missing ones
    do not become floats.
    """
    chosen = None if columns is None else [str(name) for name in columns]
    # One batch at a time: reading ahead would keep many of them in memory.
    options = {"batch_size": rows, "batch_readahead": 0, "fragment_readahead": 0}
    with typed_file(path):
        import pyarrow

        whole = (pyarrow.int64(), pyarrow.int32(), pyarrow.int16()) if exact else ()
        dtypes = dict.fromkeys(whole, pd.Int64Dtype())
        batches = arrow_dataset(path).to_batches(chosen, use_threads=False, **options)
    while True:
        with typed_file(path):  # not around the yield: errors of the caller are no errors here
            batch = next(batches, None)
        if batch is None:
            return
        if batch.num_rows:
            yield with_named_index(batch.to_pandas(types_mapper=dtypes.get))


def with_named_index(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its index, if it has a name, as a column: pandas stores it as one."""
    named = [name for name in table.index.names if name is not None]
    return table.reset_index(named).reset_index(drop=True)


@contextmanager
def typed_file(path: Path) -> Iterator[None]:
    """Turn errors of the packages that read files with types into ours."""
    extra = "excel" if path.suffix.lower() in EXCEL else "parquet"
    try:
        yield
    except ImportError as error:
        package = "pyarrow" if extra == "parquet" else getattr(error, "name", None) or "openpyxl"
        raise MissingPackageError(
            f"reading {path} needs {package}: {how_to_install(extra)}, or give a CSV file"
        ) from error
    except StorageError:
        raise
    except Exception as error:  # errors of packages that may be missing cannot be named
        what = f"cannot be read as {path.suffix[1:] or extra}"
        if path.is_dir():
            what = "has a Parquet file that cannot be read"
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StorageError(f"{path} {what}: {reason}") from error
