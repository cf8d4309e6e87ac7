"""The label column of a file: classes or quantities, and whether the target's labels are used."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune.errors import DataError
from shiftune.names import Task
from shiftune.problem.labels import MOST_CLASSES, task_of
from shiftune.tables.codes import are_whole, first_code
from shiftune.tables.distinct import distinct, on_distinct
from shiftune.tables.numbers import MISSING_CODES, PLAIN, NumberFormats, as_numbers
from shiftune.wording import count, listed

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
