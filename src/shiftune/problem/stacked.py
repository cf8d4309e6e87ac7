"""Rows of all sites in one table: the site of every row, and the rows of every site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shiftune.errors import DataError, SettingsError
from shiftune.problem.columns import as_pandas, check_columns, dense
from shiftune.problem.reading import GivenSite, check_ends
from shiftune.problem.site import frozen, rows_of
from shiftune.spelling import check_choice
from shiftune.wording import listed


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
