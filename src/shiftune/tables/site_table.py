"""A problem from a table as it comes from a file, with a note of every decision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import DataError, SettingsError
from shiftune.names import Task
from shiftune.problem import ShiftProblem
from shiftune.problem.reading import check_names, read_sites
from shiftune.problem.stacked import check_roles, has_label, site_names, split_by_site
from shiftune.spelling import check_choice
from shiftune.tables.codes import without_zeros
from shiftune.tables.columns import read_column
from shiftune.tables.labels import codes_as_missing, lacking_classes, read_labels
from shiftune.tables.missing_codes import codes_by_column, question_about, without_codes
from shiftune.tables.schema import Schema
from shiftune.tables.site_files import SampledFiles
from shiftune.tables.spellings import in_one_spelling, without_spaces
from shiftune.tables.typed_columns import ReadColumn, typed
from shiftune.wording import listed

# Density ratio, training and validation need a row each.
FEWEST_ROWS = 3


@dataclass(frozen=True, slots=True)
class SiteTable:
    """A problem, and the columns it was made of.

    Attributes
    ----------
    problem : ShiftProblem
        Its notes concern everything but single columns; its row numbers are those of the table.
    columns : DataFrame
        One row per column besides site and label: kind, distinct, missing, used, identifier,
        remark.
    schema : Schema
        The columns that are used.
    """

    problem: ShiftProblem
    columns: pd.DataFrame
    schema: Schema

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the problem."""
        return self.problem.notes

    @property
    def identifiers(self) -> list[str]:
        """Names of the columns that identify cases."""
        return self.columns.index[self.columns["identifier"]].to_list()

    @property
    def target_rows(self) -> NDArray[np.intp]:
        """Row numbers of the target in the table, shape (n_T,)."""
        return self.problem.target.rows

    @property
    def target_labelled(self) -> NDArray[np.bool_]:
        """Which rows of the target have a label that is used, shape (n_T,)."""
        few = self.problem.labelled_target
        return np.isin(self.target_rows, [] if few is None else few.rows)

    def of_sample(self, sampled: SampledFiles) -> SiteTable:
        """Return the table with the notes of a draw, and its rows numbered as in the files."""
        return replace(self, problem=self.problem.of_sample(sampled.drawn, sampled.rows))


def site_table(
    df: pd.DataFrame,
    *,
    site: str,
    target: str,
    label: str | None = None,
    group: str | None = None,
    sample_weight: str | None = None,
    task: Task | None = None,
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    identifiers: Collection[str] = (),
    drop_unlabelled: bool = False,
    use_target_labels: bool = False,
    date_format: str | None = None,
    missing: Collection[str] = (),
    notes: Sequence[str] = (),
) -> SiteTable:
    """Type the columns of a table and read it as a problem.

    Parameters
    ----------
    df : DataFrame
        One row per case, all sites together.
    site, label : column names
        Without a label the problem can only be used for `diagnose`.
    target : str
        The site to tune for.
    group : column name, optional
        Rows with the same value belong together; see `ShiftProblem.from_frame`. It is an
        identifier, too.
    sample_weight : column name, optional
        Weights of the rows; see `ShiftProblem.from_frame`.
    task : {"classification", "regression"}, optional
        Default: decided by the labels.
    keep, drop : column names
        Columns that are always features, and columns that never are.
    identifiers : column names
        Columns that identify cases, and are not features either.
    drop_unlabelled : bool
        Leave out source rows without a label. Otherwise they are an error.
    use_target_labels : bool
        Use the labels of the target's rows, which become the problem's `labelled_target` and stay
        among the rows of the target. Otherwise these labels are set aside.
    date_format : str, optional
        Format of `pandas.to_datetime` to try first on columns of text.
    missing : texts
        Values that stand for missing ones, each as COLUMN=VALUE ("age=999").
    notes : texts
        What is known about the table already, for the notes of the problem.

    Examples
    --------
    >>> df = pd.DataFrame({"nr": range(40), "clinic": ["A", "B"] * 20, "age": [30, 40, 50, 60] * 10,
    ...                    "ill": ["yes", "no", "no", "yes"] * 10})
    >>> table = site_table(df, site="clinic", target="A", label="ill")
    >>> table.columns["remark"].to_list()
    ['left out: a different value in almost every row, like an identifier', '']
    >>> table.notes[0]
    'the labels of 20 rows of the target are set aside and never used; to use them: tune
    --use-target-labels'
    """
    df = df.rename(columns=str)
    if not df.index.is_unique:
        df = df.reset_index(drop=True)
    others = {"group": group, "sample_weight": sample_weight}
    check_roles(df, site, label, *keep, *drop, *identifiers, **others)
    _check_options({"site": site, "label": label, **others}, keep, drop, identifiers)
    codes = codes_by_column(missing, df.columns)
    df, found = without_codes(df, codes)
    df, more = _tidied(df, site, label)
    found += more
    groups = site_names(df[site], f"the site column {site!r}")
    target = _target_name(target, groups)
    rows, more = _usable_rows(df, groups, target, site, label, drop_unlabelled)
    found += more
    if len(rows) < len(df):
        df, groups = df.iloc[rows], groups[rows]
    inside = groups == target
    labels, decided = pd.Series(0.0, df.index), task or "regression"  # overlap needs no labels
    if label is not None:
        labels, decided, more = read_labels(
            df[label], inside, task, use_target_labels=use_target_labels
        )
        found += more
    roles: dict[str | None, str] = {group: "group", sample_weight: "weight"}
    roles.update(dict.fromkeys(drop, "") | dict.fromkeys(identifiers, "identifier"))
    sites = pd.Series(groups, df.index)
    columns = {
        name: _left_out(df[name], roles[name])
        if name in roles
        else read_column(df[name], inside, keep=name in keep, date_format=date_format, sites=sites)
        for name in df.columns
        if name not in (site, label)
    }
    if label is not None:
        identifying = (column for column in columns.values() if column.identifier)
        repeated = [column for column in identifying if column.repeats]
        found += [_about_repeats(column) for column in repeated if group is None]
    if decided == "regression" and (question := question_about(labels)):
        found.append(f"the label {label!r} has {question}")
    if decided == "classification":
        found += lacking_classes(labels[~inside], groups[~inside])
    used = {name: column for name, column in columns.items() if column.used}
    if not used:
        raise DataError("no column is left to learn from; shiftune diagnose lists the columns")
    X = pd.DataFrame({name: column.series for name, column in used.items()})
    given = {role: df[name] for role, name in others.items() if name is not None}
    if sample_weight is not None:
        given["sample_weight"] = _weights(columns[sample_weight])
    every = {each.name: each for each in split_by_site(X, labels, groups, rows=rows, **given)}
    own = every.pop(target)
    parts, _ = read_sites(
        [*every.values()],
        own if label is not None and use_target_labels else own._replace(y=None),
        target_labels="use",
        task=decided,
        label=label or "",
    )
    parts["notes"] = (*notes, *found, *parts["notes"])
    schema = Schema(
        {name: column.kind for name, column in used.items()},
        {name: column.date_format for name, column in used.items() if column.date_format},
        {name: column.number_format for name, column in used.items() if column.number_format},
        {name: [*each.missing_texts, *codes.get(name, ())] for name, each in used.items()},
    )
    return SiteTable(ShiftProblem(**parts), _overview(columns), schema)


