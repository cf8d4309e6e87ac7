"""From a table with a site column to a problem, with a note of everything that was decided."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from shiftune.errors import DataError, DataWarning, ProblemError
from shiftune.problem import ShiftProblem
from shiftune.problem.reading import site_names
from shiftune.spelling import check_choice
from shiftune.tables.codes import has_codes, without_zeros
from shiftune.tables.columns import ReadColumn, read_column
from shiftune.tables.labels import lacking_classes, read_labels
from shiftune.tables.schema import Schema
from shiftune.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from shiftune.problem.labels import Task

# Density ratio, training and validation need a row each.
FEWEST_ROWS = 3


@dataclass(frozen=True, slots=True)
class SiteTable:
    """A table as it was understood.

    Attributes
    ----------
    problem : ShiftProblem
        Its notes say what was noticed or done, besides the remarks on columns.
    columns : DataFrame
        One row per column besides site and label: kind, distinct, missing, used, identifier,
        remark.
    schema : Schema
        How the columns that are used are read.
    target_rows : array of shape (n_T,)
        Where the target's rows stand in the table, counted from 0.
    target_labelled : bool array of shape (n_T,)
        Which of them have a label that is used.
    """

    problem: ShiftProblem
    columns: pd.DataFrame
    schema: Schema
    target_rows: NDArray[np.intp]
    target_labelled: NDArray[np.bool_]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noticed or done, besides the remarks on columns."""
        return self.problem.notes

    @property
    def identifiers(self) -> list[str]:
        """The columns that say which case a row is."""
        return self.columns.index[self.columns["identifier"]].to_list()


def site_table(
    df: pd.DataFrame,
    *,
    site: str,
    target: str,
    label: str | None = None,
    task: Task | None = None,
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    identifiers: Collection[str] = (),
    drop_unlabelled: bool = False,
    use_target_labels: bool = False,
) -> SiteTable:
    """Make sense of a table as it comes from a file.

    Parameters
    ----------
    df : DataFrame
        One row per case, all sites together.
    site, label : column names
        Without a label the problem is good for `diagnose` only.
    target : str
        The site to tune for.
    task : {"classification", "regression"}, optional
        Default: told from the labels.
    keep, drop : column names
        To be used in any case; not to be used.
    identifiers : column names
        Not to be used either; they say which case a row is.
    drop_unlabelled : bool
        Leave out rows of sources that have no label. Without it they are an error.
    use_target_labels : bool
        Use the labels that rows of the target have: they become the problem's `labelled_target`,
        and stay among the rows of the target. Without it they are set aside.

    Examples
    --------
    >>> df = pd.DataFrame({"nr": range(40), "clinic": ["A", "B"] * 20, "age": [30, 40, 50, 60] * 10,
    ...                    "ill": ["yes", "no", "no", "yes"] * 10})
    >>> table = site_table(df, site="clinic", target="A", label="ill")
    >>> table.columns["remark"].to_list()
    ['left out: another value in almost every row, like an identifier', '']
    >>> table.notes[0]
    'the labels of 20 rows of the target are set aside and never used; tune uses them with
    --use-target-labels'
    """
    df = df.rename(columns=str)
    names = df.columns.to_list()
    if doubled := df.columns[df.columns.duplicated()].unique().to_list():
        raise ProblemError(f"the column names {doubled} occur more than once")
    for name in (site, *([] if label is None else [label]), *keep, *drop, *identifiers):
        check_choice(name, names, "column", DataError)
    for role, taken in (("site", site), ("label", label)):
        if taken in identifiers:
            raise ProblemError(
                f"column {taken!r} is the {role}, so it cannot say which case a row is; leave it "
                "out of --id"
            )
        if taken in (*keep, *drop):
            raise ProblemError(
                f"column {taken!r} is the {role}, which is neither kept nor left out"
            )
    if site == label:
        raise ProblemError(f"site and label are both {site!r}; they are different columns")
    if both := sorted(set(keep) & {*drop, *identifiers}):
        raise ProblemError(f"column {both[0]!r} is to be kept and left out; say one of them")
    groups, target = _sites(df[site], target)
    rows, notes = _usable_rows(df, groups, target, site, label, drop_unlabelled)
    df, groups = df[rows], groups[rows]
    inside = groups == target
    labels, decided = pd.Series(0.0, df.index), task or "regression"  # overlap needs no labels
    if label is not None:
        labels, decided, said = read_labels(
            df[label], inside, task, use_target_labels=use_target_labels
        )
        notes += said
    features = [name for name in names if name not in (site, label)]
    columns = {
        name: _left_out(df[name], identifier=name in identifiers)
        if name in (*drop, *identifiers)
        else read_column(df[name], inside, keep=name in keep)
        for name in features
    }
    if label is not None:
        identifying = (column for column in columns.values() if column.identifier)
        notes += [_about_repeats(column) for column in identifying if column.repeats]
    used = {name: column.series for name, column in columns.items() if column.used}
    if not used:
        raise ProblemError("no column is left to learn from; see what the file holds")
    X = pd.DataFrame(used)
    if decided == "classification":
        notes += lacking_classes(labels[~inside], groups[~inside])
    labelled = labels.notna().to_numpy() & inside if use_target_labels else np.zeros_like(inside)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the same text is in the problem's notes
        problem = ShiftProblem.from_arrays(
            X[~inside],
            labels[~inside],
            groups[~inside],
            X[inside],
            labelled_target=(X[labelled], labels[labelled]) if labelled.any() else None,
            target_name=target,
            task=decided,
        )
    return SiteTable(
        replace(problem, notes=(*notes, *problem.notes)),
        _overview(columns),
        _schema(columns),
        np.flatnonzero(rows)[inside],
        labelled[inside],
    )


