"""The three-way split of every source: density ratio | training | validation.

Rows are assigned site by site; where rows belong to groups, whole groups are, at all their sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import DataError, SettingsError
from shiftune.problem._site import Site, sites_have

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# 30 % validation; of the rest 30 % for the density ratio and 70 % for training.
PAPER_SHARES = (0.21, 0.49, 0.30)
_DENSITY, _TRAIN, _VALIDATION = range(3)
# More than any deviation from the wanted sizes: of a part that would stay empty, and of one that is
# not wanted.
_EMPTY, _UNWANTED = 1e100, 1e200


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
    every_class = stratify and wanted[_TRAIN] > 0
    if sources[0].groups is not None:
        parts = _parts_by_group(sites, of_sites, stratify, random_state)
        if every_class:
            _train_every_class_by_group(sites, parts)
    else:
        pairs = zip(sites, of_sites, strict=True)
        parts = [_parts(site, own, stratify, random_state) for site, own in pairs]
        if every_class:
            _train_every_class(sites, parts)

    def rows_in(which: int) -> tuple[Site, ...]:
        return tuple(
            site.take(np.flatnonzero(part == which))
            for site, part in zip(sites, parts, strict=True)
            if wanted[which] > 0 and np.any(part == which)
        )

    return Split(rows_in(_DENSITY)[: len(sources)], rows_in(_TRAIN), rows_in(_VALIDATION))


def _parts(site: Site, shares: Floats, stratify: bool, random_state: int) -> Codes:
    """Assign n rows to the parts: exact sizes overall, each class spread in proportion.

    Rows are put in random order, then sorted by class. The sequence of parts is laid out so
    that part p, of size m, stands at the ranks nearest to (i + 1/2) n / m for i = 0..m-1.
    Returns the part of every row, shape (n,).
    """
    n = len(site)
    # The stream depends on the site's name, so neither the order of the sites nor the presence of
    # another one changes how a site is split.
    rng = np.random.default_rng([random_state, *site.name.encode()])
    sizes = _sizes(n, shares, site.name)
    order = rng.permutation(n)
    if stratify:
        _, codes = np.unique(site.labels, return_inverse=True)
        order = order[np.argsort(codes[order], kind="stable")]
    ranks = np.concatenate([(np.arange(m) + 0.5) / max(m, 1) for m in sizes])
    part = np.empty(n, dtype=np.intp)
    part[order] = np.repeat(np.arange(3), sizes)[np.argsort(ranks, kind="stable")]
    return part


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
    sites: Sequence[Site], shares: Sequence[Floats], stratify: bool, random_state: int
) -> list[Codes]:
    r"""Assign every group to one part, at all sites where it occurs.

    The largest groups come first, those of equal size in random order. Each goes to the part p
    that keeps

    .. math:: \sum_{c,p} \frac{(n_{cp} - s_p n_c)^2}{s_p n_c}

    lowest, where c are sites (with `stratify`: the classes of every site), :math:`n_c` their rows,
    :math:`n_{cp}` those in part p so far, and :math:`s_p` the wanted share. A site that has no
    group in common with others is split as if it were alone. Shares are k arrays of shape (3,);
    the part of every row is returned, k arrays of shape (n_j,).
    """
    n = [len(site) for site in sites]
    site = np.repeat(np.arange(len(sites)), n)
    _, group = np.unique(np.concatenate([_codes(each) for each in sites]), return_inverse=True)
    cell = site
    if stratify:
        classes, label = np.unique(np.concatenate([s.labels for s in sites]), return_inverse=True)
        cell = np.unique(site * len(classes) + label, return_inverse=True)[1]
    of_site = np.array(shares)
    wanted = of_site[site[np.unique(cell, return_index=True)[1]]] * np.bincount(cell)[:, None]
    sizes = _Sizes(wanted.tolist())
    at_cells, at_sites = _by_group(group, cell), _by_group(group, site)
    left = np.bincount([s for own in at_sites for s, _ in own]).tolist()
    empty = [set(np.flatnonzero(own > 0).tolist()) for own in of_site]
    part = np.empty(len(at_cells), dtype=np.intp)
    for g in _order(sites, site, group, random_state):
        cost = sizes.costs(at_cells[g])
        for s, _ in at_sites[g]:
            if left[s] <= len(empty[s]):
                cost = [each + _EMPTY * (p not in empty[s]) for p, each in enumerate(cost)]
            left[s] -= 1
        part[g] = chosen = cost.index(min(cost))
        sizes.add(at_cells[g], chosen)
        for s, _ in at_sites[g]:
            empty[s].discard(chosen)
    if any(empty):
        raise DataError(_about_few(sites, [int(own.sum()) for own in of_site > 0], empty))
    return np.split(part[group], np.cumsum(n)[:-1])


class _Sizes:
    """Rows of every cell in the three parts so far. Lists: there may be 100 000 small groups."""

    def __init__(self, wanted: list[list[float]]) -> None:
        self.wanted = wanted
        self.have = [[0] * 3 for _ in wanted]

    def costs(self, group: list[tuple[int, int]]) -> list[float]:
        """Return what each part would add to the deviation from the wanted sizes."""
        costs = [0.0, 0.0, 0.0]
        for c, rows in group:
            have, wanted = self.have[c], self.wanted[c]
            for p in range(3):
                w = wanted[p]
                costs[p] += rows * (2 * (have[p] - w) + rows) / w if w > 0 else _UNWANTED
        return costs

    def add(self, group: list[tuple[int, int]], part: int) -> None:
        """Put a group into a part."""
        for c, rows in group:
            self.have[c][part] += rows


def _codes(site: Site) -> Codes:
    assert site.groups is not None  # all sites of a problem have groups, or none has
    return site.groups


def _by_group(group: Codes, cell: Codes) -> list[list[tuple[int, int]]]:
    """Return the cells of every group, with its rows in each."""
    keys, rows = np.unique(group * (cell.max() + 1) + cell, return_counts=True)
    of, cells = np.divmod(keys, cell.max() + 1)
    found: list[list[tuple[int, int]]] = [[] for _ in range(group.max() + 1)]
    for g, c, m in zip(of.tolist(), cells.tolist(), rows.tolist(), strict=True):
        found[g].append((c, m))
    return found


def _order(sites: Sequence[Site], site: Codes, group: Codes, random_state: int) -> Codes:
    """Sort the groups by size, those of equal size at random.

    The random numbers of a group are those of its first site by name, whose stream depends on that
    name alone.
    """
    luck = np.full(group.max() + 1, np.nan)
    for j in sorted(range(len(sites)), key=lambda j: sites[j].name):
        own = np.unique(group[site == j])
        drawn = np.random.default_rng([random_state, *sites[j].name.encode()]).random(len(own))
        luck[own] = np.where(np.isnan(luck[own]), drawn, luck[own])
    return np.lexsort([luck, -np.bincount(group)])


def _about_few(sites: Sequence[Site], parts: Sequence[int], empty: Sequence[set[int]]) -> str:
    """Explain why some parts of some sites are empty."""
    pairs = zip(sites, parts, strict=True)
    few = {site.name: n for site, n in pairs if len(np.unique(_codes(site))) < n}
    if few:
        one = len(few) == 1
        return (
            f"{sites_have(few)} fewer than {max(few.values())} groups, too few to be split without "
            f"dividing a group; leave {'it' if one else 'them'} out, join "
            f"{'it' if one else 'each'} with a similar site, or add groups"
        )
    bound = [site.name for site, parts in zip(sites, empty, strict=True) if parts]
    return (
        f"site {bound[0]!r} cannot be split: its groups also occur at other sites, and need the "
        "same part at all of them; if ids are numbered anew at every site, make them different: "
        "B-1 instead of 1"
    )


def _train_every_class_by_group(sites: Sequence[Site], parts: Sequence[Codes]) -> None:
    """Move groups to training, if they can be spared, so that it has every class.

    A group can be spared where every part of its sites has another one.
    """
    trained = {
        c for site, own in zip(sites, parts, strict=True) for c in site.labels[own == _TRAIN]
    }
    for site in sites:
        for unseen in sorted(set(site.labels.tolist()) - trained):
            ids, rows = np.unique(_codes(site)[site.labels == unseen], return_counts=True)
            for g in ids[np.argsort(rows, kind="stable")]:
                inside = [_codes(each) == g for each in sites]
                pairs = [(own, its) for own, its in zip(parts, inside, strict=True) if its.any()]
                if all((own == _TRAIN).any() for own, _ in pairs) and all(
                    (own[~its] == own[its][0]).any() for own, its in pairs
                ):
                    for own, its in pairs:
                        own[its] = _TRAIN
                    trained.add(unseen)
                    break
