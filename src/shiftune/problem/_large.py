"""Random sample of every site's rows, of a table that may not fit in memory.

The table is read twice, in parts: the site of every row, and whether it has a label; then the rows
that were drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._wording import check_choice
from shiftune.errors import DataError, DataWarning, SettingsError, StorageError
from shiftune.problem._reading import about_unlabelled, check_columns, check_types, site_names
from shiftune.problem._table import TableSettings, in_one_spelling, target_names
from shiftune.tables._files import CHANGED, SiteFiles

# Fewest rows of a site that are drawn: some of them train, the others evaluate.
_FEWEST_ROWS = 10

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sample:
    """Numbers of rows that the sites of a table have, of which some were drawn."""

    counts: Mapping[str, int]  # rows of each site that could be drawn
    cap: int  # most rows of a site that were drawn

    def share_of(self, name: str) -> float:
        """Share of a site's rows that was drawn."""
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


class Sampled(NamedTuple):
    """Rows of a table: all, or those that were drawn."""

    table: pd.DataFrame
    rows: NDArray[np.intp] | None = None  # numbers of the drawn rows in the whole table, shape (n,)
    added: Mask = np.zeros(0, dtype=bool)  # labelled rows of the target that were not drawn, (n,)
    sample: Sample | None = None  # None where all rows were read
    notes: tuple[str, ...] = ()  # what was drawn and left out, and what it costs


def read_sampled(
    data: SiteFiles | pd.DataFrame, settings: TableSettings, most_rows: int, random_state: int = 0
) -> Sampled:
    """Read a large table; if it has more rows than wanted, a random sample of every site.

    Small sites are read whole; of all others the same number of rows is drawn, without
    replacement. Without a label, all rows can be drawn; otherwise those with a label, and the
    target's. Rows of a subject belong together: none are drawn, which would divide them.
    """
    if not isinstance(most_rows, int | np.integer) or most_rows < 1:
        raise SettingsError(f"most_rows must be a whole number above 0, got {most_rows!r}")
    if isinstance(data, SiteFiles):
        data.refuse_doubled([*settings.roles.values(), *settings.ids])
    drawn = Sampled(pd.DataFrame())
    if (len(data) if isinstance(data, pd.DataFrame) else data.row_bound) > most_rows:
        sites, labelled = _sites_and_labels(data, settings)
        if len(sites) > most_rows:
            drawn = _draw(sites, labelled, settings, most_rows, random_state)
    if isinstance(data, pd.DataFrame):
        if data.empty:
            raise DataError("the table has no rows")
        rows = drawn.rows
        return drawn._replace(
            table=data if rows is None else data.iloc[rows].reset_index(drop=True)
        )
    columns = None
    if settings.features is not None:
        used = {*settings.roles.values(), *settings.features}
        columns = [name for name in data.names if name in used]
    if drawn.rows is None:
        return drawn._replace(table=data.read(columns))
    table = data.read(columns, drawn.rows, len(sites))
    # The rows of a site have one name, however it is written.
    counted = pd.Series(sites[drawn.rows])
    names = table[settings.site].astype(str).str.strip()
    if names.groupby(counted, observed=True).nunique().max() > 1:
        raise StorageError(CHANGED)
    return drawn._replace(table=table)


def _sites_and_labels(
    data: SiteFiles | pd.DataFrame, settings: TableSettings
) -> tuple[pd.Categorical, Mask]:
    """Return the site of every row, and whether it has a label, if there are labels."""
    names = list(data) if isinstance(data, pd.DataFrame) else data.names
    check_columns(pd.Index(names, tupleize_cols=False), "the table")
    needed = [name for name in (settings.site, settings.label) if name is not None]
    for name in needed:
        check_choice(name, names, "column", DataError)
    sites, labelled = [], []
    if isinstance(data, pd.DataFrame):
        parts: Iterable[pd.DataFrame] = [data]
    else:
        parts = (part for _, part in data.parts([*map(str, needed)]))
    for part in parts:
        check_types(part, settings.roles)
        where = part[settings.site]
        if not settings.as_given:
            where = in_one_spelling(where, "", [])
        codes, seen = pd.factorize(where.astype(object))
        sites.append(pd.Categorical.from_codes(codes, pd.Index(seen, dtype=object)))
        labelled.append(part[needed[-1]].notna() | (settings.label is None))
    return types.union_categoricals(sites), np.concatenate(labelled)


