"""A table of all sites as named sites with columns, and a note of every decision.

`read_table` is the story: names are checked, sites and classes get one spelling, rows that cannot
be used are left out, then labels and columns are read. Details follow in this order; each adds
what it decided to a list of notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

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
    TableRows,
    as_text,
    is_code,
    kind_of,
    learn,
    python_option,
    question_about,
    typed,
)
from shiftune.columns._formats import (
    MISSING_CODES,
    PLAIN,
    TRUTH,
    NumberFormats,
    are_whole,
    as_numbers,
    check_date_format,
    distinct,
    first_code,
    read_numbers,
    stripped,
    without_zeros,
)
from shiftune.errors import DataError, SettingsError
from shiftune.problem._reading import (
    GivenSite,
    about_unlabelled,
    check_columns,
    check_names,
    check_roles,
    of_one_kind,
    site_names,
    split_by_site,
)
from shiftune.problem._site import MOST_CLASSES, sites_have, task_of

TargetLabels = Literal["hide", "use", "oracle"]

# Stands for all sites without any label, unless a site has this name.
UNLABELLED = "unlabelled"
# Several targets together are named by their names, up to so many.
MOST_NAMED = 3
# Density ratio, training and validation need a row each.
_FEWEST_ROWS = 3
# Codes for missing values that may be classes, too, unless the others are numbers.
_MAY_BE_CLASSES = frozenset(("-", "--", "\u2013", "\u2014", "*"))
# Different values per row above which rows with the same identifier are not worth a note.
_ROW_SHARE = 0.9
# Rows of a site from which on one copy of a column takes longer than a step per site and column.
_MANY_ROWS = 2_000


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Roles of columns, and how they are read; see `ShiftProblem.from_frame`."""

    site: Hashable
    target: Any
    label: Hashable | None = None  # without it the problem can only be diagnosed
    subject: Hashable | None = None
    sample_weight: Hashable | None = None
    task: Task | None = None
    features: Sequence[Hashable] | None = None
    keep: Collection[Hashable] = ()
    drop: Collection[Hashable] = ()
    ids: Collection[Hashable] = ()
    dates: str | Mapping[Any, str] | None = None
    missing: Mapping[Any, Any] | None = None
    target_labels: TargetLabels = "hide"
    missing_labels: Literal["error", "drop"] = "error"
    columns: Literal["read", "as given"] = "read"
    decimal: str = "."  # of the file
    option: Option = python_option

    @property
    def as_given(self) -> bool:
        """Whether nothing is decided."""
        return self.columns == "as given"

    @property
    def roles(self) -> dict[str, Hashable]:
        """Columns that are not features, by what they are."""
        names = ("site", "label", "subject", "sample_weight")
        return {n: value for n in names if (value := getattr(self, n)) is not None}

    @property
    def codes(self) -> dict[Any, list[str]]:
        """Values that stand for missing ones, as text, by column."""
        return {
            name: [str(value) for value in (values if types.is_list_like(values) else [values])]
            for name, values in (self.missing or {}).items()
        }

    @property
    def hidden_labels(self) -> str:
        """What to do with labels of the target that are set aside."""
        if types.is_list_like(self.target) and len(self.target) > 1:
            return "to use them, update each target by its own: search.at(site).update(X, y)"
        return f"to use them: {self.option('target_labels', 'use')}"


class ReadTable(NamedTuple):
    """Sites of a table, before they are checked; `columns` is None where nothing is decided."""

    sources: list[GivenSite]
    target: GivenSite
    columns: Columns | None
    task: Task | None
    notes: list[str]
    quiet: list[str]  # notes that surprise nobody
    targets: dict[str, NDArray[np.intp]]  # rows of each target, where `target` holds several


