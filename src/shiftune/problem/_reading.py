"""Sites as the user gave them: stacked rows are divided; names, labels, weights, groups checked.

`shiftune.problem._problem.read_problem` puts them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune._names import Task
from shiftune._wording import alike, check_choice, count, listed, number
from shiftune.errors import DataError, SettingsError
from shiftune.problem._columns import as_pandas, check_columns, dense
from shiftune.problem._site import Site, distinct_labels, frozen, groups_of, rows_of, task_of

Codes = NDArray[np.intp]
Floats = NDArray[np.float64]

# A site with fewer groups keeps about one for validation.
_FEW_GROUPS = 10


class GivenSite(NamedTuple):
    """Rows of a site, or of several, before any check.

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

    def take(self, which: NDArray[Any], name: str) -> GivenSite:
        """Return the rows at these positions, or where a mask is true, with another name."""
        X, y, group, w = (
            None if values is None else rows_of(values, which)
            for values in (self.X, self.y, self.group, self.sample_weight)
        )
        rows = np.arange(len(self.X)) if self.rows is None else self.rows
        return GivenSite(name, X, y, rows[which], group, w)


def split_by_site(stacked: GivenSite, groups: Any) -> list[GivenSite]:
    """Return the rows of every site, in the order in which the sites first occur.

    `groups` has the site of every row, shape (n,).
    """
    stacked = stacked._replace(X=dense(stacked.X, "X")).in_pandas()
    groups = as_pandas(groups)
    if stacked.y is None or groups is None:
        raise SettingsError("y and groups are needed, one entry per row of X")
    where, n = np.asarray(groups), len(stacked.X)
    if where.ndim != 1:
        raise SettingsError(f"groups must have shape (n,), got {where.shape}")
    labels = len(np.asarray(stacked.y))
    if not n == labels == len(where):
        raise SettingsError(
            f"X has {n} rows, y {labels} and groups {len(where)}; all need one entry per row"
        )
    for what in ("group", "sample_weight"):
        values = getattr(stacked, what)
        if values is not None and np.shape(values) != (n,):
            raise SettingsError(f"X has {n} rows, and {what} has the shape {np.shape(values)}")
    codes, names = pd.factorize(site_names(pd.Series(where), "groups"))
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    found = []
    for name, start, end in zip(names, [0, *ends], ends, strict=False):
        site = stacked.take(order[start:end], name)
        found.append(site._replace(X=frozen(site.X)))  # so that it is not copied again
    return found


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
    _check_ends(texts)  # before the names are mapped: pandas 2 takes such names for the same
    if doubled := sorted(text for text, n in Counter(texts).items() if n > 1):
        raise DataError(
            f"the sites {doubled} occur both as text and as number; write them in one way"
        )
    return np.asarray(where.map(dict(zip(values, texts, strict=True))), dtype=object)


def _check_ends(names: Iterable[str]) -> None:
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
    _check_ends((target, *sources))
    if doubled := sorted(name for name, n in Counter(sources).items() if n > 1):
        raise DataError(f"the site name(s) {listed(doubled)} occur twice; rename one of each pair")
    if target in sources:
        raise DataError(
            f"{target!r} is the target and cannot also be a source; rename the source, or give the "
            "target's labelled rows as labelled_target"
        )


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
    name, n = next(iter(missing.items()))
    more = f" (and in {len(missing) - 1} more site(s))" if len(missing) > 1 else ""
    raise DataError(
        f"site {str(name)!r}: the label {str(label)!r} is missing in {n} of "
        f"{rows[name]} rows{more}; fill it in, or leave those rows out "
        "(missing_labels='drop', --drop-unlabelled on the command line)"
    )


def about_unlabelled(missing: Mapping[Any, int]) -> str:
    """Note that rows without a label are left out, from their numbers by site."""
    total = sum(missing.values())
    rows, verb = ("1 row", "is") if total == 1 else (f"{total} rows", "are")
    sites = listed([f"{n} of {str(name)!r}" for name, n in missing.items()], 6, quoted=False)
    return f"{rows} without label {verb} left out: {sites}"


def decide_task(
    labels: dict[str, NDArray[Any]], task: Task | None, label: str
) -> tuple[Task, list[str]]:
    """Decide between classes and quantities by the labels of all sites, unless the user did."""
    texts = [site for site, y in labels.items() if y.dtype.kind == "O"]
    numbers = [site for site in labels if site not in texts]
    if texts and numbers:
        raise DataError(
            f"the label {label!r} is text in site {texts[0]!r} but a number in site "
            f"{numbers[0]!r}; write it in one way in all sites"
        )
    decided = task or task_of(labels.values())
    if decided == "regression" and texts:
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