def _draw(
    sites: pd.Categorical,
    labelled: Mask,
    settings: TableSettings,
    most_rows: int,
    random_state: int,
) -> Sampled:
    """Draw rows, from the site of each and whether it has a label; they are not read yet."""
    n_rows = len(sites)
    if nowhere := int((sites.codes < 0).sum()):
        raise DataError(f"the site column {settings.site!r} is empty in {nowhere} row(s); fill it")
    _, names = site_names(pd.Series(sites.categories), f"the site column {settings.site!r}")
    of_target = np.zeros(n_rows, dtype=bool)
    if settings.target is not None:  # otherwise its rows are a table of their own
        labels = np.bincount(sites.codes, labelled, len(names))  # number at every site
        labels[labels == 0] = np.nan
        every = {settings.site: sites.categories, settings.label: labels}
        of_target = np.isin(names, target_names(settings, pd.DataFrame(every), names))[sites.codes]
    possible = labelled | of_target
    counts, lacking = (
        np.bincount(sites.codes[mask], minlength=len(names)) for mask in (possible, ~possible)
    )
    without_label = {name: int(n) for name, n in zip(names, lacking, strict=True) if n}
    all_rows = dict(zip(names, counts + lacking, strict=True))
    left_out = about_unlabelled(settings.label, without_label, all_rows, settings.missing_labels)
    if settings.subject is not None:
        raise SettingsError(
            f"a draw of {most_rows:,} of {n_rows:,} rows would divide subjects of the column "
            f"{settings.subject!r}; allow all rows, or draw whole subjects yourself"
        )
    certain = of_target & labelled & (settings.target_labels == "use")
    kept, used = int(certain.sum()), np.count_nonzero(counts)
    cap = _cap(counts[counts > 0].tolist(), most_rows - kept)
    if kept >= most_rows or cap < min(counts.max(), _FEWEST_ROWS):
        beside = f" beside {kept:,} labelled rows of the target, which are all kept" if kept else ""
        raise SettingsError(
            f"a draw of {most_rows:,} rows leaves {cap} of each of {used:,} sites{beside}; allow "
            f"at least {kept + _FEWEST_ROWS * used:,} rows"
        )
    rng = np.random.default_rng(random_state)
    drawn = np.zeros(n_rows, dtype=bool)
    places = np.flatnonzero(possible)
    by_site = places[np.argsort(sites.codes[places], kind="stable")]
    for rows in np.split(by_site, np.cumsum(counts)[:-1]):
        drawn[rows if len(rows) <= cap else rng.choice(rows, cap, replace=False)] = True
    notes, sample = [], None
    if counts.max() > cap:  # otherwise there are more rows than wanted only without a label
        rows_by_site = {name: int(n) for name, n in zip(names, counts, strict=True) if n}
        sample = Sample(rows_by_site, cap)
        notes.append(
            f"{sample.rows_drawn:,} of {sample.rows:,} rows are read, drawn at random: at most "
            f"{cap:,} of a site; models learn from fewer rows, and standard errors that come from "
            f"rows are about {np.sqrt(counts.max() / cap):.1f} times as large at the largest site"
        )
    for note in left_out:
        notes.append(note)
        warnings.warn(note, DataWarning, stacklevel=4)
    if kept:
        notes.append(f"all {kept:,} labelled rows of the target are read, beside those drawn")
    chosen = drawn | certain
    added = (certain & ~drawn)[chosen]
    return Sampled(pd.DataFrame(), np.flatnonzero(chosen), added, sample, tuple(notes))


def _cap(counts: list[int], most: int) -> int:
    """Return the number of rows at which sites are cut, so that `most` are left in all."""
    if sum(counts) <= most:
        return max(counts)
    left = most
    for done, n in enumerate(sorted(counts)):
        cap = left // (len(counts) - done)
        if n > cap:
            return max(cap, 1)
        left -= n
    return max(counts)