def read_table(df: pd.DataFrame, settings: TableSettings, notes: Sequence[str] = ()) -> ReadTable:
    """Read a table of all sites; `notes` are known about it already, and come first."""
    site, label, decisions, quiet = settings.site, settings.label, list(notes), []
    _check_settings(df, settings)
    df = df.copy(deep=False)
    if not df.index.is_unique:
        df = df.reset_index(drop=True)
    if not settings.as_given:
        _remove_codes(df, settings, decisions)
        if settings.sample_weight is not None:
            df[settings.sample_weight] = _weights(df[settings.sample_weight], settings)
        df[site] = in_one_spelling(df[site], f"the site column {site!r}", decisions)
    codes, names = site_names(df[site], f"the site column {site!r}")
    every = names[codes]
    targets = target_names(settings, df, every)
    target, sites = _as_one_site(targets, every)
    if label is not None and not settings.as_given:
        used = (sites != target) | (settings.target_labels == "use")
        df[label] = in_one_spelling(df[label], f"the label {label!r}", decisions, used)
    rows = _usable_rows(df, sites, target, settings, decisions)
    if len(rows) < len(df):
        df, sites, every = df.iloc[rows], sites[rows], every[rows]

    inside, task, columns = sites == target, settings.task, None
    if label is None:  # overlap needs no labels
        labels, task = pd.Series(0.0, df.index), task or "regression"
    elif settings.as_given:
        labels = _labels_as_given(df[label], inside, settings, decisions)
    else:
        labels, task = _read_labels(df[label], inside, settings, decisions)
    if settings.as_given:
        X = df.reindex(columns=_features(df, settings))  # names may be True and False
    else:
        used = None
        if label is not None:
            used = labels if settings.target_labels == "use" else labels.mask(inside)
        where, how = pd.Series(every, df.index, dtype=object), (settings.decimal, settings.option)
        everyone = TableRows(where, targets[0], used, task, *how, targets[1:])
        X, columns = _read_columns(df, everyone, settings)
        if used is not None:
            quiet = _about_labels(used, columns, sites, inside, task, settings)
    subject, weights = df.get(settings.subject), df.get(settings.sample_weight)
    stacked = GivenSite("", X, labels, rows, subject, weights)
    by_site = {part.name: part for part in split_by_site(stacked, sites)}
    of_target = by_site.pop(target)
    if label is None or settings.target_labels == "hide" or of_target.y.isna().all():
        of_target = of_target._replace(y=None)
    asked = task if label is None else settings.task
    # one pass over the rows: there may be thousands of targets
    where_each = pd.Series(every[inside]).groupby(every[inside]).indices
    places = {name: np.asarray(where_each[name]) for name in targets if name != target}
    return ReadTable(list(by_site.values()), of_target, columns, asked, decisions, quiet, places)


def with_target(df: pd.DataFrame, target: pd.DataFrame, settings: TableSettings) -> pd.DataFrame:
    """Return one table of the target's rows, which come first, and those of the sources."""
    site, name = settings.site, settings.target
    check_columns(target.columns, "the target's table")
    check_roles(df, settings.roles, settings.features or ())
    if lacking := [str(name) for name in _features(df, settings) if name not in target.columns]:
        raise DataError(f"the table of {name!r} lacks {listed(lacking)}, which the sources have")
    if not len(target):
        raise DataError(f"the table of {name!r} has no rows; it needs at least one")
    if name in set(df[site].astype(str)):
        check_names([name], name)
    of_target = target.reindex(columns=df.columns)
    of_target[site] = None
    others = f"sources of {name}"  # no name that the target itself can have
    df, n = df.copy(deep=False), len(of_target)
    for column in [] if settings.as_given else _features(df, settings):
        pair = of_target[column], df[column]
        if kind_of(pair[0]) == kind_of(pair[1]) or not all(side.count() for side in pair):
            continue
        # numbers and dates may be text in one of the tables, as in one of two files
        texts = pd.concat([*map(as_text, pair)], ignore_index=True)
        sites = pd.Series([*[name] * n, *df[site]]).astype(str)
        if typed(texts, TableRows(sites, name))[0].kind != "category":
            of_target[column], df[column] = texts[:n].to_numpy(), texts[n:].to_numpy()
    df, of_target = of_one_kind({others: df, name: of_target}).values()
    of_target[site] = name
    if settings.label is not None and of_target[settings.label].isna().all():
        # Whole numbers would become floats beside missing ones.
        of_target[settings.label] = pd.Series(None, of_target.index, dtype=object)
        df[settings.label] = df[settings.label].astype(object)
    return pd.concat([of_target, df], ignore_index=True)


