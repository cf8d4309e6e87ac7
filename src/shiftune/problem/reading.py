"""Validation of a `ShiftProblem`: sites as the user gave them become checked sites.

All constructors (frames, arrays, lists of sites, skada's form, files) call `read_sites`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import DataError, SettingsError
from shiftune.names import Task
from shiftune.problem.columns import (
    align,
    as_features,
    as_pandas,
    constant_columns,
    dense,
    id_like_columns,
)
from shiftune.problem.groups import about_groups, group_codes
from shiftune.problem.labels import as_labels, distinct_labels, is_missing, task_of
from shiftune.problem.site import Features, Site, rows_of
from shiftune.problem.weights import site_weights
from shiftune.spelling import alike
from shiftune.wording import listed

TargetLabels = Literal["hide", "use", "oracle"]

# A site with fewer rows than this keeps about one row for validation.
SMALL_SITE = 10

FEW = "labelled rows of the target"


class GivenSite(NamedTuple):
    """Rows of a site before any check.

    `rows` are their numbers in the user's table, `group` the ids of rows that belong together.
    """

    name: str
    X: Any
    y: Any = None
    rows: NDArray[np.intp] | None = None
    group: Any = None
    sample_weight: Any = None

    def in_pandas(self) -> GivenSite:
        """Return the same rows, without tables of other libraries and sparse matrices."""
        X, y, group, w = map(as_pandas, (self.X, self.y, self.group, self.sample_weight))
        X = dense(X, f"site {self.name!r}")
        return self._replace(X=X, y=y, group=group, sample_weight=w)


class Parts(TypedDict):
    """Fields of a `ShiftProblem`."""

    sources: tuple[Site, ...]
    target: Site
    labelled_target: Site | None
    oracle: Site | None
    task: Task
    notes: tuple[str, ...]
    label: str


def read_sites(
    sources: Sequence[GivenSite],
    target: GivenSite,
    *,
    labelled_target: tuple[Any, Any] | None = None,
    target_labels: TargetLabels = "hide",
    task: Task | None = None,
    label: str = "",
) -> tuple[Parts, list[str]]:
    """Check all sites, give them the same columns, and decide the task.

    Returns the parts of the problem, and the notes that deserve a warning.
    """
    if target_labels not in ("hide", "use", "oracle"):
        raise SettingsError(
            f"target_labels must be 'hide', 'use' or 'oracle', got {target_labels!r}"
        )
    if task not in (None, "classification", "regression"):
        raise SettingsError(f"task must be 'classification' or 'regression', got {task!r}")
    check_names([site.name for site in sources], target.name)
    sources, target = [site.in_pandas() for site in sources], target.in_pandas()
    few = None if labelled_target is None else GivenSite(FEW, *labelled_target).in_pandas()
    truth, loud = None, []
    if target.y is not None and target_labels == "hide":
        loud.append(_about_hidden(target))
    elif target.y is not None and target_labels == "use":
        few = _labelled_rows(target)
    elif target.y is not None:
        truth = as_labels(target.y, target.name, label or "y")

    labelled = [*sources, *([] if few is None else [few])]
    given = (target, *labelled)
    tables = align({site.name: as_features(site.X, site.name) for site in given})
    labels = {site.name: as_labels(site.y, site.name, label or "y") for site in labelled}
    decided, notes = _decide_task(labels, task, label or "y")
    if decided == "regression":  # booleans cannot be subtracted
        labels = {site: y.astype(float) if y.dtype == bool else y for site, y in labels.items()}
    groups, more = group_codes(
        {site.name: (site.group, len(site.X)) for site in given}, [site.name for site in labelled]
    )
    weights, about_weights = site_weights(
        {site.name: (site.sample_weight, len(site.X), site.rows) for site in given},
        [site.name for site in sources],
    )

    def checked(site: GivenSite, name: str) -> Site:
        key = site.name
        own = (labels.get(key), site.rows, groups.get(key), weights.get(key))
        return Site(name, tables[key], *own)

    own = checked(target, target.name)
    found = tuple(checked(site, site.name) for site in sources)
    if decided == "classification":
        _check_classes(found, labels.get(FEW))
    notes += _about_columns([X for name, X in tables.items() if name != FEW])
    notes += [*_about_small(found), *more, *about_groups(found, own), *about_weights]
    if len(found) == 1:
        loud.append(
            f"there is only one source, {found[0].name!r}, so differences between sites cannot be "
            "estimated"
        )
    parts = Parts(
        sources=found,
        target=own,
        labelled_target=few and checked(few, target.name),
        oracle=None
        if truth is None
        else Site(own.name, own.X, truth, own.rows, own.groups, own.sample_weight),
        task=decided,
        notes=(*loud, *notes),
        label=label,
    )
    return parts, loud


def check_ends(names: Iterable[str]) -> None:
    """Refuse names that NumPy cuts: an array of text has no null characters at the ends."""
    if cut := [name for name in names if name.endswith("\0")]:
        raise DataError(f"the site name {cut[0]!r} ends with a null character; rename the site")


def check_names(sources: Sequence[str], target: str) -> None:
    """Refuse sites with the same name, names that NumPy cuts, and a problem without sources."""
    if not sources:
        raise DataError(
            f"there are no sources; at least one labelled site besides the target {target!r} is "
            "needed"
        )
    check_ends((target, *sources))
    if doubled := sorted(name for name, n in Counter(sources).items() if n > 1):
        raise DataError(f"the site name(s) {listed(doubled)} occur twice; rename one of each pair")
    if target in sources:
        raise DataError(
            f"{target!r} is the target and cannot also be a source; rename the source, or give the "
            "target's labelled rows as labelled_target"
        )


def _about_hidden(target: GivenSite) -> str:
    known = int((~is_missing(target.y)).sum())
    return (
        f"{known} label(s) of the target {target.name!r} are hidden; to use them pass "
        "target_labels='use', to keep them as the truth of an experiment 'oracle'"
    )


def _labelled_rows(target: GivenSite) -> GivenSite:
    known = ~is_missing(target.y)
    rows = np.flatnonzero(known) if target.rows is None else target.rows[known]
    each = (target.group, target.sample_weight)
    more = [None if own is None else rows_of(own, known) for own in each]
    return GivenSite(FEW, rows_of(target.X, known), rows_of(target.y, known), rows, *more)


def _decide_task(
    labels: dict[str, NDArray[Any]], task: Task | None, label: str
) -> tuple[Task, list[str]]:
    """Decide between classes and quantities by the labels of all sites, unless the user did."""
    is_text = {site: y.dtype.kind == "O" for site, y in labels.items()}
    if len(set(is_text.values())) > 1:
        text, number = (next(n for n, yes in is_text.items() if yes is t) for t in (True, False))
        raise DataError(
            f"the label {label!r} is text in site {text!r} but a number in site {number!r}; "
            "write it in one way in all sites"
        )
    decided = task or task_of(labels.values())
    if decided == "regression" and any(is_text.values()):
        raise DataError(
            f"the label {label!r} is text, which cannot be a regression label; convert it to "
            "numbers, or use task='classification'"
        )
    values = distinct_labels(labels.values())
    whole_numbers = values.dtype.kind in "iuf" and len(values) > 2
    if task is not None or decided == "regression" or not whole_numbers:
        return decided, []
    return decided, [
        f"the label {label!r} is read as {len(values)} classes (whole numbers); if it is a "
        "quantity pass task='regression'"
    ]


def _check_classes(sources: tuple[Site, ...], few: NDArray[Any] | None) -> None:
    seen = distinct_labels(site.labels for site in sources)
    if len(seen) == 1:
        raise DataError(
            f"all labels of all sources are {str(seen[0])!r}; a classifier needs at least two "
            "classes"
        )
    if few is not None and (unseen := sorted(set(few.tolist()) - set(seen.tolist()))):
        near = ", ".join(
            f"{right!r} for {str(name)!r}?"
            for name in unseen
            for right in alike(str(name), map(str, seen))
        )
        raise DataError(
            f"the labelled target rows have the class(es) {unseen}, which no source has; a model "
            "trained on the sources can never predict them: correct the spelling"
            + (f" ({near})" if near else "")
            + ", leave those labels empty, or add a source with such rows"
        )


def _about_columns(tables: list[Features]) -> list[str]:
    constant = constant_columns(tables)
    return [
        *([f"constant column(s), of no use to a model: {listed(constant)}"] if constant else []),
        *(
            f"column {name!r} has a different value in almost every row, like an identifier: it "
            "makes sites look different and helps no model; leave it out of the features"
            for name in id_like_columns(tables)
        ),
    ]


def _about_small(sources: tuple[Site, ...]) -> list[str]:
    small = [site.name for site in sources if len(site) < SMALL_SITE]
    if not small:
        return []
    one = len(small) == 1
    return [
        f"site{'' if one else 's'} {listed(small)} ha{'s' if one else 've'} fewer than "
        f"{SMALL_SITE} rows: {'its' if one else 'their'} own estimates will be rough"
    ]
