"""A table of all sites as named sites with columns, and a note of every decision.

`read_table` is the story: names are checked, sites and classes get one spelling, rows that cannot
be used are left out, then labels and columns are read. Details follow in this order; each adds
what it decided to a list of notes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._names import Task
from shiftune._wording import check_choice, count, listed
from shiftune.columns import Columns
from shiftune.columns._column import (
    REQUESTED,
    Column,
    Option,
    is_code,
    learn,
    python_option,
    question_about,
    typed,
)
from shiftune.columns._formats import (
    MISSING_CODES,
    PLAIN,
    NumberFormats,
    are_whole,
    as_numbers,
    counted,
    distinct,
    first_code,
    on_distinct,
    read_numbers,
    without_zeros,
)
from shiftune.errors import DataError, SettingsError
from shiftune.problem._reading import (
    GivenSite,
    check_columns,
    check_names,
    check_roles,
    column_kinds,
    has_label,
    site_names,
    split_by_site,
    union_of_levels,
)
from shiftune.problem._site import MOST_CLASSES, sites_have, task_of

TargetLabels = Literal["hide", "use", "oracle"]

# Density ratio, training and validation need a row each.
_FEWEST_ROWS = 3
# Codes for missing values that may be classes, too, unless the others are numbers.
_MAY_BE_CLASSES = frozenset(("-", "--", "\u2013", "\u2014", "*"))
# Different values per row above which rows with the same identifier are not worth a note.
_ROW_SHARE = 0.9


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Roles of columns, and how they are read; see `ShiftProblem.from_frame`."""

    site: Hashable
    target: Any
    label: Hashable | None = None  # without it the problem can only be diagnosed
    group: Hashable | None = None
    sample_weight: Hashable | None = None
    task: Task | None = None
    features: Sequence[Hashable] | None = None
    keep: Collection[Hashable] = ()
    drop: Collection[Hashable] = ()
    ids: Collection[Hashable] = ()
    dates: str | Mapping[Any, str] | None = None
    missing: Mapping[Any, Any] = field(default_factory=dict)
    target_labels: TargetLabels = "hide"
    missing_labels: Literal["error", "drop"] = "error"
    as_given: bool = False
    decimal: str = "."  # of the file
    option: Option = python_option

    @property
    def roles(self) -> dict[str, Hashable]:
        """Columns that are no features, by what they are."""
        names = ("site", "label", "group", "sample_weight")
        return {n: value for n in names if (value := getattr(self, n)) is not None}

    @property
    def quantity(self) -> str:
        """What to do if classes are a quantity."""
        return f"if it is a quantity, use {self.option('task', 'regression')}"


class ReadTable(NamedTuple):
    """Sites of a table, before they are checked; `columns` is None where nothing is decided."""

    sources: list[GivenSite]
    target: GivenSite
    columns: Columns | None
    task: Task | None
    notes: list[str]
    quiet: list[str]  # notes that are no surprise


def read_table(df: pd.DataFrame, settings: TableSettings, notes: Sequence[str] = ()) -> ReadTable:
    """Read a table of all sites; `notes` are known about it already, and come first."""
    site, label, decisions = settings.site, settings.label, list(notes)
    if not df.index.is_unique:
        df = df.reset_index(drop=True)
    _check_settings(df, settings)
    codes: dict[Any, list[str]] = {}
    if not settings.as_given:
        df, codes = _without_codes(df, settings.missing, decisions)
        df[site] = _without_spaces(df[site], f"the site column {site!r}", decisions)
    sites = site_names(df[site], f"the site column {site!r}")
    target = _target_name(settings.target, df[site], sites)
    hidden = None
    if label is not None and not settings.as_given:
        hidden, df[label] = _without_hidden(df[label], sites == target, settings, decisions)
    rows = _usable_rows(df, sites, target, settings, decisions)
    if len(rows) < len(df):
        df, sites = df.iloc[rows], sites[rows]

    inside, task, columns, quiet = sites == target, settings.task, None, []
    if label is None:  # overlap needs no labels
        labels, task = pd.Series(0.0, df.index), task or "regression"
    elif settings.as_given:
        labels = df[label]
    else:
        labels, task = _read_labels(df[label], inside, settings, decisions)
        if hidden is not None:
            labels = _set_aside(hidden, labels, task, settings, decisions)
        if task == "classification" and settings.task is None:
            quiet += _about_classes(labels, settings)
        if settings.target_labels == "use":
            quiet.append(_about_used(df[label][inside]))
    chosen = _features(df, settings)
    X = df.reindex(columns=chosen)  # not df[chosen]: names may be True and False
    if not settings.as_given:
        known = None
        if label is not None:
            known = labels if settings.target_labels == "use" else labels.mask(inside)
        of_rows = pd.Series(sites, df.index)
        X, columns = _read_columns(df, of_rows, target, known, task, settings, codes)
        quiet += _about_decisions(columns, labels, sites, inside, task, settings)
    weights = None if settings.sample_weight is None else df[settings.sample_weight]
    everyone = GivenSite(
        "",
        X,
        labels,
        rows,
        None if settings.group is None else df[settings.group],
        weights if settings.as_given or weights is None else _weights(weights),
    )
    by_site = {each.name: each for each in split_by_site(everyone, sites)}
    own = by_site.pop(target)
    if label is None or own.y.isna().all():
        own = own._replace(y=None)
    return ReadTable(list(by_site.values()), own, columns, task, decisions, quiet)


