"""The three-way split of every source: density ratio | training | validation.

Rows are assigned site by site; where rows belong to groups, whole groups are, at all their sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from shiftune.errors import DataError, SettingsError
from shiftune.problem._site import Site, sites_have

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# 30 % validation; of the rest 30 % for the density ratio and 70 % for training.
PAPER_SHARES = (0.21, 0.49, 0.30)
_DENSITY, _TRAIN, _VALIDATION = range(3)
# Rows wanted in a part that is not: a group there costs more than any deviation elsewhere.
_NOTHING = 1e-100


@dataclass(frozen=True, slots=True)
class Split:
    """Parts of every source, one `Site` per source in the problem's order.

    The few labelled rows of the target, where there are any, come last in `train` and
    `validation`; `density` has none of them, because their density ratio is known to be 1.
    """

    density: tuple[Site, ...]
    train: tuple[Site, ...]
    validation: tuple[Site, ...]

    @property
    def names(self) -> list[str]:
        """Names of the validation sites, for `shiftune.risk.estimate`."""
        return [site.name for site in self.validation]


def split_sites(
    sources: Sequence[Site],
    labelled_target: Site | None,
    shares: tuple[float, float, float],
    stratify: bool,
    random_state: int,
) -> Split:
    """Split every site by itself, or by groups of rows; see `ShiftProblem.split`."""
    wanted = np.asarray(shares, dtype=float)
    if wanted.shape != (3,) or not np.all(np.isfinite(wanted)) or np.any(wanted < 0):
        raise SettingsError(f"shares must be three numbers >= 0, got {shares!r}")
    if wanted.sum() <= 0 or not np.isclose(wanted.sum(), 1.0):
        raise SettingsError(f"the shares must add up to 1, got {shares!r} = {wanted.sum():g}")
    sites, of_sites = list(sources), [wanted / wanted.sum()] * len(sources)
    few = wanted * [0, 1, 1]
    # For density rows alone the target's labels are not needed.
    if labelled_target is not None and few.any():
        sites.append(labelled_target)
        of_sites.append(few / few.sum())
    if sources[0].groups is not None:
        parts = _parts_by_group(sites, np.array(of_sites), stratify, random_state)
    else:
        pairs = zip(sites, of_sites, strict=True)
        parts = [_parts(site, part, stratify, random_state) for site, part in pairs]
        if stratify and wanted[_TRAIN] > 0:
            _train_every_class(sites, parts)
    of_parts = (
        tuple(
            site.take(np.flatnonzero(part == which))
            for site, part in zip(sites, parts, strict=True)
            if np.any(part == which)
        )
        for which in (_DENSITY, _TRAIN, _VALIDATION)
    )
    return Split(*of_parts)


def _parts(site: Site, shares: Floats, stratify: bool, random_state: int) -> Codes:
    """Assign n rows to the parts: exact sizes overall, each class spread in proportion.

    Rows are put in random order, then sorted by class. The sequence of parts is laid out so
    that part p, of size m, stands at the ranks nearest to (i + 1/2) n / m for i = 0..m-1.
    Returns the part of every row, shape (n,).
    """
    n = len(site)
    sizes = _sizes(n, shares, site.name)
    order = _stream(site, random_state).permutation(n)
    if stratify:
        _, codes = np.unique(site.labels, return_inverse=True)
        order = order[np.argsort(codes[order], kind="stable")]
    ranks = np.concatenate([(np.arange(m) + 0.5) / max(m, 1) for m in sizes])
    part = np.empty(n, dtype=np.intp)
    part[order] = np.repeat(np.arange(3), sizes)[np.argsort(ranks, kind="stable")]
    return part


def _stream(site: Site, random_state: int) -> np.random.Generator:
    """Return the random numbers of a site, by its name alone.

    So neither the order of the sites nor the presence of another one changes how a site is split.
    """
    return np.random.default_rng([random_state, *site.name.encode()])


def _sizes(n: int, shares: Floats, site: str) -> Codes:
    """Round shares of n to whole numbers that add up to n, at least 1 for every part wanted."""
    wanted = shares > 0
    if n < wanted.sum():
        names = ("density", "train", "validation")
        needed = " / ".join(name for name, yes in zip(names, wanted, strict=True) if yes)
        raise DataError(
            f"site {site!r} has {n} row(s), too few to be split into {needed}; "
            f"leave the site out, join it with a similar one, or give it at least "
            f"{wanted.sum()} rows"
        )
    spare = n - wanted.sum()
    ideal = np.maximum(shares * n - wanted, 0)
    ideal *= spare / ideal.sum() if ideal.sum() > 0 else 0
    floor = np.floor(ideal + 1e-9).astype(np.intp)
    left = spare - floor.sum()
    floor[np.argsort(-(ideal - floor), kind="stable")[:left]] += 1
    return np.asarray(floor + wanted, dtype=np.intp)


def _train_every_class(sites: Sequence[Site], parts: Sequence[Codes]) -> None:
    """Swap rows so that every validated class has a training row at some site."""
    labels = [site.labels for site in sites]
    trained = {c for y, part in zip(labels, parts, strict=True) for c in y[part == _TRAIN]}
    for y, part in zip(labels, parts, strict=True):
        for unseen in [c for c in np.unique(y) if c not in trained]:
            training = np.flatnonzero(part == _TRAIN)
            values, counts = np.unique(y[training], return_counts=True)
            if counts.max(initial=0) <= 1:  # a swap would remove another class
                continue
            common = training[y[training] == values[np.argmax(counts)]]
            row = np.flatnonzero(y == unseen)[0]
            part[common[0]], part[row] = part[row], _TRAIN
            trained.add(unseen)


def _parts_by_group(
    sites: Sequence[Site], shares: Floats, stratify: bool, random_state: int
) -> list[Codes]:
    r"""Assign every group to one part, at all sites where it occurs.

    The largest groups come first, those of equal size in random order. Each goes to the part p
    that keeps

    .. math:: \sum_{c,p} \frac{(n_{cp} - s_p n_c)^2}{s_p n_c}

    lowest, where c are sites (with `stratify`: the classes of every site), :math:`n_c` their rows,
    :math:`n_{cp}` those in part p so far, and :math:`s_p` the wanted share. A site that has no
    group in common with others is split as if it were alone. Shares have shape (k, 3); the part of
    every row is returned, k arrays of shape (n_j,).
    """
    ends = np.cumsum([len(site) for site in sites])
    site = np.repeat(np.arange(len(sites)), np.diff(ends, prepend=0))
    labels = np.concatenate([site.labels for site in sites])
    codes = [site.groups for site in sites if site.groups is not None]  # all sites have groups
    group = np.unique(np.concatenate(codes), return_inverse=True)[1]
    label = np.unique(labels, return_inverse=True)[1] if stratify else np.zeros_like(site)
    key = site * (label.max() + 1) + label
    _, first, cell = np.unique(key, return_index=True, return_inverse=True)
    rows = sparse.csr_array((np.ones(len(group)), (group, cell)))  # of every group in every cell
    wanted = np.maximum(shares[site[first]] * np.bincount(cell)[:, None], _NOTHING)
    have = np.zeros_like(wanted)
    part_of_group = np.empty(rows.shape[0], dtype=np.intp)
    for g in _order(sites, np.split(group, ends[:-1]), shares, random_state):
        entries = slice(rows.indptr[g], rows.indptr[g + 1])
        c, n = rows.indices[entries], rows.data[entries, None]
        costs = n * (2 * (have[c] - wanted[c]) + n) / wanted[c]
        part_of_group[g] = p = costs.sum(axis=0).argmin()
        have[c, p] += n[:, 0]
    part = part_of_group[group]
    filled = np.bincount(3 * site + part, minlength=shares.size).reshape(shares.shape) > 0
    for s, p in np.argwhere((shares > 0) & ~filled):
        inside = site == s
        if np.any(part[inside] == p) or _moved(group, inside, site, part, p, shares):
            continue
        raise DataError(
            f"site {sites[s].name!r} cannot be split: its subjects also occur at other sites, and "
            "need the same part at all of them; if ids are numbered anew at every site, make them "
            "different: B-1 instead of 1"
        )
    if stratify and shares[0, _TRAIN] > 0:
        for unseen in np.setdiff1d(labels, labels[part == _TRAIN]):
            _moved(group, labels == unseen, site, part, _TRAIN, shares)
    return np.split(part, ends[:-1])


def _order(
    sites: Sequence[Site], groups: Sequence[Codes], shares: Floats, random_state: int
) -> Codes:
    """Sort the groups by size, those of equal size at random; refuse sites that have too few.

    The random numbers of a group are those of its first site by name, whose stream depends on that
    name alone.
    """
    size = np.bincount(np.concatenate(groups))
    luck, few = np.empty(len(size)), {}
    for j in sorted(range(len(sites)), key=lambda j: sites[j].name, reverse=True):
        of_site, parts = np.unique(groups[j]), int(np.sum(shares[j] > 0))
        luck[of_site] = _stream(sites[j], random_state).random(len(of_site))
        if len(of_site) < parts:
            few[sites[j].name] = parts
    if few:
        raise DataError(
            f"{sites_have(sorted(few))} fewer than {max(few.values())} subjects, too few to be "
            "split; leave such sites out, join them with others, or add subjects"
        )
    return np.lexsort([luck, -size])


def _moved(
    group: Codes, some: NDArray[np.bool_], site: Codes, part: Codes, to: int, shares: Floats
) -> bool:
    """Move a group that has some of the rows to another part, the first that can be spared.

    Groups with few such rows come first. One can be spared where, at all its sites, its part has
    another group and the new part is wanted. All arrays but the shares have shape (n,).
    """
    cell = 3 * site + part
    rows = np.bincount(cell)
    ids, n = np.unique(group[some], return_counts=True)
    for g in ids[np.argsort(n, kind="stable")]:
        inside = group == g
        leaving = np.bincount(cell[inside], minlength=len(rows))
        if np.all((leaving == 0) | (leaving < rows)) and np.all(shares[site[inside], to] > 0):
            part[inside] = to
            return True
    return False
