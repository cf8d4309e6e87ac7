"""The three-way split of every source: density ratio | training | validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import DataError, SettingsError
from shiftune.problem.site import Site
from shiftune.problem.split_groups import parts_by_group, train_every_class

# 30 % validation; of the rest 30 % for the density ratio and 70 % for training.
PAPER_SHARES = (0.21, 0.49, 0.30)
DENSITY, TRAIN, VALIDATION = range(3)
_PART_NAMES = ("density", "train", "validation")


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
    *,
    target_trains: bool = True,
) -> Split:
    """Split every site by itself, or by groups of rows; see `ShiftProblem.split`."""
    wanted = _checked_shares(shares)
    few = wanted * [0, target_trains or wanted[VALIDATION] == 0, 1]
    # For density rows alone the target's labels are not needed.
    every = [*sources] if labelled_target is None or not few.any() else [*sources, labelled_target]
    k = len(sources)
    own_shares = [own / own.sum() for own in [wanted] * k + [few] * (len(every) - k)]
    grouped = sources[0].groups is not None
    if grouped:
        parts = parts_by_group(every, own_shares, stratify, random_state)
    else:
        parts = [
            _parts_of_site(site, own, stratify, random_state)
            for site, own in zip(every, own_shares, strict=True)
        ]
    if stratify and wanted[TRAIN] > 0:
        if grouped:
            train_every_class(every, parts, TRAIN)
        else:
            _train_every_class([site.labels for site in every], parts)
    taken = [
        tuple(
            site.take(np.flatnonzero(part == which))
            for site, part in zip(every, parts, strict=True)
            if wanted[which] > 0 and np.any(part == which)
        )
        for which in range(3)
    ]
    return Split(density=taken[DENSITY][:k], train=taken[TRAIN], validation=taken[VALIDATION])


def _checked_shares(shares: tuple[float, float, float]) -> NDArray[np.float64]:
    values = np.asarray(shares, dtype=float)
    if values.shape != (3,) or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise SettingsError(f"shares must be three numbers >= 0, got {shares!r}")
    if values.sum() <= 0 or not np.isclose(values.sum(), 1.0):
        raise SettingsError(f"the shares must add up to 1, got {shares!r} = {values.sum():g}")
    return values


def _parts_of_site(
    site: Site, shares: NDArray[np.float64], stratify: bool, random_state: int
) -> NDArray[np.intp]:
    # The stream depends on the site's name, so neither the order of the sites nor the presence of
    # another one changes how a site is split.
    rng = np.random.default_rng([random_state, *site.name.encode()])
    return _parts(len(site), shares, site.labels if stratify else None, site.name, rng)


def _parts(
    n: int,
    shares: NDArray[np.float64],
    classes: NDArray[Any] | None,
    site: str,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Assign n rows to the parts: exact sizes overall, each class spread in proportion.

    Rows are put in random order, then sorted by class. The sequence of parts is laid out so
    that part p, of size m, stands at the ranks nearest to (i + 1/2) n / m for i = 0..m-1.
    Returns the part of every row, shape (n,).
    """
    sizes = _sizes(n, shares, site)
    order = rng.permutation(n)
    if classes is not None:
        _, codes = np.unique(classes, return_inverse=True)
        order = order[np.argsort(codes[order], kind="stable")]
    ranks = np.concatenate([(np.arange(m) + 0.5) / max(m, 1) for m in sizes])
    sequence = np.repeat(np.arange(3), sizes)[np.argsort(ranks, kind="stable")]
    part = np.empty(n, dtype=np.intp)
    part[order] = sequence
    return part


def _sizes(n: int, shares: NDArray[np.float64], site: str) -> NDArray[np.intp]:
    """Round shares of n to whole numbers that add up to n, at least 1 for every part wanted."""
    wanted = shares > 0
    if n < wanted.sum():
        needed = " / ".join(name for name, yes in zip(_PART_NAMES, wanted, strict=True) if yes)
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


def _train_every_class(labels: list[NDArray[Any]], parts: list[NDArray[np.intp]]) -> None:
    """Swap rows so that every validated class has a training row at some site."""
    trained = {c for y, part in zip(labels, parts, strict=True) for c in y[part == TRAIN]}
    for y, part in zip(labels, parts, strict=True):
        for unseen in [c for c in np.unique(y) if c not in trained]:
            training = np.flatnonzero(part == TRAIN)
            values, counts = np.unique(y[training], return_counts=True)
            if counts.max(initial=0) <= 1:  # a swap would remove another class
                continue
            common = training[y[training] == values[np.argmax(counts)]]
            row = np.flatnonzero(y == unseen)[0]
            part[common[0]], part[row] = part[row], TRAIN
            trained.add(unseen)
