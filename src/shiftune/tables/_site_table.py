"""A problem from a table as it comes from a file, with a note of every decision.

`site_table` is the story: names are checked, sites and classes get one spelling, rows that cannot
be used are left out, then labels and columns are typed. Details follow in this order; each adds
what it decided to a list of notes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._names import Task
from shiftune._wording import check_choice, count, listed
from shiftune.errors import DataError, SettingsError
from shiftune.problem import ShiftProblem
from shiftune.problem._large import LabelRules, SampledParts
from shiftune.problem._problem import read_problem
from shiftune.problem._reading import (
    GivenSite,
    check_names,
    check_roles,
    has_label,
    site_names,
    split_by_site,
)
from shiftune.problem._site import MOST_CLASSES, sites_have, task_of
from shiftune.tables._columns import ReadColumn, question_about, read_column, typed, without_codes
from shiftune.tables._formats import (
    MISSING_CODES,
    PLAIN,
    NumberFormats,
    are_whole,
    as_numbers,
    counted,
    distinct,
    first_code,
    on_distinct,
    without_zeros,
)
from shiftune.tables._schema import Schema

# Density ratio, training and validation need a row each.
_FEWEST_ROWS = 3
# Codes for missing values that may be classes, too, unless the others are numbers.
_MAY_BE_CLASSES = frozenset(("-", "--", "\u2013", "\u2014", "*"))
_QUANTITY = "if it is a quantity, use --task regression"


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Settings of a table: roles of its columns, and how they are read."""

    site: str
    target: str  # the site to tune for
    label: str | None = None  # without it the problem can only be used for `diagnose`
    group: str | None = None  # an identifier, too; see `ShiftProblem.from_frame`
    sample_weight: str | None = None
    task: Task | None = None  # default: decided by the labels
    keep: Collection[str] = ()  # columns that are always features
    drop: Collection[str] = ()  # columns that never are
    identifiers: Collection[str] = ()  # columns that identify cases, and are not features either
    drop_unlabelled: bool = False  # source rows without a label are left out, otherwise an error
    # The target's labels become the problem's `labelled_target`, and their rows stay among those of
    # the target; otherwise they are set aside.
    use_target_labels: bool = False
    date_format: str | None = None  # of `pandas.to_datetime`, to try first on columns of text
    missing: Collection[str] = ()  # values that stand for missing ones: COLUMN=VALUE ("age=999")

    @property
    def label_rules(self) -> LabelRules | None:
        """Part that labels have if rows are drawn."""
        if self.label is None:
            return None
        return LabelRules(self.label, self.target, self.use_target_labels, self.drop_unlabelled)


