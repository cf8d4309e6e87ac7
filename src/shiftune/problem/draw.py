"""Random sample of every site's rows, of a table that may not fit in memory."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from shiftune.errors import DataError, DataWarning, SettingsError, StorageError
from shiftune.problem.chunks import CHANGED, Parts, parts_of
from shiftune.problem.columns import check_columns
from shiftune.problem.row_counts import Counted, LabelRules, Mask, count_parts, marks_of
from shiftune.problem.stacked import about_unlabelled

# Fewest rows of a site that are drawn: they are divided into rows that train and rows that judge.
FEWEST_ROWS = 10
# More rows of a site cannot be divided among parts at random (NumPy).
MOST_OF_A_SITE = 999_999_999


@dataclass(frozen=True, slots=True)
class Sample:
    """Numbers of rows that the sites of a table have, of which some were drawn.

    Attributes
    ----------
    counts : dict from a site's name to the number of its rows
        Those that could be drawn.
    cap : int
        Most rows of a site that were drawn.
    """

    counts: Mapping[str, int]
    cap: int

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

    @property
    def note(self) -> str:
        """What was drawn, and what that costs."""
        larger = np.sqrt(max(self.counts.values()) / self.cap)
        return (
            f"{self.rows_drawn:,} of {self.rows:,} rows are read, drawn at random: at most "
            f"{self.cap:,} of a site; models learn from fewer rows, and standard errors that come "
            f"from rows are about {larger:.1f} times as large at the largest site"
        )


class SampledParts(NamedTuple):
    """Rows that were drawn of every part of a table.

    Attributes
    ----------
    tables : list of DataFrames
        In the order of the parts; the index has the number of each row in the whole table.
    added : bool array of shape (n,)
        Labelled rows of the target that were not drawn.
    sample : Sample or None
        None where all rows were read.
    notes : list of str
        What was drawn and left out, and what it costs.
    """

    tables: list[pd.DataFrame]
    added: Mask
    sample: Sample | None
    notes: list[str]

    @property
    def table(self) -> pd.DataFrame:
        """All rows, numbered from 0."""
        return pd.concat(self.tables, ignore_index=True)


def read_sampled(
    data: Any,
    site: Hashable,
    most_rows: int,
    *,
    columns: Sequence[Hashable] | None = None,
    labels: LabelRules | None = None,
    group: Hashable | None = None,
    random_state: int = 0,
) -> SampledParts:
    """Read a large table; if it has more rows than wanted, a random sample of every site.

    Small sites are read whole; of all others the same number of rows is drawn, without
    replacement. The table is read twice, in parts: sites are counted, then rows are drawn.

    Parameters
    ----------
    data : path, Dask or polars lazy frame, DataFrame, or Parts
        The path is that of a Parquet file or of a folder of them (also one divided by columns, as
        in ``site=A/part-0.parquet``).
    site : column name
    most_rows : int
        Rows of all sites together.
    columns : column names, optional
        To read, `site` included; default: all.
    labels : LabelRules, optional
        Default: rows are drawn whether they have a label or not.
    group : column name, optional
        Of rows that belong together: none are drawn, which would divide them.
    random_state : int

    Examples
    --------
    >>> df = pd.DataFrame({"site": ["A"] * 2 + ["B"] * 50 + ["C"] * 90, "x": range(142)})
    >>> sampled = read_sampled(df, "site", 42)
    >>> sampled.table["site"].value_counts().to_dict()
    {'B': 20, 'C': 20, 'A': 2}
    >>> sampled.notes
    ['42 of 142 rows are read, drawn at random: at most 20 of a site; models learn from fewer rows,
    and standard errors that come from rows are about 2.1 times as large at the largest site']
    """
    if not isinstance(most_rows, int | np.integer) or most_rows < 1:
        raise SettingsError(f"most_rows must be a whole number above 0, got {most_rows!r}")
    parts = parts_of(data)
    check_columns(pd.Index(parts.names, tupleize_cols=False), "the table")
    counted = count_parts(parts, site, labels)
    if counted.rows <= most_rows:
        tables = parts.map(_as_it_is, columns)
        return SampledParts(tables, np.zeros(counted.rows, dtype=bool), None, [])
    return draw(parts, counted, site, most_rows, columns, labels, group, random_state)


def _as_it_is(part: pd.DataFrame) -> pd.DataFrame:
    return part


def draw(
    parts: Parts,
    counted: Counted,
    site: Hashable,
    most_rows: int,
    columns: Sequence[Hashable] | None,
    labels: LabelRules | None,
    group: Hashable | None,
    random_state: int,
) -> SampledParts:
    """Draw rows of a table whose rows were counted; see `read_sampled`."""
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
    if cap < min(max(counts.values()), FEWEST_ROWS):
        raise SettingsError(
            f"a draw of {most_rows:,} rows leaves {cap} of each of {len(counts):,} sites; allow at "
            f"least {kept + FEWEST_ROWS * len(counts):,} rows"
        )
    task = partial(_taken, site=site, labels=labels)
    taken = parts.map(task, columns, _plans(counted, cap, random_state))
    sample = None  # if there were more rows than wanted only because some lack a label
    if max(counts.values()) > cap:
        sample = Sample({str(name): n for name, n in counts.items()}, cap)
    notes = [] if sample is None else [sample.note]
    if counted.lacking:
        notes.append(about_unlabelled(counted.lacking))
        warnings.warn(notes[-1], DataWarning, stacklevel=4)
    if kept:
        notes.append(f"all {kept:,} labelled rows of the target are read, beside those drawn")
    added = np.concatenate([added for _, added in taken])
    return SampledParts([table for table, _ in taken], added, sample, notes)


class _Plan(NamedTuple):
    """What is drawn of a part: rows of every site, of the rows that it had when it was counted."""

    wanted: dict[Hashable, int]
    rows: int
    first: int
    seed: list[int]


def _plans(counted: Counted, cap: int, random_state: int) -> list[_Plan]:
    """Divide the rows to be drawn of every site among the parts, as a draw from all would."""
    rng = np.random.default_rng(random_state)
    wanted: list[dict[Hashable, int]] = [{} for _ in counted.parts]
    for name, n in counted.possible.items():
        if n > MOST_OF_A_SITE:
            raise DataError(
                f"site {str(name)!r} has {n:,} rows; no more than {MOST_OF_A_SITE:,} can be drawn "
                "from: give a part of them"
            )
        here = np.array([part.possible.get(name, 0) for part in counted.parts])
        own = here if n <= cap else rng.multivariate_hypergeometric(here, cap, method="marginals")
        for part, count in zip(wanted, own.tolist(), strict=True):
            if count:
                part[name] = count
    rows = [part.rows for part in counted.parts]
    starts = [0, *np.cumsum(rows).tolist()]
    return [
        _Plan(own, n, start, [random_state, number])
        for number, (own, n, start) in enumerate(zip(wanted, rows, starts, strict=False))
    ]


def _taken(
    part: pd.DataFrame, plan: _Plan, site: Hashable, labels: LabelRules | None
) -> tuple[pd.DataFrame, Mask]:
    """Draw rows of a part; return them, and which of them are read without being drawn."""
    possible, certain = marks_of(part, site, labels)
    where = part[site]
    if len(part) != plan.rows:
        raise StorageError(CHANGED)
    rng = np.random.default_rng(plan.seed)
    drawn = np.zeros(len(part), dtype=bool)
    places = np.flatnonzero(possible)
    codes, sites = pd.factorize(where.iloc[places])
    order = np.argsort(codes, kind="stable")
    start = 0
    for name, n in zip(sites, np.bincount(codes), strict=True):
        rows, start = places[order[start : start + n]], start + n
        take = plan.wanted.get(name, 0)
        drawn[rows if take == n else rng.choice(rows, min(take, n), replace=False)] = True
    if drawn.sum() != sum(plan.wanted.values()):
        raise StorageError(CHANGED)
    chosen = drawn | certain
    table = part[chosen].set_axis(plan.first + np.flatnonzero(chosen), axis=0)
    return table, (certain & ~drawn)[chosen]


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