def with_target(df: pd.DataFrame, target: pd.DataFrame, settings: TableSettings) -> pd.DataFrame:
    """Return one table of the target's rows, which come first, and those of the sources."""
    site, name = settings.site, settings.target
    check_columns(target.columns, "the target's table")
    check_roles(df, settings.roles)
    for column in _features(df, settings):
        check_choice(column, target.columns, "column of the target", DataError)
    if name in set(df[site].astype(str)):
        check_names([name], name)
    shared = [c for c in df.columns if c in target.columns and c != site]
    column_kinds({"sources": df.reindex(columns=shared), name: target.reindex(columns=shared)})
    own, df = target.reindex(columns=df.columns), df.copy(deep=False)
    own[site] = name
    for column in shared:
        parts = [own[column], df[column]]
        if any(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
            levels = union_of_levels(parts)
            own[column], df[column] = (part.astype(levels) for part in parts)
    if settings.label is not None and own[settings.label].isna().all():
        kind = df[settings.label].dtype
        whole = types.is_integer_dtype(kind)
        own[settings.label] = pd.Series(pd.NA, own.index).astype("Int64" if whole else object)
        df[settings.label] = df[settings.label].astype("Int64" if whole else kind)
    return pd.concat([own, df], ignore_index=True)


def _about_decisions(
    columns: Columns,
    labels: pd.Series,
    sites: NDArray[np.object_],
    inside: NDArray[np.bool_],
    task: Task | None,
    settings: TableSettings,
) -> list[str]:
    """Return notes on the label and on identifiers, beside those of single columns."""
    notes, label = [], settings.label
    if label is not None and settings.group is None:
        left = (columns.left_out[name] for name in columns.identifiers)
        notes += [_about_repeats(each, len(sites), settings) for each in left if each.distinct]
    if task == "regression" and (question := question_about(labels, settings.option)):
        notes.append(f"the label {label!r} has {question}")
    if task == "classification":
        notes += _about_lacking_classes(labels[~inside], sites[~inside])
    if not columns:
        raise DataError("no column is left to learn from: " + "; ".join(columns.decisions[:4]))
    return [note for note in notes if note]


def _features(df: pd.DataFrame, settings: TableSettings) -> list[Hashable]:
    """Return the names of the columns that may be features."""
    taken = set(settings.roles.values())
    if settings.features is None:
        return [name for name in df.columns if name not in taken | set(settings.drop)]
    return list(settings.features)


def _check_settings(df: pd.DataFrame, settings: TableSettings) -> None:
    """Check that all columns exist, and that every column has at most one role."""
    if settings.missing_labels not in ("error", "drop"):
        raise SettingsError(
            f"missing_labels must be 'error' or 'drop', got {settings.missing_labels!r}"
        )
    if settings.as_given and (settings.keep or settings.ids or settings.dates or settings.missing):
        raise SettingsError(
            "columns='as given' decides nothing: leave out keep, ids, dates, missing"
        )
    lists = {
        "features": settings.features or (),
        "keep": settings.keep,
        "drop": settings.drop,
        "id": settings.ids,
    }
    for what, names in lists.items():
        if isinstance(names, str):
            raise SettingsError(f"{what} must be a list of columns; did you mean [{names!r}]?")
    others = [name for names in lists.values() for name in names]
    roles = settings.roles
    check_roles(df, roles, others)
    for role, taken in roles.items():
        for what, names in lists.items():
            if taken in names:
                option = settings.option(what, "").rstrip("=[]' ")
                raise SettingsError(
                    f"column {taken!r} is the {role.replace('_', ' ')}; leave it out of {option}"
                )
    if both := sorted(
        map(str, {*settings.keep, *lists["features"]} & {*settings.drop, *settings.ids})
    ):
        raise SettingsError(
            f"column {both[0]!r} is to be kept, and to be left out or an identifier; choose one"
        )


def _without_codes(
    df: pd.DataFrame, missing: Mapping[Any, Any], notes: list[str]
) -> tuple[pd.DataFrame, dict[Any, list[str]]]:
    """Return a table without the values that stand for missing ones, and these as text."""
    columns: dict[Any, pd.Series] = {}
    codes: dict[Any, list[str]] = {}
    for name, values in missing.items():
        check_choice(name, df.columns, "column", DataError)
        listing = isinstance(values, Collection) and not isinstance(values, str)
        for value in map(str, values if listing else [values]):
            hit = is_code(df[name], value)
            if not hit.any():
                raise DataError(f"column {name!r} has no value {value}, which is to be missing")
            columns[name] = columns.get(name, df[name]).mask(hit)
            codes.setdefault(name, []).append(value)
            rows = count(int(hit.sum()), "row")
            notes.append(f"column {name!r}: {value} in {rows} counts as missing, as requested")
    df = df.copy(deep=False)
    for name, values in columns.items():
        df[name] = values
    return df, codes


def _without_hidden(
    labels: pd.Series, inside: NDArray[np.bool_], settings: TableSettings, notes: list[str]
) -> tuple[pd.Series | None, pd.Series]:
    """Return the labels of the target that decide nothing, and all others in one spelling."""
    if settings.target_labels == "use":
        return None, _in_one_spelling(labels, notes)
    return labels[inside], _in_one_spelling(labels.mask(inside), notes)


def _set_aside(
    hidden: pd.Series, labels: pd.Series, task: Task, settings: TableSettings, notes: list[str]
) -> pd.Series:
    """Return labels with those of the target, if they are the truth of an experiment."""
    own = _like(hidden.reindex(labels.index.intersection(hidden.index)), labels, task)
    if settings.target_labels == "oracle":
        both = labels.astype(object)
        both[own.index] = own
        return both.infer_objects()
    if own.notna().any():
        notes.append(_about_set_aside(own, labels, task, settings))
    return labels


def _in_one_spelling(labels: pd.Series, notes: list[str]) -> pd.Series:
    """Join spellings of one class that differ by spaces or capitals."""
    what = f"the label {labels.name!r}"
    labels = _codes_as_missing(_without_spaces(labels, what, notes), what, notes)
    return _in_usual_capitals(labels, what, notes)


def _like(hidden: pd.Series, labels: pd.Series, task: Task) -> pd.Series:
    """Return labels of the target, written as those of the sources; codes become missing."""
    texts = hidden.map(lambda value: value.strip() if isinstance(value, str) else value)
    texts = texts.mask(texts.isin({*MISSING_CODES, ""} - set(labels.dropna().unique())))
    if types.is_numeric_dtype(labels) and not types.is_bool_dtype(labels):
        numbers, given = pd.to_numeric(texts, errors="coerce"), texts.dropna().astype(str)
        odd = given[numbers[given.index].isna()]
        if not odd.empty and task == "regression":
            numbers = numbers.astype(float).fillna(read_numbers(odd).reindex(numbers.index))
        return numbers.astype(object).where(numbers.notna(), texts)
    spelling = {str(each).casefold(): each for each in labels.dropna().unique()}
    return texts.map(lambda value: spelling.get(str(value).casefold(), value), na_action="ignore")


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


def _target_name(target: Any, column: pd.Series, sites: NDArray[np.object_]) -> str:
    """Return the name of the target, which may be given as a number."""
    names = sorted(set(sites))
    same = [v for v in column.unique() if type(v) is not str and v == target]  # 1 and 1.0
    wanted = str(same[0] if same else target)
    name = check_choice(_by_number(names).get(wanted, wanted), names, "site", DataError)
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
        labels = df[settings.label][outside]
        usable[outside], more = has_label(
            labels, sites[outside], drop=settings.missing_labels == "drop"
        )
        notes += more
    if settings.as_given:
        return np.flatnonzero(usable)
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
    if settings.target_labels == "use" and own.isna().all():
        raise DataError(
            f"no row of the target has a label in {name!r}, so there is none to use; fill some in, "
            f"or leave {settings.option('target_labels', 'use')} out"
        )
    labels = _typed_labels(column, settings, notes)
    given = labels.dropna().infer_objects()
    task = settings.task or task_of([given.to_numpy()])
    numeric = types.is_numeric_dtype(given) and not types.is_bool_dtype(given)
    if task != "classification" and not numeric and not types.is_bool_dtype(given):
        raise DataError(
            f"the label {name!r} is not numeric, so it cannot be a regression label; leave "
            f"{settings.option('task', 'regression')} out"
        )
    if task == "regression" and types.is_object_dtype(labels):
        labels = labels.where(labels.notna(), np.nan).astype(float)
    return labels, task


def _about_classes(labels: pd.Series, settings: TableSettings) -> list[str]:
    given = labels.dropna().infer_objects()
    classes = given.nunique()
    if classes < 3 or not types.is_numeric_dtype(given) or types.is_bool_dtype(given):
        return []
    return [f"the label {labels.name!r} is read as {classes} classes; {settings.quantity}"]


def _typed_labels(labels: pd.Series, settings: TableSettings, notes: list[str]) -> pd.Series:
    """Read text that is all numbers as numbers, and whole floats as integers."""
    given = labels.dropna().infer_objects()
    if types.is_object_dtype(given) or types.is_string_dtype(given):
        labels = _read_text(labels, given, settings, notes)
        given = labels.dropna()
    if types.is_float_dtype(given) and are_whole(given):
        labels = labels.astype("Int64")  # 0 and 1, not 0.0 and 1.0, in what is predicted
    return labels


def _read_text(
    labels: pd.Series, given: pd.Series, settings: TableSettings, notes: list[str]
) -> pd.Series:
    """Return labels as numbers, if all that are given are; as they are otherwise."""
    task = settings.task
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
            what, advice = "codes with leading zeros", settings.quantity
        raise DataError(
            f"the label {given.name!r} has {classes} different {what} in {len(given)} rows, too "
            f"many for classes; {advice}"
        )
    if code is not None and strange.empty and task is None:
        notes.append(
            f"the label {given.name!r} has leading zeros ({code!r}), so it is read as "
            f"{classes} classes; {settings.quantity}"
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


def _about_set_aside(own: pd.Series, labels: pd.Series, task: Task, settings: TableSettings) -> str:
    aside = f"{count(int(own.count()), 'label')} of the target set aside; "
    new = set(own.dropna()) - set(labels.dropna()) if task == "classification" else set()
    if new:
        shown = listed(sorted(map(str, new)), 4)
        return aside + f"they cannot be used as they are: no source has the class(es) {shown}"
    return aside + f"to use them: {settings.option('target_labels', 'use')}"


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
    sites: pd.Series,
    target: str,
    labels: pd.Series | None,
    task: Task | None,
    settings: TableSettings,
    codes: Mapping[Any, Sequence[str]],
) -> tuple[pd.DataFrame, Columns]:
    """Read all columns but site and label, and decide which of them are features."""
    features: dict[Any, pd.Series] = {}
    columns: list[Column] = []
    wanted = settings.features
    how: dict[str, Any] = {"task": task, "decimal": settings.decimal, "option": settings.option}
    never = dict.fromkeys(settings.drop, REQUESTED)
    never |= {settings.sample_weight: f"weight, {REQUESTED}"}
    identify = dict.fromkeys(settings.ids, f"identifier, {REQUESTED}")
    identify |= {settings.group: f"group, {REQUESTED}"}
    for name in df.columns:
        if name in (settings.site, settings.label):
            continue
        if name in never | identify:
            column, values = typed(df[name])
            column = replace(column, missing=float(values.isna().mean()))
            why = identify.get(name, never.get(name, ""))
            columns.append(column.left_out(why, identifier=name in identify))
            continue
        if wanted is not None and name not in wanted:
            continue
        dates = (
            settings.dates if isinstance(settings.dates, str) else (settings.dates or {}).get(name)
        )
        keep = name in settings.keep or wanted is not None
        column, values = learn(df[name], sites, target, labels, keep=keep, date_format=dates, **how)
        column = replace(column, missing_texts=(*column.missing_texts, *codes.get(name, ())))
        columns.append(column)
        if column.used:
            parts = column.expand(values)
            if clash := [each for each in parts if each != name and each in df.columns]:
                raise DataError(
                    f"column {clash[0]!r} would be made of the date {name!r}; rename it"
                )
            features |= parts
    others = [str(name) for name in df.columns if name in (settings.site, settings.label)]
    return pd.DataFrame(features, df.index), Columns.of(columns, others)


def _about_repeats(column: Column, rows: int, settings: TableSettings) -> str:
    """Ask whether rows with the same identifier belong together."""
    present = round((1 - column.missing) * rows)
    if column.distinct > _ROW_SHARE * present:
        return ""
    return (
        f"column {column.name!r} has {column.distinct} values in {present} rows; if rows with the "
        "same value belong together, as visits of a patient do, errors look too small and "
        f"intervals too narrow: give {settings.option('group', str(column.name))}"
    )


def _weights(weights: pd.Series) -> pd.Series:
    column, values = typed(weights)
    if column.kind != "number":
        raise DataError(
            f"column {column.name!r} has the weights of rows, but is not numeric; weights "
            "are numbers above 0"
        )
    return values