def _tidied(df: pd.DataFrame, site: str, label: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Join spellings of one site, or of one class, that differ by spaces or capitals."""
    sites, notes = without_spaces(df[site], f"the site column {site!r}")
    if label is None:
        return df.assign(**{site: sites}), notes
    what = f"the label {label!r}"
    labels, more = without_spaces(df[label], what)
    labels, unknown = codes_as_missing(labels, what)
    labels, spelled = in_one_spelling(labels, what)
    return df.assign(**{site: sites, label: labels}), [*notes, *more, *unknown, *spelled]


def _check_options(
    roles: dict[str, str | None],
    keep: Collection[str],
    drop: Collection[str],
    identifiers: Collection[str],
) -> None:
    """Check that every column has at most one role."""
    for role, taken in roles.items():
        for option, names in (("--keep", keep), ("--drop", drop), ("--id", identifiers)):
            if taken in names:
                raise SettingsError(f"column {taken!r} is the {role}; leave it out of {option}")
    if both := sorted(set(keep) & {*drop, *identifiers}):
        raise SettingsError(f"column {both[0]!r} is in --keep, and in --drop or --id; choose one")


def _target_name(target: str, groups: NDArray[np.object_]) -> str:
    """Return the name of the target, which may be given as a number."""
    sites = sorted(set(groups))
    name = check_choice(_by_number(sites).get(target, target), sites, "site", DataError)
    check_names([site for site in sites if site != name], name)
    return str(name)


def _by_number(sites: list[str]) -> dict[str, str]:
    """Map numbers to sites, if all sites are codes such as 007, or numbers such as 7.0."""
    whole = {site: site.removesuffix(".0") for site in sites}
    if not all(number.isdigit() for number in whole.values()):
        return {}
    found: dict[str, str] = {}
    for site, number in whole.items():
        if (other := found.setdefault(without_zeros(number), site)) != site:
            raise DataError(
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
) -> tuple[NDArray[np.intp], list[str]]:
    """Return the numbers of the rows that can be used, and note what is left out."""
    rows = np.ones(len(df), dtype=bool)
    notes: list[str] = []
    if label is not None:
        outside = groups != target
        known, notes = has_label(df.loc[outside, label], groups[outside], drop=drop_unlabelled)
        rows[outside] = known
    sizes = pd.Series(groups[rows]).value_counts(sort=False).drop(target, errors="ignore")
    tiny = sizes.index[sizes < FEWEST_ROWS].to_list()
    if tiny and len(tiny) == len(sizes):
        raise DataError(
            f"no source has {FEWEST_ROWS} rows; is {site!r} really the column of the sites?"
        )
    if tiny:
        one = len(tiny) == 1
        notes.append(
            f"site{'' if one else 's'} {listed(tiny)} ha{'s' if one else 've'} fewer than "
            f"{FEWEST_ROWS} rows and {'is' if one else 'are'} left out"
        )
        rows &= ~pd.Series(groups).isin(tiny).to_numpy()
    return np.flatnonzero(rows), notes


def _left_out(column: pd.Series, role: str) -> ReadColumn:
    why = f"{role}, as requested" if role else "as requested"
    return typed(column).left_out(why, identifier=role in ("identifier", "group"))


def _weights(column: ReadColumn) -> pd.Series:
    if column.kind != "number":
        raise DataError(
            f"column {column.series.name!r} has the weights of rows, but is not numeric; weights "
            "are numbers above 0"
        )
    return column.series


def _about_repeats(column: ReadColumn) -> str:
    return (
        f"column {column.series.name!r} has {column.distinct} values in {column.present} rows; "
        "if rows with the same value belong together, as visits of a patient do, errors look too "
        f"small and intervals too narrow: give --group {column.series.name}"
    )


def _overview(columns: dict[str, ReadColumn]) -> pd.DataFrame:
    facts = ("kind", "distinct", "missing", "used", "identifier", "remark")
    return pd.DataFrame(
        [[getattr(column, fact) for fact in facts] for column in columns.values()],
        index=pd.Index(columns, name="column"),
        columns=list(facts),
    )