def _features(df: pd.DataFrame, settings: TableSettings) -> list[Hashable]:
    """Return the names of the columns that may be features."""
    others = {*settings.roles.values(), *settings.drop}
    possible: list[Hashable] = [name for name in df.columns if name not in others]
    return possible if settings.features is None else list(settings.features)


def _check_settings(df: pd.DataFrame, settings: TableSettings) -> None:
    """Check that all columns exist, and that every column has at most one role."""
    check_choice(settings.target_labels, get_args(TargetLabels), "target_labels")
    check_choice(settings.missing_labels, ("error", "drop"), "missing_labels")
    check_choice(settings.columns, ("read", "as given"), "reading of columns")
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
        if isinstance(names, str) or not isinstance(names, Collection):
            raise SettingsError(f"{what} must be a list of columns; did you mean [{names!r}]?")
        for role, taken in settings.roles.items():
            if taken in names:
                option = settings.option(what, "").rstrip("=[]' ")
                raise SettingsError(
                    f"column {taken!r} is the {role.replace('_', ' ')}; leave it out of {option}"
                )
    if not isinstance(settings.missing, Mapping | None):
        raise SettingsError("missing must be a mapping from columns to codes, such as {'age': 999}")
    if not isinstance(settings.dates, str | Mapping | None):
        raise SettingsError("dates must be a format, or a mapping from columns to formats")
    dates = settings.dates if isinstance(settings.dates, Mapping) else {}
    asked = [settings.dates] if isinstance(settings.dates, str) else dates.values()
    for form in asked:
        check_date_format(form)
    check_roles(df, settings.roles, [*dates, *(name for names in lists.values() for name in names)])
    wanted, unwanted = {*settings.keep, *lists["features"]}, {*settings.drop, *settings.ids}
    if both := sorted(map(str, wanted & unwanted)):
        raise SettingsError(
            f"column {both[0]!r} is to be kept, and to be left out or an identifier; choose one"
        )


def _remove_codes(df: pd.DataFrame, settings: TableSettings, notes: list[str]) -> None:
    """Make the values missing that stand for missing ones."""
    for name, values in settings.codes.items():
        column = df[check_choice(name, df.columns, "column", DataError)]
        for value in values:
            hit = is_code(column, value)
            if not hit.any():
                raise DataError(f"column {name!r} has no value {value}, which is to be missing")
            df[name] = df[name].mask(hit)
            rows = count(int(hit.sum()), "row")
            notes.append(f"column {name!r}: {value} in {rows} counts as missing, as requested")