@dataclass(frozen=True, slots=True)
class SiteTable:
    """A problem, and the columns it was made of.

    The notes of the problem concern everything but single columns; its row numbers are those of the
    table. `columns` has one row per column besides site and label: kind, distinct, missing, used,
    identifier, remark. `schema` has the columns that are used.
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

    def of_sample(self, sampled: SampledParts) -> SiteTable:
        """Return the table with the notes of a draw, and its rows numbered as in the files."""
        return replace(self, problem=self.problem.of_sample(sampled, sampled.rows))


def site_table(df: pd.DataFrame, settings: TableSettings, notes: Sequence[str] = ()) -> SiteTable:
    """Type the columns of a table of all sites, and read it as a problem.

    `notes` are known about the table already, and come first among those of the problem.

    >>> df = pd.DataFrame({"nr": range(40), "clinic": ["A", "B"] * 20, "age": [30, 40, 50, 60] * 10,
    ...                    "ill": ["yes", "no", "no", "yes"] * 10})
    >>> table = site_table(df, TableSettings(site="clinic", target="A", label="ill"))
    >>> table.columns["remark"].to_list()
    ['left out: a different value in almost every row, like an identifier', '']
    >>> table.notes[0]
    'the labels of 20 rows of the target are set aside and never used; to use them: tune
    --use-target-labels'
    """
    site, label, decisions = settings.site, settings.label, list(notes)
    df = df.rename(columns=str)
    if not df.index.is_unique:
        df = df.reset_index(drop=True)
    _check_settings(df, settings)
    df, codes = without_codes(df, settings.missing, decisions)
    df = _in_one_spelling(df, site, label, decisions)
    sites = site_names(df[site], f"the site column {site!r}")
    target = _target_name(settings.target, sites)
    rows = _usable_rows(df, sites, target, settings, decisions)
    if len(rows) < len(df):
        df, sites = df.iloc[rows], sites[rows]

    inside = sites == target
    if label is None:  # overlap needs no labels
        labels, task = pd.Series(0.0, df.index), settings.task or "regression"
    else:
        labels, task = _read_labels(df[label], inside, settings, decisions)
    columns = _read_columns(df, sites, inside, settings)
    if label is not None and settings.group is None:
        decisions += [_about_repeats(c) for c in columns.values() if c.identifier and c.repeats]
    if task == "regression" and (question := question_about(labels)):
        decisions.append(f"the label {label!r} has {question}")
    if task == "classification":
        decisions += _about_lacking_classes(labels[~inside], sites[~inside])

    used = {name: column for name, column in columns.items() if column.used}
    if not used:
        raise DataError("no column is left to learn from; shiftune diagnose lists the columns")
    everyone = GivenSite(
        "",
        pd.DataFrame({name: column.series for name, column in used.items()}),
        labels,
        rows,
        None if settings.group is None else df[settings.group],
        _weights(columns, settings.sample_weight),
    )
    by_site = {each.name: each for each in split_by_site(everyone, sites)}
    own = by_site.pop(target)
    if label is None or not settings.use_target_labels:
        own = own._replace(y=None)
    problem = read_problem(
        ShiftProblem,
        list(by_site.values()),
        own,
        notes=decisions,
        target_labels="use",
        task=task,
        label=label or "",
        warn=False,
    )
    schema = Schema(
        {name: column.kind for name, column in used.items()},
        {name: column.date_format for name, column in used.items() if column.date_format},
        {name: column.number_format for name, column in used.items() if column.number_format},
        {name: [*column.missing_texts, *codes.get(name, ())] for name, column in used.items()},
    )
    facts = ("kind", "distinct", "missing", "used", "identifier", "remark")
    overview = pd.DataFrame(
        [[getattr(column, fact) for fact in facts] for column in columns.values()],
        index=pd.Index(columns, name="column"),
        columns=list(facts),
    )
    return SiteTable(problem, overview, schema)


def _check_settings(df: pd.DataFrame, settings: TableSettings) -> None:
    """Check that all columns exist, and that every column has at most one role."""
    options = {"--keep": settings.keep, "--drop": settings.drop, "--id": settings.identifiers}
    more = {"group": settings.group, "sample_weight": settings.sample_weight}
    others = [name for names in options.values() for name in names]
    check_roles(df, settings.site, settings.label, *others, **more)
    for role, taken in {"site": settings.site, "label": settings.label, **more}.items():
        for option, names in options.items():
            if taken in names:
                raise SettingsError(f"column {taken!r} is the {role}; leave it out of {option}")
    if both := sorted(set(settings.keep) & {*settings.drop, *settings.identifiers}):
        raise SettingsError(f"column {both[0]!r} is in --keep, and in --drop or --id; choose one")


def _in_one_spelling(
    df: pd.DataFrame, site: str, label: str | None, notes: list[str]
) -> pd.DataFrame:
    """Join spellings of one site, or of one class, that differ by spaces or capitals."""
    df = df.assign(**{site: _without_spaces(df[site], f"the site column {site!r}", notes)})
    if label is None:
        return df
    what = f"the label {label!r}"
    labels = _without_spaces(df[label], what, notes)
    labels = _codes_as_missing(labels, what, notes)
    return df.assign(**{label: _in_usual_capitals(labels, what, notes)})


def _without_spaces(column: pd.Series, what: str, notes: list[str]) -> pd.Series:
    """Remove spaces around texts; blank texts become missing."""
    texts = [value for value in column.dropna().unique() if isinstance(value, str)]
    spaced = {text: text.strip() for text in texts if text != text.strip()}
    if not spaced:
        return column
    if joined := {old: new for old, new in spaced.items() if new}:
        rows = count(int(column.isin(list(joined)).sum()), "row")
        notes.append(f"{what} has spaces in {rows}: {_read_as(joined)}")
    if blank := [old for old, new in spaced.items() if not new]:
        rows = count(int(column.isin(blank).sum()), "row")
        notes.append(f"{what} is blank in {rows}, which counts as missing")
    names = {old: new or None for old, new in spaced.items()}
    return column.astype(object).map(lambda value: names.get(value, value))


def _codes_as_missing(labels: pd.Series, what: str, notes: list[str]) -> pd.Series:
    """Take "?" and other codes for missing, unless they may be classes (as + and - may)."""
    given = labels.dropna()
    numeric = as_numbers(distinct(given[~given.isin(MISSING_CODES)])[1]).notna().all()
    codes = given.isin(MISSING_CODES if numeric else MISSING_CODES - _MAY_BE_CLASSES)
    if not codes.any() or given[~codes].nunique() < 2:
        return labels
    rows, shown = count(int(codes.sum()), "row"), listed(given[codes].unique())
    notes.append(f"{what} is {shown} in {rows}, which counts as missing")
    return labels.where(~codes.reindex(labels.index, fill_value=False))


def _in_usual_capitals(column: pd.Series, what: str, notes: list[str]) -> pd.Series:
    """Give texts that differ by capitals the most frequent spelling."""
    if types.is_numeric_dtype(column):
        return column
    alike: dict[str, list[str]] = defaultdict(list)
    for text in counted(column.dropna()).index:  # the most frequent first
        if isinstance(text, str):
            alike[text.casefold()].append(text)
    names = {text: texts[0] for texts in alike.values() for text in texts[1:]}
    if not names:
        return column
    notes.append(f"{what} has several spellings: {_read_as(names)}")
    return column.astype(object).map(lambda value: names.get(value, value))


def _read_as(names: dict[str, str]) -> str:
    return listed([f"{old!r} is read as {new!r}" for old, new in names.items()], quoted=False)


def _target_name(target: str, sites: NDArray[np.object_]) -> str:
    """Return the name of the target, which may be given as a number."""
    names = sorted(set(sites))
    name = check_choice(_by_number(names).get(target, target), names, "site", DataError)
    check_names([site for site in names if site != name], name)
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
    sites: NDArray[np.object_],
    target: str,
    settings: TableSettings,
    notes: list[str],
) -> NDArray[np.intp]:
    """Return the numbers of the rows that have a label, if they need one, and a usable site."""
    usable = np.ones(len(df), dtype=bool)
    if settings.label is not None:
        outside = sites != target
        labels = df.loc[outside, settings.label]
        usable[outside], more = has_label(labels, sites[outside], drop=settings.drop_unlabelled)
        notes += more
    sizes = pd.Series(sites[usable]).value_counts(sort=False).drop(target, errors="ignore")
    tiny = sizes.index[sizes < _FEWEST_ROWS].to_list()
    if tiny and len(tiny) == len(sizes):
        raise DataError(
            f"no source has {_FEWEST_ROWS} rows; is {settings.site!r} really the column of the "
            "sites?"
        )
    if tiny:
        are = "is" if len(tiny) == 1 else "are"
        notes.append(f"{sites_have(tiny)} fewer than {_FEWEST_ROWS} rows and {are} left out")
        usable &= ~pd.Series(sites).isin(tiny).to_numpy()
    return np.flatnonzero(usable)


def _read_labels(
    column: pd.Series, inside: NDArray[np.bool_], settings: TableSettings, notes: list[str]
) -> tuple[pd.Series, Task]:
    """Return the labels (the target's only if they are used) and the task."""
    name, own, others = column.name, column[inside], column[~inside]
    if others.isna().all():
        raise DataError(
            f"the label {name!r} is missing in all rows of all sources; is it the right column?"
        )
    if settings.use_target_labels and own.isna().all():
        raise DataError(
            f"no row of the target has a label in {name!r}, so there is none to use; fill some in, "
            "or leave --use-target-labels out"
        )
    about: list[str] = []
    labels = column
    if not settings.use_target_labels:
        labels = column.mask(pd.Series(inside, column.index))
    labels = _typed_labels(labels, settings.task, about)
    given = labels.dropna().infer_objects()
    task = settings.task or task_of([given.to_numpy()])
    numeric = types.is_numeric_dtype(given) and not types.is_bool_dtype(given)
    if task != "classification" and not numeric:
        raise DataError(
            f"the label {name!r} is not numeric, so it cannot be a regression label; leave "
            "--task regression out"
        )
    if settings.use_target_labels:
        notes.append(_about_used(own))
    elif own.notna().any():
        classes = task == "classification"
        new = set(own.dropna().unique()) - set(others.dropna().unique()) if classes else set()
        notes.append(_about_set_aside(own, new))
    notes += about
    if task == "classification" and settings.task is None and numeric and given.nunique() > 2:
        notes.append(f"the label {name!r} is read as {given.nunique()} classes; {_QUANTITY}")
    return labels, task


def _typed_labels(labels: pd.Series, task: Task | None, notes: list[str]) -> pd.Series:
    """Read text that is all numbers as numbers, and whole floats as integers."""
    given = labels.dropna().infer_objects()
    if types.is_object_dtype(given) or types.is_string_dtype(given):
        labels = _read_text(labels, given, task, notes)
        given = labels.dropna()
    if types.is_float_dtype(given) and are_whole(given):
        labels = labels.astype("Int64")  # 0 and 1, not 0.0 and 1.0, in what is predicted
    return labels


def _read_text(
    labels: pd.Series, given: pd.Series, task: Task | None, notes: list[str]
) -> pd.Series:
    """Return labels as numbers, if all that are given are; as they are otherwise."""
    quantities = _quantities(given, task, notes)
    if quantities is not None:
        return quantities.reindex(labels.index)
    strange = given[on_distinct(given, as_numbers).isna()]
    code = None if task == "regression" else first_code(given.unique())
    if strange.empty and code is None:
        return pd.to_numeric(labels, errors="coerce")
    if 0 < len(strange) <= 0.1 * len(given):
        shown = ", ".join(repr(value) for value in strange.unique()[:5])
        raise DataError(
            f"the label {given.name!r} is numeric, but text in {len(strange)} row(s): {shown}; "
            "write numbers there, or leave them empty, which counts as missing"
        )
    classes = given.nunique()
    if classes > max(0.5 * len(given), MOST_CLASSES):
        what, advice = "texts", "is it the right column?"
        if strange.empty:
            what, advice = "codes with leading zeros", _QUANTITY
        raise DataError(
            f"the label {given.name!r} has {classes} different {what} in {len(given)} rows, too "
            f"many for classes; {advice}"
        )
    if code is not None and strange.empty and task is None:
        notes.append(
            f"the label {given.name!r} has leading zeros ({code!r}), so it is read as "
            f"{classes} classes; {_QUANTITY}"
        )
    return labels


def _quantities(given: pd.Series, task: Task | None, notes: list[str]) -> pd.Series | None:
    """Read numbers with decimal commas, currencies or units, unless they are few classes."""
    if task == "classification" or types.infer_dtype(given) != "string":
        return None
    formats = NumberFormats()
    formats.add(given)
    written = formats.decided()
    if written == PLAIN or formats.strange.total:
        return None
    numbers = written.read(given)
    if task is None and task_of([numbers.to_numpy()]) != "regression":
        return None
    example = next(iter(formats.odd.texts))
    notes.append(f"the label {given.name!r} has numbers with {written.words} ({example!r})")
    return numbers


def _about_set_aside(own: pd.Series, new_classes: set[object]) -> str:
    rows = count(int(own.count()), "row")
    aside = f"the labels of {rows} of the target are set aside and never used; "
    if new_classes:
        shown = ", ".join(sorted(map(repr, new_classes))[:4]) + ", ..." * (len(new_classes) > 4)
        return aside + f"they cannot be used as they are: no source has the class(es) {shown}"
    return aside + "to use them: tune --use-target-labels"


def _about_used(own: pd.Series) -> str:
    known = int(own.count())
    how = (
        "all evaluate the trials (with a risk estimator other than adjusted, some do and the rest "
        "train the trials' models), and all train the final model"
    )
    if known == len(own):
        return (
            f"all {count(known, 'row')} of the target have labels, which are used: {how}; its "
            "predictions for these rows do not show how good it is"
        )
    return (
        f"the labels of {known:,} of {count(len(own), 'row')} of the target are used: {how}; these "
        "rows should be a random sample"
    )


def _about_lacking_classes(labels: pd.Series, sites: NDArray[np.object_]) -> list[str]:
    """Note the sources in which a class does not occur."""
    given = labels.notna().to_numpy()
    by_site = pd.crosstab(sites[given], labels[given].astype(str).to_numpy())
    notes = []
    for site, rows in by_site.iterrows():
        if lacking := [str(label) for label, n in rows.items() if n == 0]:
            classes = "class" if len(lacking) == 1 else "classes"
            notes.append(f"site {site!r} has no row of {classes} {listed(lacking)}")
    if len(notes) > 4:
        notes = [*notes[:3], f"{len(notes) - 3} more sites lack a class"]
    return notes


def _read_columns(
    df: pd.DataFrame,
    sites: NDArray[np.object_],
    inside: NDArray[np.bool_],
    settings: TableSettings,
) -> dict[str, ReadColumn]:
    """Type all columns but site and label, and decide which of them are features."""
    of_rows = pd.Series(sites, df.index)
    columns = {}
    for name in df.columns:
        column = df[name]
        if name in (settings.site, settings.label):
            continue
        if name in settings.identifiers:
            columns[name] = typed(column).left_out("identifier, as requested", identifier=True)
        elif name in settings.drop:
            columns[name] = typed(column).left_out("as requested")
        elif name == settings.group:
            columns[name] = typed(column).left_out("group, as requested", identifier=True)
        elif name == settings.sample_weight:
            columns[name] = typed(column).left_out("weight, as requested")
        else:
            keep, date_format = name in settings.keep, settings.date_format
            columns[name] = read_column(
                column, inside, keep=keep, date_format=date_format, sites=of_rows
            )
    return columns


def _about_repeats(column: ReadColumn) -> str:
    return (
        f"column {column.series.name!r} has {column.distinct} values in {column.present} rows; "
        "if rows with the same value belong together, as visits of a patient do, errors look too "
        f"small and intervals too narrow: give --group {column.series.name}"
    )


def _weights(columns: dict[str, ReadColumn], name: str | None) -> pd.Series | None:
    if name is None:
        return None
    if columns[name].kind != "number":
        raise DataError(
            f"column {name!r} has the weights of rows, but is not numeric; weights "
            "are numbers above 0"
        )
    return columns[name].series
