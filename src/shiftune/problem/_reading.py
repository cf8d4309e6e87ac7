"""Validation of a `ShiftProblem`: sites as the user gave them become checked sites.

All constructors (frames, arrays, lists of sites, skada's form, files) call `read_sites`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple, NoReturn, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shiftune._names import Task
from shiftune._wording import alike, check_choice, listed
from shiftune.errors import DataError, SettingsError
from shiftune.problem._columns import (
    align,
    as_features,
    as_pandas,
    check_columns,
    constant_columns,
    dense,
    id_like_columns,
)
from shiftune.problem._site import (
    Features,
    Site,
    about_groups,
    as_labels,
    distinct_labels,
    frozen,
    group_codes,
    is_missing,
    rows_of,
    site_weights,
    task_of,
)

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


def split_by_site(
    X: Any,
    y: ArrayLike,
    groups: ArrayLike,
    *,
    rows: NDArray[np.intp] | None = None,
    group: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> list[GivenSite]:
    """Return the rows of every site, in the order in which the sites first occur.

    Parameters
    ----------
    X : array or DataFrame of shape (n, d)
    y, groups : arrays of shape (n,)
        Label and site of every row.
    rows : array of shape (n,), optional
        Row numbers in the user's table, where these are only some of its rows.
    group, sample_weight : arrays of shape (n,), optional
        Ids of rows that belong together; weights of the rows.

    Examples
    --------
    >>> [site.rows.tolist() for site in split_by_site(np.zeros((3, 1)), [1, 2, 3], ["B", "C", "B"])]
    [[0, 2], [1]]
    """
    X = dense(X, "X")
    X, y, groups, group, sample_weight = map(as_pandas, (X, y, groups, group, sample_weight))
    if y is None or groups is None:
        raise SettingsError("y and groups are needed, one entry per row of X")
    where = np.asarray(groups)
    if where.ndim != 1:
        raise SettingsError(f"groups must have shape (n,), got {where.shape}")
    counts = len(X), len(np.asarray(y)), len(where)
    if len(set(counts)) > 1:
        raise SettingsError(
            "X has {} rows, y {} and groups {}; all need one entry per row".format(*counts)
        )
    for what, given in (("group", group), ("sample_weight", sample_weight)):
        if given is not None and np.shape(given) != (len(X),):
            shape = np.shape(given)
            raise SettingsError(f"X has {len(X)} rows, and {what} has the shape {shape}")
    names = site_names(pd.Series(where), "groups")
    numbers = np.arange(len(where)) if rows is None else rows
    codes, sites = pd.factorize(names)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    found = []
    for name, start, end in zip(sites, [0, *ends], ends, strict=False):
        own = order[start:end]
        more = [None if each is None else rows_of(each, own) for each in (group, sample_weight)]
        table = frozen(rows_of(X, own))  # so that it is not copied again
        found.append(GivenSite(name, table, rows_of(y, own), numbers[own], *more))
    return found


def split_frame(
    df: pd.DataFrame,
    site: Hashable,
    label: Hashable,
    target: Any,
    features: Sequence[Hashable] | None,
    missing_labels: str,
    target_name: str,
    group: Hashable | None,
    sample_weight: Hashable | None,
) -> tuple[list[GivenSite], GivenSite, list[str]]:
    """Return the sources, the target and notes; see `ShiftProblem.from_frame`."""
    df, target = as_pandas(df), as_pandas(target)
    if not isinstance(df, pd.DataFrame):
        raise SettingsError(f"from_frame needs a pandas DataFrame, got {type(df).__name__}")
    if missing_labels not in ("error", "drop"):
        raise SettingsError(f"missing_labels must be 'error' or 'drop', got {missing_labels!r}")
    if isinstance(features, str):
        raise SettingsError(f"features must be a list of columns; did you mean [{features!r}]?")
    check_roles(df, site, label, *(features or ()), group=group, sample_weight=sample_weight)
    roles = [site, label, *(name for name in (group, sample_weight) if name is not None)]
    chosen = [c for c in df if c not in roles] if features is None else list(features)
    if taken := [name for name in roles if name in chosen]:
        raise SettingsError(
            f"column {taken[0]!r} is the site, the label, the group or the weight, so it cannot be "
            "a feature"
        )
    more = {
        role: df[name]
        for role, name in (("group", group), ("sample_weight", sample_weight))
        if name is not None
    }
    # Not df[chosen]: names may be True and False.
    X, y, groups = (
        df.reindex(columns=chosen),
        df[label],
        site_names(df[site], f"the site column {site!r}"),
    )
    if isinstance(target, pd.DataFrame):
        check_columns(target.columns, "the target's table")
        for name in chosen:
            check_choice(name, target.columns, "column of the target", DataError)
        inside = np.zeros(len(df), dtype=bool)
        its: dict[str, Any] = {role: target.get(column.name) for role, column in more.items()}
        own = GivenSite(target_name, target.reindex(columns=chosen), target.get(label), **its)
    else:
        same = [v for v in df[site].unique() if type(v) is not str and v == target]  # 1 and 1.0
        wanted = str(same[0] if same else target)
        inside = groups == check_choice(wanted, sorted(set(groups)), "site", DataError)
        its = {role: column[inside] for role, column in more.items()}
        own = GivenSite(wanted, X[inside], y[inside], np.flatnonzero(inside), **its)
    if own.y is not None and own.y.isna().all():
        own = own._replace(y=None)
    known, notes = has_label(y[~inside], groups[~inside], drop=missing_labels == "drop")
    rows = np.flatnonzero(~inside)[known]
    known_more = {role: column.iloc[rows] for role, column in more.items()}
    sources = split_by_site(X.iloc[rows], y.iloc[rows], groups[rows], rows=rows, **known_more)
    return sources, own, notes


def split_domains(
    X: Any,
    y: ArrayLike,
    sample_domain: ArrayLike,
    target: int | None,
    sample_weight: ArrayLike | None,
) -> tuple[list[GivenSite], GivenSite]:
    """Return the sources and the target; see `ShiftProblem.from_sample_domain`."""
    domain = np.asarray(sample_domain)
    if domain.dtype.kind not in "iuf" or np.any(domain != np.round(domain.astype(float))):
        raise SettingsError("sample_domain must hold whole numbers: >= 0 source, < 0 target")
    given = split_by_site(X, y, domain.astype(int), sample_weight=sample_weight)
    sites = {int(site.name): site for site in given}
    targets = sorted(number for number in sites if number < 0)
    if not targets:
        raise SettingsError("sample_domain marks no row as target (none is < 0)")
    if target is None and len(targets) > 1:
        raise SettingsError(f"there are several target domains {targets}; choose one: target=")
    chosen = targets[0] if target is None else target
    if chosen not in targets:
        raise SettingsError(f"target={chosen} is not among the target domains {targets}")
    sources = [site for number, site in sites.items() if number >= 0]
    return sources, sites[chosen]._replace(y=None)


def site_names(where: pd.Series, what: str) -> NDArray[np.object_]:
    """Return the site of every row as text, shape (n,).

    Missing sites, and a site written both as text and as a number, are errors.
    """
    if missing := int(where.isna().sum()):
        raise DataError(
            f"{what} is empty in {missing} row(s) (NA, None and null count as empty); fill it, or "
            "leave those rows out"
        )
    values = where.unique()
    texts = [str(value) for value in values]
    check_ends(texts)  # before the names are mapped: pandas 2 takes such names for the same
    if doubled := sorted(text for text, n in Counter(texts).items() if n > 1):
        raise DataError(
            f"the sites {doubled} occur both as text and as number; write them in one way"
        )
    return np.asarray(where.map(dict(zip(values, texts, strict=True))), dtype=object)


def check_roles(
    df: pd.DataFrame,
    site: Hashable,
    label: Hashable | None,
    *others: Hashable,
    group: Hashable | None = None,
    sample_weight: Hashable | None = None,
) -> None:
    """Check that the columns exist, each once, and that no column has two roles."""
    check_columns(df.columns, "the table")
    roles = {"site": site, "label": label, "group": group, "sample_weight": sample_weight}
    given = {role: name for role, name in roles.items() if name is not None}
    for name in (*given.values(), *others):
        check_choice(name, df.columns, "column", DataError)
    for one, other in combinations(given, 2):
        if given[one] == given[other]:
            raise SettingsError(
                f"{one} and {other} are both {given[one]!r}; they are different columns"
            )


def has_label(
    y: pd.Series, groups: NDArray[np.object_], *, drop: bool
) -> tuple[NDArray[np.bool_], list[str]]:
    """Mark the source rows that have a label, shape (n,), and note those that are left out.

    Without `drop`, a missing label is an error.
    """
    missing = y.isna().to_numpy()
    counts = pd.Series(groups[missing], dtype=object).value_counts(sort=False).to_dict()
    if counts and not drop:
        refuse_unlabelled(y.name, counts, Counter(groups))
    return ~missing, [about_unlabelled(counts)] if counts else []


def refuse_unlabelled(
    label: Hashable, missing: Mapping[Any, int], rows: Mapping[Any, int]
) -> NoReturn:
    """Raise an error about rows without a label, from their numbers and all rows of each site."""
    name, count = next(iter(missing.items()))
    more = f" (and in {len(missing) - 1} more site(s))" if len(missing) > 1 else ""
    raise DataError(
        f"site {str(name)!r}: the label {str(label)!r} is missing in {count} of "
        f"{rows[name]} rows{more}; fill it in, or leave those rows out "
        "(missing_labels='drop', --drop-unlabelled on the command line)"
    )


def about_unlabelled(missing: Mapping[Any, int]) -> str:
    """Note that rows without a label are left out, from their numbers by site.

    >>> about_unlabelled({"B": 2})
    "2 rows without label are left out: 2 of 'B'"
    """
    total = sum(missing.values())
    rows, verb = ("1 row", "is") if total == 1 else (f"{total} rows", "are")
    sites = listed([f"{n} of {str(name)!r}" for name, n in missing.items()], 6, quoted=False)
    return f"{rows} without label {verb} left out: {sites}"