def in_one_spelling(
    column: pd.Series, what: str, notes: list[str], where: NDArray[np.bool_] | None = None
) -> pd.Series:
    """Remove spaces around texts; blank texts become missing.

    Of labels, spellings that differ by capitals become one class, and codes such as "?" missing:
    those that are `known` decide, and all others are written like them.
    """
    codes, texts = distinct(column)
    values = texts.to_list()
    if not any(isinstance(value, str) for value in values):
        return column
    plain = [value.strip() if isinstance(value, str) else value for value in values]
    deciding = codes if where is None else codes[where]
    deciding = deciding[deciding >= 0]
    sizes = np.bincount(deciding)
    rows = {code: int(sizes[code]) for code in pd.unique(deciding).tolist()}
    missing: frozenset[Any] = frozenset(("",))
    usual: dict[str, Any] = {}
    if where is not None:
        counts: Counter[Any] = Counter()
        for code, n in rows.items():
            counts[plain[code]] += n
        missing |= _missing_codes(counts)
        for value, _ in counts.most_common():
            usual.setdefault(str(value).casefold(), value)
    written = [
        None if value in missing else usual.get(str(value).casefold(), value) for value in plain
    ]
    changed = [code for code in rows if values[code] != written[code]]
    if joined := [code for code in changed if written[code] is not None]:
        how = "several spellings"
        if all(written[code] == plain[code] for code in joined):
            how = f"spaces in {count(sum(rows[code] for code in joined), 'row')}"
        read_as = [f"{values[code]!r} is read as {written[code]!r}" for code in joined]
        notes.append(f"{what} has {how}: {listed(read_as, quoted=False)}")
    if gone := [code for code in changed if written[code] is None]:
        shown = listed(values[code] for code in gone)
        in_rows = count(sum(rows[code] for code in gone), "row")
        notes.append(f"{what} is {shown} in {in_rows}, which counts as missing")
    if written == values:
        return column
    names = pd.Series([*written, None], dtype=object).to_numpy()
    return pd.Series(names[codes], column.index, dtype=object, name=column.name)


def _missing_codes(labels: Collection[Any]) -> frozenset[str]:
    """Return the codes that stand for missing labels, unless they may be classes (+ and -)."""
    others = {*labels} - MISSING_CODES - {""}
    numeric = as_numbers(pd.Series([*others], dtype=object)).notna().all()
    codes = MISSING_CODES if numeric else MISSING_CODES - _MAY_BE_CLASSES
    if len({*labels} - codes - {""}) < 2:
        codes = frozenset()
    return codes | (MISSING_CODES - {*labels})


def target_names(
    settings: TableSettings, df: pd.DataFrame, sites: NDArray[np.object_]
) -> list[str]:
    """Return the names of the targets, which may be given as numbers: 7 for 7.0, or for 007."""
    names, named, column = sorted(set(sites)), settings.target, df[settings.site]
    by_number: dict[str, str] = {}
    if all(name.removesuffix(".0").isdigit() for name in names):
        for name in names:
            other = by_number.setdefault(without_zeros(name.removesuffix(".0")), name)
            if other != name:
                raise DataError(
                    f"the sites {other!r} and {name!r} differ by leading zeros only; write them in "
                    "one way"
                )
    wanted = list(named) if types.is_list_like(named) else [named]
    if wanted == [UNLABELLED] and UNLABELLED not in names:
        wanted = _unlabelled(settings, df, sites)
    elif UNLABELLED in wanted and UNLABELLED not in names:
        raise SettingsError(f"{UNLABELLED!r} stands for all sites without labels; give it alone")
    if not wanted:
        raise SettingsError("there is no target; name at least one site")
    targets, others = [], [v for v in column.unique() if type(v) is not str]
    for site in wanted:
        same = [v for v in others if v == site]  # 1 and 1.0
        text = str(same[0] if same else site)
        name = by_number.get(without_zeros(text.removesuffix(".0")), text)
        targets.append(str(check_choice(name, names, "site", DataError)))
    if len(set(targets)) > 1 and settings.target_labels == "use":
        raise SettingsError(
            "labels of one target can be used in a search, not those of several; leave "
            f"{settings.option('target_labels', 'use')} out, and update each target's predictor "
            "by its labels: search.at(site).update(X, y), shiftune update"
        )
    check_names([name for name in names if name not in targets], listed(targets, 3, quoted=False))
    return sorted(set(targets))  # their order decides nothing


def _as_one_site(
    targets: Sequence[str], sites: NDArray[np.object_]
) -> tuple[str, NDArray[np.object_]]:
    """Name all targets together; return the name, and the site of every row with that name."""
    if len(targets) == 1:
        return targets[0], sites
    few = len(targets) <= MOST_NAMED
    name = listed(targets, quoted=False) if few else f"{len(targets)} sites"
    return name, np.where(pd.Index(sites).isin(targets), name, sites)