def _sites(where: pd.Series, target: str) -> tuple[NDArray[np.object_], str]:
    """Return the sites' names, shape (n,), and the target's, which may be asked for as a number."""
    if where.isna().any():
        raise ProblemError(
            f"the site column {where.name!r} is empty in {int(where.isna().sum())} row(s) "
            "(also where it says NA, None or null); fill it or drop those rows"
        )
    groups = site_names(where)
    target = _by_number(sorted(set(groups))).get(target, target)
    check_choice(target, sorted(set(groups)), "site", DataError)
    if len(set(groups)) < 2:
        raise ProblemError(
            f"all rows are of site {target!r}; at least one other site with labels is needed"
        )
    return groups, target


def _by_number(sites: list[str]) -> dict[str, str]:
    """Return sites by their numbers, if all are codes such as 007."""
    if not (has_codes(sites) and all(site.isdigit() for site in sites)):
        return {}
    found: dict[str, str] = {}
    for site in sites:
        if (other := found.setdefault(without_zeros(site), site)) != site:
            raise ProblemError(
                f"the sites {other!r} and {site!r} differ by leading zeros only; write them in one "
                "way"
            )
    return found


def _usable_rows(
    df: pd.DataFrame,
    groups: NDArray[np.object_],
    target: str,
    site: str,
    label: str | None,
    drop_unlabelled: bool,
) -> tuple[NDArray[np.bool_], list[str]]:
    """Mark the rows that can be used, shape (n,), and note what was left out."""
    notes = []
    rows = np.ones(len(df), dtype=bool)
    if label is not None:
        unlabelled = df[label].isna().to_numpy() & (groups != target)
        counts = pd.Series(groups[unlabelled]).value_counts(sort=False)
        if unlabelled.any() and not drop_unlabelled:
            name, count = next(iter(counts.items()))
            size = int((groups == name).sum())
            more = f" (and in {len(counts) - 1} more sites)" if len(counts) > 1 else ""
            raise ProblemError(
                f"site {name!r}: the label {label!r} is missing in {count} of {size} rows{more}; "
                "fill it in, or leave those rows out with --drop-unlabelled"
            )
        rows &= ~unlabelled
        notes += [
            f"{count} row(s) of site {name!r} without label are left out"
            for name, count in counts.items()
        ]
    sizes = pd.Series(groups[rows]).value_counts(sort=False)
    tiny = [str(name) for name, size in sizes.items() if size < FEWEST_ROWS and name != target]
    if tiny:
        if len(tiny) == len(sizes) - (target in sizes):
            raise ProblemError(
                f"no source has {FEWEST_ROWS} rows; is {site!r} really the column of the sites?"
            )
        one = len(tiny) == 1
        notes.append(
            f"site{'' if one else 's'} {listed(tiny)} ha{'s' if one else 've'} fewer than "
            f"{FEWEST_ROWS} rows and {'is' if one else 'are'} left out"
        )
        rows &= ~np.isin(groups.astype(str), tiny)
    return rows, notes


def _left_out(column: pd.Series, *, identifier: bool) -> ReadColumn:
    found = read_column(column, np.zeros(len(column), dtype=bool), keep=True)
    why = "an identifier, as you said" if identifier else "as you asked"
    return found.left_out(why, identifier=identifier)


def _about_repeats(column: ReadColumn) -> str:
    return (
        f"column {column.series.name!r} has {column.distinct} values in {column.present} rows; "
        "where some of a value's rows train a model that is judged on the others, errors look too "
        "small: leave all but one of them out of the file, or split by it in Python (shares of "
        "ShiftSearch)"
    )


def _schema(columns: dict[str, ReadColumn]) -> Schema:
    used = {name: column for name, column in columns.items() if column.used}
    return Schema(
        {name: column.kind for name, column in used.items()},
        {name: column.date_format for name, column in used.items() if column.date_format},
    )


def _overview(columns: dict[str, ReadColumn]) -> pd.DataFrame:
    facts = ("kind", "distinct", "missing", "used", "identifier", "remark")
    return pd.DataFrame(
        [[getattr(column, fact) for fact in facts] for column in columns.values()],
        index=pd.Index(columns, name="column"),
        columns=list(facts),
    )
