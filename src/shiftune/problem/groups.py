"""Rows that belong together, such as visits of a patient: ids become codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.problem.site import Site
from shiftune.wording import count, listed

Codes = NDArray[np.intp]

# A site with fewer groups keeps about one for validation.
FEW_GROUPS = 10


def group_codes(
    given: Mapping[str, tuple[Any, int]], labelled: Collection[str]
) -> tuple[dict[str, Codes], list[str]]:
    """Number the groups of all sites; the same id at two sites is the same group.

    Parameters
    ----------
    given : mapping from the names of sites to (ids of shape (n,) or None, n)
    labelled : names of the sites with labels

    Returns
    -------
    codes : dict from names to arrays of shape (n,)
        Rows without an id have a code of their own. Empty where no site has ids, or no two
        labelled rows belong together.
    notes : list of str

    Examples
    --------
    >>> codes, notes = group_codes({"B": (["u", "v", "u"], 3), "C": ([None, "v"], 2)}, ["B", "C"])
    >>> {site: own.tolist() for site, own in codes.items()}, notes
    ({'B': [0, 1, 0], 'C': [2, 1]}, ['1 labelled row without a group id: each is a
    group of its own'])
    """
    if all(ids is None for ids, _ in given.values()):
        return {}, []
    texts = {
        site: pd.Series([None] * n, dtype="string") if ids is None else _texts(ids)
        for site, (ids, n) in given.items()
    }
    everyone = pd.concat([texts[site] for site in sorted(texts)], ignore_index=True)
    if everyone.isna().all():
        name = next((ids.name for ids, _ in given.values() if hasattr(ids, "name")), "group")
        raise DataError(
            f"the ids of groups, {str(name)!r}, are empty in all rows; name the column with the ids"
        )
    codes = pd.factorize(everyone, sort=True)[0].astype(np.intp)
    missing = codes < 0
    codes[missing] = codes.max() + 1 + np.arange(missing.sum())
    ends = np.cumsum([len(texts[site]) for site in sorted(texts)])[:-1]
    by_site = dict(zip(sorted(texts), np.split(codes, ends), strict=True))
    of_labelled = np.concatenate([by_site[site] for site in labelled])
    if len(np.unique(of_labelled)) == len(of_labelled):
        return {}, ["every labelled row has a group of its own, so groups change nothing"]
    empty = sum(int(texts[site].isna().sum()) for site in labelled)
    notes = [f"{count(empty, 'labelled row')} without a group id: each is a group of its own"]
    return by_site, notes[: bool(empty)]


def groups_of(sites: Sequence[Site]) -> tuple[Codes, ...] | None:
    """Return the groups of every site; None where all rows are independent."""
    found = tuple(site.groups for site in sites if site.groups is not None)
    return found if len(found) == len(sites) else None


def about_groups(sources: Sequence[Site], target: Site) -> list[str]:
    """Return notes on the groups of a problem."""
    groups = groups_of([target, *sources])
    if groups is None:
        return []
    of_target, *codes = map(np.unique, groups)
    ids, sites = np.unique(np.concatenate(codes), return_counts=True)
    rows = sum(map(len, sources))
    notes = [f"the {rows} rows of the sources form {len(ids)} groups, which are never divided"]
    if shared := int((sites > 1).sum()):
        notes.append(
            f"{count(shared, 'group')} at several sources: in the same part of the split at all of "
            "them; if ids are numbered anew at every site, make them different: B-1 instead of 1"
        )
    if known := len(np.intersect1d(ids, of_target)):
        notes.append(
            f"{count(known, 'group')} of the target {target.name!r} also at sources, where the "
            "final model learns from them; the estimated risk is that of new groups"
        )
    pairs = zip(sources, codes, strict=True)
    if small := [site.name for site, own in pairs if len(own) < FEW_GROUPS <= len(site)]:
        notes.append(
            f"fewer than {FEW_GROUPS} groups at {listed(small)}: estimates from so few are rough"
        )
    return notes


def _texts(ids: Any) -> pd.Series:
    """Return ids as text; whole numbers are the same with and without a decimal point."""
    values = pd.Series(ids).reset_index(drop=True).infer_objects()
    if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
        values = values.astype("Int64")
    return values.astype("string")