def _unlabelled(settings: TableSettings, df: pd.DataFrame, sites: NDArray[np.object_]) -> list[str]:
    """Return the sites without any label."""
    if settings.label is None:
        raise SettingsError(
            f"the target {UNLABELLED!r} stands for the sites without labels, and no label is given"
        )
    labels = df[settings.label]
    if not settings.as_given:
        labels = in_one_spelling(labels, "", [], np.ones(len(df), dtype=bool))
    labelled = labels.notna().groupby(sites).any()
    if labelled.all():
        raise DataError(
            f"every site has a label in {settings.label!r}, so none is {UNLABELLED}; name the "
            "sites to tune for"
        )
    return list(labelled.index[~labelled])


def _usable_rows(
    df: pd.DataFrame,
    sites: NDArray[np.object_],
    target: str,
    settings: TableSettings,
    notes: list[str],
) -> NDArray[np.intp]:
    """Return the numbers of the rows that have a label, if they need one, and a usable site."""
    usable, outside = np.ones(len(df), dtype=bool), sites != target
    if settings.label is not None:
        missing = outside & df[settings.label].isna().to_numpy()
        counts, how = Counter(sites[missing].tolist()), settings.missing_labels
        notes += about_unlabelled(settings.label, counts, Counter(sites) if counts else {}, how)
        usable = ~missing
    if settings.as_given:
        return np.flatnonzero(usable)
    sizes = pd.Series(sites[usable & outside]).value_counts(sort=False)
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
    """Return the labels and the task; the target's labels decide only if they are used.

    Otherwise they are left out, or read like those of the sources as the truth of an experiment.
    """
    name, of_target, others = column.name, column[inside].dropna(), column[~inside]
    use = settings.target_labels == "use"
    if others.isna().all():
        raise DataError(
            f"the label {name!r} is missing in all rows of all sources; is it the right column?"
        )
    if use and of_target.empty:
        raise DataError(
            f"no row of the target has a label in {name!r}, so there is none to use; fill some in, "
            f"or leave {settings.option('target_labels', 'use')} out"
        )
    values = (column if use else others).dropna().infer_objects()
    if TRUTH.issuperset(values.unique()):
        values = values.str.capitalize() == "True"
    if types.is_object_dtype(values) or types.is_string_dtype(values):
        values = _read_text(values, settings, notes)
    task = settings.task or task_of([values.to_numpy()])
    if task != "classification" and not types.is_numeric_dtype(values):
        raise DataError(
            f"the label {name!r} is not numeric, so it cannot be a regression label; leave "
            f"{settings.option('task', 'regression')} out"
        )
    labels = _as_whole(values).reindex(column.index)
    if use or of_target.empty:
        return labels, task
    if TRUTH.issuperset(of_target.unique()):
        of_target = of_target.str.capitalize() == "True"
    if types.is_numeric_dtype(labels) and not types.is_numeric_dtype(of_target):
        numbers = read_numbers(of_target.astype(str), settings.decimal)
        of_target = numbers.astype(object).where(numbers.notna(), of_target)
    of_target = _as_whole(of_target.infer_objects())
    if settings.target_labels == "oracle":
        labels = labels.astype(object)
        labels[of_target.index] = of_target
        return labels.infer_objects(), task
    advice = settings.hidden_labels
    if task == "classification" and (new := {*of_target.unique()} - {*values.unique()}):
        shown = listed(sorted(map(str, new)), 4)
        advice = f"they cannot be used as they are: no source has the class(es) {shown}"
    notes.append(f"{count(len(of_target), 'label')} of the target set aside; {advice}")
    return labels, task


def _labels_as_given(
    column: pd.Series, inside: NDArray[np.bool_], settings: TableSettings, notes: list[str]
) -> pd.Series:
    """Return labels of which whole numbers are integers; hidden ones make no others fractions."""
    if (hidden := int(column[inside].count())) and settings.target_labels == "hide":
        notes.append(f"{count(hidden, 'label')} of the target set aside; {settings.hidden_labels}")
    parts = (column[rows].dropna().astype(object) for rows in (inside, ~inside))
    whole = [_as_whole(part.infer_objects()).astype(object) for part in parts]
    labels: pd.Series = pd.concat(whole).reindex(column.index)
    return labels


