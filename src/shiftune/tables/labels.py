"""The label column of a file: which rows have one, and what is set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pandas.api import types

from shiftune.errors import ProblemError
from shiftune.problem.labels import MOST_CLASSES, Task, task_of
from shiftune.tables.codes import first_code
from shiftune.tables.whole_numbers import are_whole
from shiftune.wording import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_labels(
    column: pd.Series,
    inside: NDArray[np.bool_],
    task: Task | None,
    *,
    use_target_labels: bool = False,
) -> tuple[pd.Series, Task, list[str]]:
    """Return the labels, those of the target only if they are to be used, the task, and notes.

    Parameters
    ----------
    column : Series of n values
    inside : bool array of shape (n,)
        Which rows are the target's.
    task : {"classification", "regression"}, optional
        Default: told from the labels.
    use_target_labels : bool
        Whether labels that the target has are used; otherwise they are set aside.
    """
    name = str(column.name)
    if column[~inside].isna().all():
        raise ProblemError(
            f"the label {name!r} is missing in all rows of all sources; is it the right column?"
        )
    own = column[inside]
    if use_target_labels and own.isna().all():
        raise ProblemError(
            f"no row of the target has a label in {name!r}, so there is none to use; fill some in, "
            "or leave --use-target-labels out"
        )
    notes = []
    labels = column if use_target_labels else column.mask(pd.Series(inside, column.index))
    given = labels.dropna().infer_objects()
    if types.is_object_dtype(given) or types.is_string_dtype(given):
        numbers = pd.to_numeric(given, errors="coerce")
        code = None if task == "regression" else first_code(given)
        if code is not None:
            notes += _about_codes(given, code, task)
        elif numbers.notna().all():  # the text stood in rows that are set aside
            labels = pd.to_numeric(labels, errors="coerce")
            given = numbers
        if not types.is_numeric_dtype(given):
            _check_text(given, name)
    if types.is_float_dtype(given) and are_whole(given):
        labels = labels.astype("Int64")  # 0 and 1, not 0.0 and 1.0, in what is predicted
        given = labels.dropna()
    decided = task or task_of([given.to_numpy()])
    if decided == "classification":
        notes += _about_classes(given, task)
    elif not types.is_numeric_dtype(given) or types.is_bool_dtype(given):
        raise ProblemError(f"the label {name!r} holds no numbers, so it has classes to predict")
    if use_target_labels:
        notes.insert(0, _about_used(own))
    elif own.notna().any():
        classes = decided == "classification"
        new = set(own.dropna()) - set(column[~inside].dropna()) if classes else set()
        notes.insert(0, _about_set_aside(own, new))
    return labels, decided, notes


def _about_set_aside(own: pd.Series, new_classes: set[object]) -> str:
    said = f"the labels of {_rows(own.count())} of the target are set aside and never used; "
    if new_classes:
        shown = ", ".join(sorted(map(repr, new_classes))[:4]) + ", ..." * (len(new_classes) > 4)
        return said + f"as they are they could not be: no source has the class(es) {shown}"
    return said + "tune uses them with --use-target-labels"


def _about_used(own: pd.Series) -> str:
    known = int(own.count())
    how = (
        "all judge the trials (with a risk estimator other than adjusted some do, and the others "
        "train the trials' models), and all train the final model"
    )
    if known == len(own):
        return (
            f"all {_rows(known)} of the target have labels, which are used: {how}; its "
            "predictions for them say nothing of how good it is"
        )
    return (
        f"the labels of {known} of {_rows(len(own))} of the target are used: {how}; these rows "
        "should have been drawn at random"
    )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _check_text(given: pd.Series, name: str) -> None:
    strange = given[pd.to_numeric(given, errors="coerce").isna()]
    if 0 < len(strange) <= 0.1 * len(given):
        shown = ", ".join(repr(value) for value in strange.unique()[:5])
        raise ProblemError(
            f"the label {name!r} holds numbers, but also text in {len(strange)} row(s): {shown}; "
            "write numbers there, or nothing, which counts as missing"
        )
    if given.nunique() > max(0.5 * len(given), MOST_CLASSES):
        what, advice = (
            ("texts", "is it the right column?")
            if len(strange)
            else ("codes with leading zeros", "if it is a quantity say --task regression")
        )
        raise ProblemError(
            f"the label {name!r} has {given.nunique()} different {what} in {len(given)} rows, too "
            f"many for classes; {advice}"
        )


def _about_codes(given: pd.Series, code: str, task: Task | None) -> list[str]:
    if task is not None or pd.to_numeric(given, errors="coerce").isna().any():
        return []
    return [
        f"the label {given.name!r} has leading zeros ({code!r}), so it is read as "
        f"{given.nunique()} classes; if it is a quantity say --task regression"
    ]


def _about_classes(given: pd.Series, task: Task | None) -> list[str]:
    classes = given.nunique()
    whole_numbers = types.is_numeric_dtype(given) and not types.is_bool_dtype(given)
    if task is None and whole_numbers and classes > 2:
        return [
            f"the label {given.name!r} is read as {classes} classes; if it is a quantity say "
            "--task regression"
        ]
    return []


def lacking_classes(labels: pd.Series, groups: NDArray[np.object_]) -> list[str]:
    """Note the sources in which a class does not occur."""
    given = labels.notna().to_numpy()
    by_site = pd.crosstab(groups[given], labels[given].astype(str).to_numpy())
    notes = []
    for site, counts in by_site.iterrows():
        lacking = [str(label) for label, count in counts.items() if count == 0]
        if lacking:
            one = len(lacking) == 1
            notes.append(
                f"site {site!r} has no row of class{'' if one else 'es'} {listed(lacking)}"
            )
    if len(notes) > 4:
        notes = [*notes[:3], f"{len(notes) - 3} more sites lack a class"]
    return notes
