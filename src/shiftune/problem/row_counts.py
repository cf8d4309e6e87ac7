"""Rows of every site of a table in parts: how many can be drawn, and how many lack a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.problem.chunks import Parts
from shiftune.problem.stacked import refuse_unlabelled
from shiftune.spelling import check_choice

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
        Whether rows of other sites without a label are left out; otherwise they are an error.
    """

    column: Hashable
    target: Any
    keep: bool
    drop: bool

    def marks(self, part: pd.DataFrame, site: Hashable) -> tuple[Mask, Mask]:
        """Mark rows that can be drawn, and rows that are read in any case, shape (n,) each."""
        codes, names = pd.factorize(part[site])
        same = [self.target is not None and _alike(name, self.target) for name in names]
        own, known = np.array([*same, False])[codes], np.zeros(len(part), dtype=bool)
        if self.column in part:  # a file of the target's rows may lack it
            known = part[self.column].notna().to_numpy()
        return own | known, own & known if self.keep else np.zeros(len(part), dtype=bool)


def _alike(name: Hashable, other: Any) -> bool:
    """Whether two names may be of one site: 7, "7", "7.0" and "007" are.

    >>> _alike("007", 7), _alike("007", "70"), _alike("A", "A")
    (True, False, True)
    """
    one, two = (str(each).removesuffix(".0") for each in (name, other))
    return one == two or (one.isdigit() and two.isdigit() and int(one) == int(two))


class PartCounts(NamedTuple):
    """Rows of a part, by site: those that can be drawn, those that lack a label; rows in all."""

    possible: dict[Hashable, int]
    lacking: dict[Hashable, int]
    rows: int
    kept: int
    nowhere: int


class Counted(NamedTuple):
    """Rows of all parts: of each part, and summed."""

    parts: list[PartCounts]
    possible: Counter[Hashable]
    lacking: Counter[Hashable]
    rows: int
    kept: int


def count_parts(parts: Parts, site: Hashable, labels: LabelRules | None) -> Counted:
    """Count the rows of every site that can be drawn, and others, and rows read in any case.

    Rows without a site, and source rows without a label where they are not left out, are errors.
    """
    names = [site] if labels is None else [site, labels.column]
    for name in names:
        check_choice(name, parts.names, "column", DataError)
    found = parts.map(partial(_counted, site=site, labels=labels), names)
    possible: Counter[Hashable] = Counter()
    lacking: Counter[Hashable] = Counter()
    for each in found:
        possible.update(each.possible)
        lacking.update(each.lacking)
    if nowhere := sum(each.nowhere for each in found):
        raise DataError(f"the site column {site!r} is empty in {nowhere} row(s); fill it")
    if lacking and labels is not None and not labels.drop:
        refuse_unlabelled(labels.column, lacking, possible + lacking)
    if not possible:
        raise DataError(f"the table has {'no row with a label' if lacking else 'no rows'}")
    rows, kept = sum(each.rows for each in found), sum(each.kept for each in found)
    return Counted(found, possible, lacking, rows, kept)


def _counted(part: pd.DataFrame, site: Hashable, labels: LabelRules | None) -> PartCounts:
    possible, certain = marks_of(part, site, labels)
    where = part[site]
    return PartCounts(
        _sites_in(where[possible]),
        _sites_in(where[~possible]),
        len(part),
        int(certain.sum()),
        int(where.isna().sum()),
    )


def _sites_in(where: pd.Series) -> dict[Hashable, int]:
    counts = where.value_counts(sort=False)
    return {name: int(n) for name, n in counts.items() if n}  # categories may have no row


def marks_of(part: pd.DataFrame, site: Hashable, labels: LabelRules | None) -> tuple[Mask, Mask]:
    """Mark rows that can be drawn, and rows that are read in any case; see `LabelRules.marks`."""
    if labels is not None:
        return labels.marks(part, site)
    return np.ones(len(part), dtype=bool), np.zeros(len(part), dtype=bool)