def _as_whole(labels: pd.Series) -> pd.Series:
    """Return whole numbers as integers: 0 and 1, not 0.0 and 1.0, in what is predicted."""
    numeric = types.is_float_dtype(labels) or types.is_integer_dtype(labels)
    return labels.astype("Int64") if numeric and are_whole(labels) else labels


def _read_text(values: pd.Series, settings: TableSettings, notes: list[str]) -> pd.Series:
    """Return labels as numbers, if all are; as they are otherwise.

    Numbers with decimal commas, currencies or units may be classes, too, unless they are many.
    """
    name, task = values.name, settings.task
    formats = NumberFormats(decimal=settings.decimal)
    texts = values
    if task != "classification" and types.infer_dtype(values) == "string":
        texts = stripped(values)
        formats.add(texts)
    written = formats.decided()
    numbers = written.read(texts)
    if (
        written != PLAIN
        and task is None
        and task_of([numbers.dropna().to_numpy()]) == "classification"
    ):
        written, numbers = PLAIN, PLAIN.read(values)
    strange, code = values[numbers.isna()], None
    if task != "regression" and written == PLAIN:
        code = first_code(values.unique())
    if strange.empty and code is None:
        if written != PLAIN:
            example = next(iter(formats.odd.texts))
            notes.append(f"the label {name!r} has numbers with {written.words} ({example!r})")
        return numbers
    if 0 < len(strange) <= 0.1 * len(values):
        shown = ", ".join(repr(value) for value in strange.unique()[:5])
        raise DataError(
            f"the label {name!r} is numeric, but text in {len(strange)} row(s): {shown}; "
            "write numbers there, or leave them empty, which counts as missing"
        )
    quantity = f"if it is a quantity, use {settings.option('task', 'regression')}"
    classes = values.nunique()
    if classes > max(0.5 * len(values), MOST_CLASSES):
        what, advice = "texts", "is it the right column?"
        if strange.empty:
            what, advice = "codes with leading zeros", quantity
        raise DataError(
            f"the label {name!r} has {classes} different {what} in {len(values)} rows, too "
            f"many for classes; {advice}"
        )
    if strange.empty and task is None:
        notes.append(
            f"the label {name!r} has leading zeros ({code!r}), so it is read as "
            f"{classes} classes; {quantity}"
        )
    return values


def _read_columns(
    df: pd.DataFrame, rows: TableRows, settings: TableSettings
) -> tuple[pd.DataFrame, Columns]:
    """Read all columns but site and label, and decide which of them are features."""
    features: dict[Any, pd.Series] = {}
    columns: list[Column] = []
    never = dict.fromkeys(settings.drop, REQUESTED)
    never |= {settings.sample_weight: f"weight, {REQUESTED}"}
    never |= dict.fromkeys(settings.ids, f"identifier, {REQUESTED}")
    never |= {settings.subject: f"subject, {REQUESTED}"}
    others = [str(name) for name in (settings.site, settings.label) if name in df.columns]
    wanted, dates = settings.features, settings.dates
    for name in df.columns.drop([settings.site, settings.label], errors="ignore"):
        if name in never:
            try:
                column, values = typed(df[name])
                column = replace(column, distinct=int(values.nunique()))
            except DataError:  # what is left out may hold anything
                column, values = Column(name=name, kind="category"), df[name]
            identifier = name in (*settings.ids, settings.subject)
            column = replace(column, missing=float(values.isna().mean()))
            columns.append(column.left_out(never[name], identifier=identifier))
            continue
        if wanted is not None and name not in wanted:
            others.append(str(name))
            continue
        date_format = dates.get(name) if isinstance(dates, Mapping) else dates
        keep = name in settings.keep or wanted is not None
        column, values = learn(df[name], rows, keep=keep, date_format=date_format)
        codes = (*column.missing_texts, *settings.codes.get(name, ()))
        columns.append(replace(column, missing_texts=codes))
        if column.used:
            parts = column.expand(values)
            if clash := [part for part in parts if part != name and part in df.columns]:
                raise DataError(
                    f"column {clash[0]!r} would be made of the date {name!r}; rename it"
                )
            features |= parts
    formats = {column.name: column.date_format for column in columns}
    if isinstance(dates, str) and dates not in formats.values():
        raise DataError(f"no column has dates written as {dates}; formats look like %d/%m/%Y")
    for name, date_format in dates.items() if isinstance(dates, Mapping) else ():
        if formats.get(name, date_format) != date_format:
            raise DataError(f"column {name!r} has no dates written as {date_format}")
    read = Columns.of(columns, others)
    if not read:
        raise DataError("no column is left to learn from: " + "; ".join(read.decisions[:4]))
    # Into small sites a copy of all numbers in one block is divided faster, into large ones not.
    small = len(df) < _MANY_ROWS * len(rows.sizes)
    return pd.DataFrame(features, df.index, copy=small), read


