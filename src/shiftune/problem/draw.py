"""Random sample of every site's rows, of a table that may not fit in memory."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError, DataWarning, SettingsError
from shiftune.problem.chunks import Parts, parts_of

# Fewest rows of a site that are drawn: they are divided into rows that train and rows that judge.
FEWEST_ROWS = 10

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LabelRules:
    """Part that labels have in a draw.

    Attributes
    ----------
    column : column name
    target : site name, or None where the table has no rows of the target
    keep : bool
        Whether all labelled rows of the target are read.
    drop : bool
        Whether rows of other sites are drawn only if they have a label.
    """

    column: Hashable
    target: Any
    keep: bool
    drop: bool

    def marks(self, part: pd.DataFrame, site: Hashable) -> tuple[Mask, Mask]:
        """Mark rows that can be drawn, and rows that are read in any case, shape (n,) each."""
        codes, names = pd.factorize(part[site])
        same = [
            self.target is not None and (name == self.target or str(name) == str(self.target))
            for name in names
        ]
        own, known = np.array([*same, False])[codes], part[self.column].notna().to_numpy()
        everyone, nobody = np.ones(len(part), dtype=bool), np.zeros(len(part), dtype=bool)
        return own | known if self.drop else everyone, own & known if self.keep else nobody


class SampledTable(NamedTuple):
    """Rows of a large table.

    Attributes
    ----------
    table : DataFrame of n rows
    added : bool array of shape (n,)
        Labelled rows of the target that were not drawn.
    notes : list of str
        What was drawn and left out, and what it costs.
    """

    table: pd.DataFrame
    added: Mask
    notes: list[str]


def read_sampled(
    data: Any,
    site: Hashable,
    most_rows: int,
    *,
    columns: Sequence[Hashable] | None = None,
    labels: LabelRules | None = None,
    group: Hashable | None = None,
    random_state: int = 0,
) -> SampledTable:
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
    labels : LabelRules, optional
        Default: rows are drawn whether they have a label or not.
    group : column name, optional
        Of rows that belong together: none are drawn, which would divide them.
    random_state : int

    Examples
    --------
    >>> df = pd.DataFrame({"site": ["A"] * 2 + ["B"] * 50 + ["C"] * 90, "x": range(142)})
    >>> table, _, notes = read_sampled(df, "site", 42)
    >>> table["site"].value_counts().to_dict()
    {'B': 20, 'C': 20, 'A': 2}
    >>> notes
    ['42 of 142 rows are read, drawn at random: at most 20 of a site; models learn from fewer rows,
    and standard errors that come from rows are about 2.1 times as large at the largest site']
    """
    if not isinstance(most_rows, int | np.integer) or most_rows < 1:
        raise SettingsError(f"most_rows must be a whole number above 0, got {most_rows!r}")
    parts = parts_of(data)
    counts, left_out, kept = _counted(parts, site, labels)
    if (total := sum((counts + left_out).values())) <= most_rows:
        table = pd.concat(parts(columns), ignore_index=True)
        return SampledTable(table, np.zeros(total, dtype=bool), [])
    if group is not None:
        raise SettingsError(
            f"a draw of {most_rows:,} of {total:,} rows would divide groups of the column "
            f"{group!r}; give most_rows={total}, or draw whole groups yourself and use from_frame"
        )
    if kept >= most_rows:
        raise SettingsError(
            f"the target has {kept:,} labelled rows, so most_rows must be above it, got {most_rows}"
        )
    cap = _cap(list(counts.values()), most_rows - kept)
    if cap < min(max(counts.values()), FEWEST_ROWS):
        raise SettingsError(
            f"most_rows={most_rows} leaves {cap} of the rows of a site, and there are "
            f"{len(counts)} sites; give at least {kept + FEWEST_ROWS * len(counts)}"
        )
    rng = np.random.default_rng(random_state)
    left = dict(counts)
    wanted = {name: min(n, cap) for name, n in counts.items()}
    tables, added = [], []
    for part in parts(columns):
        drawn = np.zeros(len(part), dtype=bool)
        possible, certain = _marks(part, site, labels)
        places = np.flatnonzero(possible)
        drawn[places[_drawn(part[site].iloc[places], left, wanted, rng)]] = True
        tables.append(part[drawn | certain])
        added.append((certain & ~drawn)[drawn | certain])
    notes = [*_about_sample(counts, cap), *_about_labels(left_out, kept)]
    return SampledTable(pd.concat(tables, ignore_index=True), np.concatenate(added), notes)


def _marks(part: pd.DataFrame, site: Hashable, labels: LabelRules | None) -> tuple[Mask, Mask]:
    if labels is not None:
        return labels.marks(part, site)
    return np.ones(len(part), dtype=bool), np.zeros(len(part), dtype=bool)


def _counted(
    parts: Parts, site: Hashable, labels: LabelRules | None
) -> tuple[Counter[Hashable], Counter[Hashable], int]:
    """Count the rows of every site that can be drawn, and others, and rows read in any case."""
    counts: Counter[Hashable] = Counter()
    left_out: Counter[Hashable] = Counter()
    missing = kept = 0
    for part in parts([site] if labels is None else [site, labels.column]):
        possible, certain = _marks(part, site, labels)
        counts.update(part[site][possible].value_counts().to_dict())
        left_out.update(part[site][~possible].value_counts().to_dict())
        missing += int(part[site].isna().sum())
        kept += int(certain.sum())
    if missing:
        raise DataError(f"the site column {site!r} is empty in {missing} row(s); fill it")
    if not +counts:
        lacking = "no rows" if not +left_out else "no row with a label"
        raise DataError(f"the table has {lacking}")
    return +counts, +left_out, kept


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
) -> NDArray[np.intp]:
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
    return np.sort(np.concatenate([np.empty(0, dtype=np.intp), *found]))


def _about_sample(counts: Counter[Hashable], cap: int) -> list[str]:
    total, read = sum(counts.values()), sum(min(n, cap) for n in counts.values())
    if read == total:
        return []
    most = np.sqrt(max(counts.values()) / cap)
    return [
        f"{read:,} of {total:,} rows are read, drawn at random: at most {cap:,} of a site; models "
        "learn from fewer rows, and standard errors that come from rows are about "
        f"{most:.1f} times as large at the largest site"
    ]


def _about_labels(left_out: Counter[Hashable], kept: int) -> list[str]:
    notes = [
        f"{n} row(s) of site {str(name)!r} without label are left out"
        for name, n in left_out.items()
    ]
    for note in notes:
        warnings.warn(note, DataWarning, stacklevel=4)
    if kept:
        notes.append(f"all {kept:,} labelled rows of the target are read, beside those drawn")
    return notes
