"""From what the user gave to checked sites: every error about the data is raised here."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import pandas as pd

from shiftune.errors import DataWarning, ProblemError
from shiftune.problem.columns import (
    align,
    as_features,
    constant_columns,
    id_like_columns,
    refuse_sparse,
)
from shiftune.problem.labels import Task, as_labels, is_missing, task_of
from shiftune.problem.site import Features, Site
from shiftune.spelling import alike
from shiftune.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TargetLabels = Literal["hide", "use", "oracle"]

# A site with fewer rows than this keeps about one row for validation.
SMALL_SITE = 10

FEW = "labelled rows of the target"

Given = tuple[str, Any, Any, "NDArray[np.intp] | None"]
"""Name, rows, labels and row numbers of one source, as the user gave them."""


class Parts(TypedDict):
    """What a `ShiftProblem` is made of."""

    sources: tuple[Site, ...]
    target: Site
    labelled_target: Site | None
    oracle: Site | None
    task: Task
    notes: tuple[str, ...]


def read(
    given: Sequence[Given],
    X_target: Any,
    *,
    target_name: str,
    target_rows: NDArray[np.intp] | None = None,
    y_target: Any = None,
    target_labels: TargetLabels = "hide",
    labelled_target: tuple[Any, Any] | None = None,
    drop_missing: bool = False,
    task: Task | None = None,
    label: str = "y",
) -> Parts:
    """Check everything and make the columns of all sites alike."""
    if target_labels not in ("hide", "use", "oracle"):
        raise ProblemError(f"target_labels is 'hide', 'use' or 'oracle', got {target_labels!r}")
    if task not in (None, "classification", "regression"):
        raise ProblemError(f"task is 'classification' or 'regression', got {task!r}")
    refuse_sparse(X_target, f"the target {target_name!r}")
    if not hasattr(X_target, "__len__"):
        raise ProblemError(f"the target {target_name!r} needs a table of rows, got {X_target!r}")
    if len(X_target) == 0:
        raise ProblemError(f"the target {target_name!r} has no rows; it needs unlabelled rows")
    notes, loud = [], []
    if y_target is not None and target_labels == "hide":
        known = int((~is_missing(y_target)).sum())
        loud.append(
            f"{known} label(s) of the target {target_name!r} are hidden; to use them pass "
            "target_labels='use', to keep them as the truth of an experiment 'oracle'"
        )
    if y_target is not None and target_labels == "use":
        has = ~is_missing(y_target)
        labelled_target = (rows_of(X_target, has), rows_of(y_target, has))

    tables: dict[str, Features] = {target_name: as_features(X_target, target_name)}
    labels: dict[str, NDArray[Any]] = {}
    rows: dict[str, NDArray[np.intp]] = {}
    for name, X, y, numbers in given:
        refuse_sparse(X, f"site {name!r}")
        if len(X) == 0:
            raise ProblemError(f"site {name!r} has no rows; leave it out or give it rows")
        if name in tables:
            raise ProblemError(
                f"the site name {name!r} occurs twice"
                + (" (it is the target's name)" if name == target_name else "")
            )
        values, keep = y, np.ones(len(X), dtype=bool)
        if drop_missing and is_missing(y).any():
            keep = ~is_missing(y)
            values, X = rows_of(y, keep), rows_of(X, keep)
            loud.append(f"{int((~keep).sum())} row(s) of site {name!r} without label are dropped")
            if not keep.any():
                raise ProblemError(f"site {name!r} has no labelled row; leave it out")
        tables[name] = as_features(X, name)
        labels[name] = as_labels(values, name, label)
        if len(labels[name]) != len(tables[name]):
            raise ProblemError(
                f"site {name!r} has {len(tables[name])} rows but {len(labels[name])} labels"
            )
        rows[name] = np.flatnonzero(keep) if numbers is None else numbers[keep]
    if labelled_target is not None:
        tables[FEW] = as_features(labelled_target[0], FEW)
        labels[FEW] = as_labels(labelled_target[1], FEW, label)
    tables = align(tables)
    if not labels.keys() - {FEW}:
        raise ProblemError(
            "there are no sources; at least one labelled site besides the target "
            f"{target_name!r} is needed"
        )
    kinds = {name: y.dtype.kind == "O" for name, y in labels.items()}
    if len(set(kinds.values())) > 1:
        text, number = (next(n for n, k in kinds.items() if k is yes) for yes in (True, False))
        raise ProblemError(
            f"the labels are text in site {text!r} but numbers in site {number!r}; use one kind"
        )
    decided = task or task_of(labels.values())
    values = np.unique(np.concatenate(list(labels.values())))
    whole_numbers = values.dtype.kind in "iuf" and len(values) > 2
    if task is None and decided == "classification" and whole_numbers:
        notes.append(
            f"the label {label!r} is read as {len(values)} classes (whole numbers); if it is a "
            "quantity pass task='regression'"
        )
    if decided == "regression" and any(kinds.values()):
        raise ProblemError(f"the label {label!r} is text, which cannot be a regression label")

    sources = tuple(
        Site(name, tables[name], labels[name], rows[name]) for name in labels if name != FEW
    )
    if decided == "classification":
        _check_classes(sources, labels.get(FEW))
    notes += _notes(sources, [X for name, X in tables.items() if name != FEW])
    if len(sources) == 1:
        loud.append(
            f"there is only one source, {sources[0].name!r}: nothing can be said about how "
            "much the sites differ"
        )
    for text in loud:
        warnings.warn(text, DataWarning, stacklevel=3)
    oracle = None
    if y_target is not None and target_labels == "oracle":
        truth = as_labels(y_target, target_name, label)
        oracle = Site(target_name, tables[target_name], truth, target_rows)
    return Parts(
        sources=sources,
        target=Site(target_name, tables[target_name], rows=target_rows),
        labelled_target=Site(target_name, tables[FEW], labels[FEW]) if FEW in tables else None,
        oracle=oracle,
        task=decided,
        notes=(*loud, *notes),
    )


def _check_classes(sources: tuple[Site, ...], few: NDArray[Any] | None) -> None:
    seen = np.unique(np.concatenate([site.labels for site in sources]))
    if len(seen) == 1:
        raise ProblemError(
            f"all labels of all sources are {str(seen[0])!r}; there is nothing to learn from one "
            "class"
        )
    if few is not None and (unseen := sorted(set(few.tolist()) - set(seen.tolist()))):
        near = ", ".join(
            f"{right!r} for {str(name)!r}?"
            for name in unseen
            for right in alike(str(name), map(str, seen))
        )
        raise ProblemError(
            f"the labelled target rows have the class(es) {unseen}, which no source has; a model "
            "trained on the sources can never predict them: correct the spelling"
            + (f" ({near})" if near else "")
            + ", leave those labels empty, or bring in a source with such rows"
        )


def _notes(sources: tuple[Site, ...], tables: list[Features]) -> list[str]:
    notes = []
    constant = constant_columns(tables)
    if constant:
        notes.append(f"constant column(s) that tell nothing: {listed(constant)}")
    notes += [
        f"column {name!r} has another value in almost every row, like an identifier: it makes "
        "sites look different and helps no model; leave it out of the features"
        for name in id_like_columns(tables)
    ]
    small = [site.name for site in sources if len(site) < SMALL_SITE]
    if small:
        one = len(small) == 1
        notes.append(
            f"site{'' if one else 's'} {listed(small)} ha{'s' if one else 've'} fewer than "
            f"{SMALL_SITE} rows: {'its' if one else 'their'} own estimates will be rough"
        )
    return notes


def by_group(
    X: Any, y: Any, groups: NDArray[Any], numbers: NDArray[np.intp] | None = None
) -> list[Given]:
    """Take stacked rows apart by site, in the order in which the sites first occur.

    `numbers` are the row numbers in the user's table, where these are only some of its rows.
    """
    refuse_sparse(X, "X")
    numbers = np.arange(len(groups)) if numbers is None else numbers
    found: list[Given] = []
    for name in pd.unique(groups):
        rows = np.flatnonzero(groups == name)
        found.append((str(name), rows_of(X, rows), rows_of(y, rows), numbers[rows]))
    return found


def rows_of(values: Any, which: NDArray[Any]) -> Any:
    """Return the rows of a frame, series or array at these positions or where a mask is true."""
    return values.iloc[which] if hasattr(values, "iloc") else np.asarray(values)[which]


def site_names(where: pd.Series) -> NDArray[Any]:
    """Name sites by text; two different values that read the same are an error."""
    values = where.unique()
    texts = [str(value) for value in values]
    doubled = sorted({text for text in texts if texts.count(text) > 1})
    if doubled:
        raise ProblemError(
            f"the sites {doubled} occur both as text and as number; write them in one way"
        )
    return np.asarray(where.map(dict(zip(values, texts, strict=True))), dtype=object)