def _weights(weights: pd.Series, settings: TableSettings) -> pd.Series:
    rows = TableRows(pd.Series("", weights.index), decimal=settings.decimal)
    column, values = typed(weights, rows)
    if column.kind != "number":
        raise DataError(
            f"column {column.name!r} has the weights of rows, but is not numeric; weights "
            "are numbers above 0"
        )
    return values


def _about_labels(
    labels: pd.Series,
    columns: Columns,
    sites: NDArray[np.object_],
    inside: NDArray[np.bool_],
    task: Task | None,
    settings: TableSettings,
) -> list[str]:
    """Return notes on labels, and on rows that may belong together."""
    notes: list[str] = []
    if task == "classification":
        notes += _about_lacking_classes(labels[~inside], sites[~inside])
    elif question := question_about(labels, settings.option):
        notes.append(f"the label {settings.label!r} has {question}")
    if settings.target_labels == "use":
        notes.append(_about_used(labels[inside]))
    for name in columns.identifiers if settings.subject is None else ():
        column = columns.left_out[name]
        present = round((1 - column.missing) * len(sites))
        if 0 < column.distinct <= _ROW_SHARE * present:
            notes.append(
                f"column {column.name!r} has {column.distinct} values in {present} rows; if rows "
                "with the same value belong together, as visits of a patient do, errors look too "
                f"small and intervals too narrow: give {settings.option('subject', name)}"
            )
    return notes


def _about_used(labels: pd.Series) -> str:
    labelled, rows = int(labels.count()), count(len(labels), "row")
    whose = f"the labels of {labelled:,} of {rows} of the target are used"
    then = "these rows should be a random sample"
    if labelled == len(labels):
        whose = f"all {rows} of the target have labels, which are used"
        then = "its predictions for these rows do not show how good it is"
    return (
        f"{whose}: all evaluate the trials (with a risk estimator other than adjusted, some do and "
        f"the rest train the trials' models), and all train the final model; {then}"
    )


def _about_lacking_classes(labels: pd.Series, sites: NDArray[np.object_]) -> list[str]:
    """Note the sources in which a class does not occur."""
    (at_site, names), (codes, classes) = pd.factorize(sites, sort=True), pd.factorize(labels)
    has = np.zeros((len(names), len(classes) + 1), dtype=bool)  # the last one is missing
    has[at_site, codes] = True
    notes = []
    for site, there in zip(names, has, strict=True):
        if lacking := sorted(map(str, classes[~there[:-1]])):
            what = "class" if len(lacking) == 1 else "classes"
            notes.append(f"site {site!r} has no row of {what} {listed(lacking)}")
    if len(notes) > 4:
        notes = [*notes[:3], f"{len(notes) - 3} more sites lack a class"]
    return notes