def check_classes(sources: Sequence[Site], few: NDArray[Any] | None) -> None:
    """Refuse a single class, and classes of the target's labelled rows that no source has."""
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


def site_weights(
    sites: Sequence[GivenSite], sources: Sequence[GivenSite]
) -> tuple[dict[str, Floats], list[str]]:
    """Check the weights of all sites; return them by site, and notes.

    Sources need weights if any site has them; rows of the target may have none, and count once.
    Empty where no site has weights, or all are 1.
    """
    if all(site.sample_weight is None for site in sites):
        return {}, []
    needed = {site.name for site in sources}
    found: dict[str, Floats] = {}
    for site in sites:
        n = len(site.X)
        values = np.full(n, np.nan)
        if site.sample_weight is not None:
            values = _weights(site.sample_weight, site.name, n)
        if site.name not in needed and np.isnan(values).all():
            values = np.ones(n)
        bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if len(bad):
            value = values[bad[0]]
            shown = "missing" if np.isnan(value) else number(float(value))
            row = bad[0] if site.rows is None else site.rows[bad[0]]
            more = f" (and {len(bad) - 1} more there)" if len(bad) > 1 else ""
            raise DataError(
                f"site {site.name!r}: the weight of row {row} is {shown}{more}; leave the row out, "
                "or give it a weight above 0"
            )
        found[site.name] = values
    least, most = (f(np.concatenate([*found.values()])) for f in (np.min, np.max))
    if least == most == 1:
        return {}, ["every row has the weight 1, so weights change nothing"]
    return found, [
        f"rows have weights from {number(float(least))} to {number(float(most))}: in training, in "
        "the risk at every site, and in metrics"
    ]


def _weights(weights: Any, site: str, n: int) -> Floats:
    try:
        values = pd.Series(weights).to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise DataError(f"site {site!r}: the weights of rows are not numbers ({error})") from error
    if values.shape != (n,):
        raise DataError(f"site {site!r} has {n} rows but {len(values)} weights")
    return values


def group_codes(
    sites: Sequence[GivenSite], labelled: Sequence[GivenSite]
) -> tuple[dict[str, Codes], list[str]]:
    """Number the groups of all sites; return the codes of their rows by site, and notes.

    The same id at two sites is the same group; a row without an id has a code of its own. Empty
    where no site has ids, or no two labelled rows belong together.
    """
    if all(site.group is None for site in sites):
        return {}, []
    texts = {site.name: _ids(site) for site in sorted(sites, key=lambda site: site.name)}
    everyone = pd.concat(texts.values(), ignore_index=True)
    if everyone.isna().all():
        name = next((site.group.name for site in sites if hasattr(site.group, "name")), "group")
        raise DataError(
            f"the ids of groups, {str(name)!r}, are empty in all rows; name the column with the ids"
        )
    codes = pd.factorize(everyone, sort=True)[0].astype(np.intp)
    missing = codes < 0
    codes[missing] = codes.max() + 1 + np.arange(missing.sum())
    ends = np.cumsum([len(own) for own in texts.values()])[:-1]
    by_site = dict(zip(texts, np.split(codes, ends), strict=True))
    of_labelled = np.concatenate([by_site[site.name] for site in labelled])
    if len(np.unique(of_labelled)) == len(of_labelled):
        return {}, ["every labelled row has a group of its own, so groups change nothing"]
    empty = sum(int(texts[site.name].isna().sum()) for site in labelled)
    if not empty:
        return by_site, []
    rows = count(empty, "labelled row")
    return by_site, [f"{rows} without a group id: each is a group of its own"]


def _ids(site: GivenSite) -> pd.Series:
    """Return ids as text; whole numbers are the same with and without a decimal point."""
    if site.group is None:
        return pd.Series([None] * len(site.X), dtype="string")
    values = pd.Series(site.group).reset_index(drop=True).infer_objects()
    if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
        values = values.astype("Int64")
    return values.astype("string")


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
            f"{count(shared, 'group')} at several sources: no model trains on a group that it "
            "predicts; if ids are numbered anew at every site, make them different: B-1, not 1"
        )
    if known := len(np.intersect1d(ids, of_target)):
        notes.append(
            f"{count(known, 'group')} of the target {target.name!r} also at sources, where the "
            "final model learns from them; the estimated risk is that of new groups"
        )
    pairs = zip(sources, codes, strict=True)
    if small := [site.name for site, own in pairs if len(own) < _FEW_GROUPS <= len(site)]:
        notes.append(
            f"fewer than {_FEW_GROUPS} groups at {listed(small)}: estimates from so few are rough"
        )
    return notes
