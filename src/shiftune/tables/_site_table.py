"""A problem from a table as it comes from a file, with a note of every decision."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._names import Task
from shiftune._wording import check_choice, count, listed
from shiftune.errors import DataError, SettingsError
from shiftune.problem import ShiftProblem
from shiftune.problem._large import LabelRules, PartsHere, SampledParts, count_parts, draw
from shiftune.problem._reading import (
    check_names,
    check_roles,
    has_label,
    read_sites,
    site_names,
    split_by_site,
)
from shiftune.problem._site import MOST_CLASSES, task_of
from shiftune.tables._columns import (
    ReadColumn,
    codes_by_column,
    question_about,
    read_column,
    typed,
    without_codes,
)
from shiftune.tables._files import (
    FILE_NAME,
    LargeFile,
    files_at,
    joined,
    names_of,
    read_as_written,
    read_one,
)
from shiftune.tables._formats import (
    MISSING_CODES,
    PLAIN,
    NumberFormats,
    are_whole,
    as_numbers,
    distinct,
    first_code,
    in_one_spelling,
    on_distinct,
    without_spaces,
    without_zeros,
)
from shiftune.tables._schema import Schema

# Codes for missing values that may be classes, too, unless the others are numbers.
MAY_BE_CLASSES = frozenset(("-", "--", "\u2013", "\u2014", "*"))
QUANTITY = "if it is a quantity, use --task regression"


def read_labels(
    column: pd.Series,
    inside: NDArray[np.bool_],
    task: Task | None,
    *,
    use_target_labels: bool = False,
) -> tuple[pd.Series, Task, list[str]]:
    """Return the labels (the target's only if they are used), the task, and notes.

    Parameters
    ----------
    column : Series of n values
    inside : bool array of shape (n,)
        Which rows are the target's.
    task : {"classification", "regression"}, optional
        Default: decided by the labels.
    use_target_labels : bool
        Whether labels of the target are used; otherwise they are set aside.
    """
    name = str(column.name)
    own, others = column[inside], column[~inside]
    if others.isna().all():
        raise DataError(
            f"the label {name!r} is missing in all rows of all sources; is it the right column?"
        )
    if use_target_labels and own.isna().all():
        raise DataError(
            f"no row of the target has a label in {name!r}, so there is none to use; fill some in, "
            "or leave --use-target-labels out"
        )
    labels = column if use_target_labels else column.mask(pd.Series(inside, column.index))
    labels, notes = _typed(labels, task)
    given = labels.dropna().infer_objects()
    decided = task or task_of([given.to_numpy()])
    if decided == "classification":
        notes += _about_classes(given, task)
    elif not types.is_numeric_dtype(given) or types.is_bool_dtype(given):
        raise DataError(
            f"the label {name!r} is not numeric, so it cannot be a regression label; leave "
            "--task regression out"
        )
    if use_target_labels:
        notes.insert(0, _about_used(own))
    elif own.notna().any():
        classes = decided == "classification"
        new = set(own.dropna().unique()) - set(others.dropna().unique()) if classes else set()
        notes.insert(0, _about_set_aside(own, new))
    return labels, decided, notes


def _typed(labels: pd.Series, task: Task | None) -> tuple[pd.Series, list[str]]:
    """Read text that is all numbers as numbers, and whole floats as integers."""
    notes: list[str] = []
    given = labels.dropna().infer_objects()
    if types.is_object_dtype(given) or types.is_string_dtype(given):
        labels, notes = _read_text(labels, given, task)
        given = labels.dropna()
    if types.is_float_dtype(given) and are_whole(given):
        labels = labels.astype("Int64")  # 0 and 1, not 0.0 and 1.0, in what is predicted
    return labels, notes


def codes_as_missing(labels: pd.Series, what: str) -> tuple[pd.Series, list[str]]:
    """Take "?" and other codes for missing, with a note, unless they may be classes.

    >>> found, notes = codes_as_missing(pd.Series(["1", "0", "?"]), "the label 'ill'")
    >>> found.isna().sum().item(), notes
    (1, ["the label 'ill' is '?' in 1 row, which counts as missing"])
    >>> codes_as_missing(pd.Series(["+", "-"]), "the label 'ill'")[1]
    []
    """
    given = labels.dropna()
    numeric = as_numbers(distinct(given[~given.isin(MISSING_CODES)])[1]).notna().all()
    codes = given.isin(MISSING_CODES if numeric else MISSING_CODES - MAY_BE_CLASSES)
    if not codes.any() or given[~codes].nunique() < 2:
        return labels, []
    rows, shown = count(int(codes.sum()), "row"), listed(given[codes].unique())
    return labels.where(~codes.reindex(labels.index, fill_value=False)), [
        f"{what} is {shown} in {rows}, which counts as missing"
    ]


def _quantities(given: pd.Series, task: Task | None) -> tuple[pd.Series, str] | None:
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
    return numbers, f"the label {given.name!r} has numbers with {written.words} ({example!r})"


def _read_text(
    labels: pd.Series, given: pd.Series, task: Task | None
) -> tuple[pd.Series, list[str]]:
    if found := _quantities(given, task):
        numbers, note = found
        return numbers.reindex(labels.index), [note]
    strange = given[on_distinct(given, as_numbers).isna()]
    code = None if task == "regression" else first_code(given.unique())
    if strange.empty and code is None:
        return pd.to_numeric(labels, errors="coerce"), []
    _check_text(given, strange)
    if code is None or len(strange) or task is not None:
        return labels, []
    return labels, [
        f"the label {given.name!r} has leading zeros ({code!r}), so it is read as "
        f"{given.nunique()} classes; {QUANTITY}"
    ]


def _check_text(given: pd.Series, strange: pd.Series) -> None:
    if 0 < len(strange) <= 0.1 * len(given):
        shown = ", ".join(repr(value) for value in strange.unique()[:5])
        raise DataError(
            f"the label {given.name!r} is numeric, but text in {len(strange)} row(s): {shown}; "
            "write numbers there, or leave them empty, which counts as missing"
        )
    classes = given.nunique()
    if classes > max(0.5 * len(given), MOST_CLASSES):
        what, advice = (
            ("texts", "is it the right column?")
            if len(strange)
            else ("codes with leading zeros", QUANTITY)
        )
        raise DataError(
            f"the label {given.name!r} has {classes} different {what} in {len(given)} rows, too "
            f"many for classes; {advice}"
        )


def _about_classes(given: pd.Series, task: Task | None) -> list[str]:
    classes = given.nunique()
    whole_numbers = types.is_numeric_dtype(given) and not types.is_bool_dtype(given)
    if task is None and whole_numbers and classes > 2:
        return [f"the label {given.name!r} is read as {classes} classes; {QUANTITY}"]
    return []


def _about_set_aside(own: pd.Series, new_classes: set[object]) -> str:
    aside = f"the labels of {_rows(own.count())} of the target are set aside and never used; "
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
            f"all {_rows(known)} of the target have labels, which are used: {how}; its "
            "predictions for these rows do not show how good it is"
        )
    return (
        f"the labels of {known} of {_rows(len(own))} of the target are used: {how}; these rows "
        "should be a random sample"
    )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def lacking_classes(labels: pd.Series, groups: NDArray[np.object_]) -> list[str]:
    """Note the sources in which a class does not occur."""
    given = labels.notna().to_numpy()
    by_site = pd.crosstab(groups[given], labels[given].astype(str).to_numpy())
    notes = []
    for site, counts in by_site.iterrows():
        lacking = [str(label) for label, count in counts.items() if count == 0]
        if lacking:
            classes = "class" if len(lacking) == 1 else "classes"
            notes.append(f"site {site!r} has no row of {classes} {listed(lacking)}")
    if len(notes) > 4:
        notes = [*notes[:3], f"{len(notes) - 3} more sites lack a class"]
    return notes


NEEDED = "a table with a site column"


class SampledFiles(NamedTuple):
    """Rows that were drawn.

    Attributes
    ----------
    table : DataFrame of n rows
    rows : array of shape (n,)
        Their numbers in the table of all rows.
    drawn : SampledParts
    """

    table: pd.DataFrame
    rows: NDArray[np.intp]
    drawn: SampledParts


@dataclass(frozen=True)
class SiteFiles:
    """Where the rows of the sites are.

    Parameters
    ----------
    data : Path
        File or pattern with the rows of all sites, or of all sources.
    target_file : Path, optional
        File with the rows of the target, which come first in the table: they keep their numbers.
        A column that it lacks, such as the label, is missing at the target.
    site : str, optional
        Column with the site of each row, which the target's file need not have. Without it every
        file is a site, called like the file.
    target : str, optional
        Site to tune for. Default: the site of the target's file.
    """

    data: Path
    target_file: Path | None = None
    site: str | None = None
    target: str | None = None

    @property
    def site_column(self) -> str:
        """Name of the column of the sites in the table."""
        return FILE_NAME if self.site is None else self.site

    @property
    def of_target(self) -> Path:
        """File with the rows of the target."""
        return self.data if self.target_file is None else self.target_file

    @cached_property
    def target_name(self) -> str:
        """The site to tune for."""
        if self.target_file is None:
            if self.target is None:
                raise SettingsError("--target is missing: name the site to tune for")
            return self.target
        named = self._sites_in(self.target_file)
        if len(named) > 1:
            raise DataError(
                f"{self.target_file} has rows of {count(len(named), 'site')}, {listed(named)}, but "
                "is the file of the target alone"
            )
        if self.target is None:
            return named[0] if named else names_of([self.target_file])[0]
        if named and named[0] != self.target:
            raise DataError(
                f"the rows of {self.target_file} are of site {named[0]!r}, and the target is "
                f"{self.target!r}; correct one of them, or leave --target out"
            )
        return self.target

    def _sites_in(self, path: Path) -> list[str]:
        if self.site is None:
            return []
        written = read_as_written(path, [self.site])[self.site]
        return list(written.dropna().astype(str).str.strip().replace("", None).dropna().unique())

    def read(self) -> pd.DataFrame:
        """Return the rows of all sites, those of the target's own file first."""
        return self._joined({file: read_one(file) for file in self._files})

    def sample(
        self,
        most_rows: int,
        labels: LabelRules | None,
        group: str | None = None,
        random_state: int = 0,
    ) -> SampledFiles | None:
        """Draw rows of every site, if there are more than wanted; return None otherwise."""
        large = {file: LargeFile(file) for file in self._files}
        if sum(file.row_bound for file in large.values()) <= most_rows:
            return None
        origin: list[Path] = []

        def read(columns: Sequence[Hashable] | None) -> Iterator[pd.DataFrame]:
            origin.clear()
            for path, file in large.items():
                for part in file.parts(None if columns is None else [*map(str, columns)]):
                    origin.append(path)
                    yield self._with_site(part, path)

        names = dict.fromkeys(name for file in large.values() for name in file.file.names)
        parts = PartsHere([*names, *([FILE_NAME] if self.site is None else [])], read)
        counted = count_parts(parts, self.site_column, labels)
        if counted.rows <= most_rows:
            return None
        drawn = draw(parts, counted, self.site_column, most_rows, None, labels, group, random_state)
        of_file: dict[Path, list[pd.DataFrame]] = {path: [] for path in large}
        for path, table in zip(origin, drawn.tables, strict=True):
            of_file[path].append(table)
        tables = {path: large[path].typed(own) for path, own in of_file.items()}
        rows = np.concatenate([table.index.to_numpy() for table in drawn.tables])
        return SampledFiles(self._joined(tables), rows, drawn)

    @property
    def _files(self) -> list[Path]:
        """All files, that of the target first."""
        files = files_at(self.data)
        if self.site is None and self.target_file is None and len(files) == 1:
            raise SettingsError(
                f"--site is missing: name the column of {self.data} with the site of each row "
                "(without it every file is a site, and this is one file)"
            )
        return [*([] if self.target_file is None else files_at(self.target_file)), *files]

    def _with_site(self, part: pd.DataFrame, path: Path) -> pd.DataFrame:
        """Return rows of a file with their site, without spaces around it."""
        if self.target_file is not None and path in files_at(self.target_file):
            return part.assign(**{self.site_column: self.target_name})
        if self.site is None:
            files = files_at(self.data)
            return part.assign(**{FILE_NAME: names_of(files)[files.index(path)]})
        if self.site not in part or not types.is_string_dtype(part[self.site]):
            return part
        texts = part[self.site].str.strip()
        return part.assign(**{self.site: texts.mask(texts == "")})

    def _joined(self, tables: Mapping[Path, pd.DataFrame]) -> pd.DataFrame:
        files = files_at(self.data)
        table = joined(self.data, {file: tables[file] for file in files}, NEEDED, self.site is None)
        if len(files) > 1 and self.site not in (None, *table):
            raise DataError(
                f"the files {self.data} have no column {self.site!r}; if every file is a site, "
                "leave --site out"
            )
        if self.target_file is None:
            return table
        if self.site_column in table:  # otherwise its name is wrong, which is reported later
            self._check_sources(table)
        mine = {file: tables[file] for file in files_at(self.target_file)}
        own = joined(self.target_file, mine, "the rows of the target", name_files=False)
        own = own.assign(**{self.site_column: self.target_name})
        names = [*table, *(name for name in own if name not in table)]
        return pd.concat([own, table], ignore_index=True)[names]

    def _check_sources(self, table: pd.DataFrame) -> None:
        sites = site_names(table[self.site_column].dropna(), f"the column {self.site_column!r}")
        if n := int((sites == self.target_name).sum()):
            raise DataError(
                f"{self.data} has {count(n, 'row')} of the target {self.target_name!r} too; leave "
                "them out there, or in --target-file, or give the target another name"
            )

    def as_written(
        self, columns: Sequence[str], rows: NDArray[np.intp] | None = None
    ) -> pd.DataFrame:
        """Return some columns of the table that `read` returns, with their values as written.

        With `rows`, sorted numbers of rows, only these are returned.
        """
        if self.target_file is None:
            return read_as_written(self.data, columns, rows)
        own = read_as_written(self.target_file, columns)
        if self.site_column in own:
            own = own.assign(**{self.site_column: self.target_name})
        if rows is None:
            others = read_as_written(self.data, columns)
        else:
            before = rows < len(own)
            others = read_as_written(self.data, columns, rows[~before] - len(own))
            own = own.iloc[rows[before]]
        return pd.concat([own, others], ignore_index=True)

    @property
    def notes(self) -> list[str]:
        """What was decided without being asked for."""
        if self.site is not None:
            return []
        own = [] if self.target_file is None else [self.target_name]
        shown = listed([*own, *names_of(files_at(self.data))], 6)
        return [f"without --site, every file is a site and has its name: {shown}"]

    def __str__(self) -> str:
        apart = "" if self.target_file is None else f", and {self.target_file} for the target"
        return f"{self.data}{apart}"


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
