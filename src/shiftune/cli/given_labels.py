"""Labels of some rows of the target, from a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from shiftune.cli.contradictions import check_rows
from shiftune.cli.job import TuneJob
from shiftune.cli.predictions import ROW, free_name
from shiftune.errors import DataError
from shiftune.spelling import alike
from shiftune.tables import read_as_written, read_file
from shiftune.tables.codes import without_zeros
from shiftune.tables.numbers import read_numbers
from shiftune.wording import listed

Key = tuple[str, ...]


def row_column(job: TuneJob) -> str:
    """Return the name of the column with the number of a row in the data file, from 0."""
    return free_name(
        ROW, [job.options.files.site_column, job.options.label, *job.table.columns.index]
    )


def read_given(path: Path, job: TuneJob) -> dict[int, Any]:
    """Return the labels in a file, by position among the target's rows.

    Rows are found by the identifiers of the run's table that the file has, or by the number of the
    row in the data file; other columns must not contradict those rows. Empty cells are left out.
    """
    label = job.options.label
    table = read_file(path, f"the label {label!r} and a column that identifies rows")
    if label not in table:
        near = alike(label, table.columns)
        raise DataError(
            f"{path} has no column {label!r}, which is the label; "
            + (f"did you mean {near[0]!r}?" if near else "name the column of the labels like this")
        )
    known = np.flatnonzero(table[label].notna())
    if not len(known):
        raise DataError(f"no row of {path} has a label in {label!r}; fill some in")
    names, keys, positions = _matched(path, table, known, job)
    whats = [_named(names, key) for key in keys]
    check_rows(path, table.iloc[known], whats, positions, job)
    texts = read_as_written(path, [label])[label].iloc[known].astype(str).str.strip()
    numbers = _numbers(table[label].iloc[known])
    given: dict[int, Any] = {}
    for what, position, text, value in zip(whats, positions, texts, numbers, strict=True):
        if _quantity(job):
            found = _checked(value, text, what, path)
        else:
            found = _class(text, what, path, job)
        if given.setdefault(position, found) != found:
            raise DataError(
                f"{what} has the labels {str(given[position])!r} and {str(found)!r} in {path}; "
                "keep one of them"
            )
    return given


def in_words(positions: Sequence[int], job: TuneJob) -> str:
    """Name rows of the target by their numbers in the data file."""
    rows = [str(job.table.target_rows[position]) for position in positions]
    return f"row{'s' * (len(rows) > 1)} {listed(rows, quoted=False)}"


# ---------------------------------------------------------------- rows


class _Rows:
    """Positions of rows by their identifiers, which spreadsheets may rob of leading zeros."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.exact: dict[Key, list[int]] = defaultdict(list)
        self.loose: dict[Key, list[int]] = defaultdict(list)
        for position, key in enumerate(keys):
            self.exact[key].append(position)
            self.loose[_loose(key)].append(position)

    def __getitem__(self, key: Key) -> list[int]:
        return self.exact.get(key) or self.loose.get(_loose(key), [])


def _matched(
    path: Path, table: pd.DataFrame, known: Any, job: TuneJob
) -> tuple[list[str], list[Key], list[int]]:
    """Return the columns that identify rows, their values, and the positions of the rows."""
    row = row_column(job)
    identifiers = [name for name in job.table.identifiers if name in table]
    numbered = [row] if row in table else []
    if not identifiers and not numbered:
        raise DataError(
            f"{path} does not identify its rows: it has no column "
            f"{_either([*job.table.identifiers, row])}; add {row!r}, the number of the row in "
            f"{job.options.files.of_target}, counted from 0"
        )
    own = job.identifiers.assign(**{row: job.table.target_rows})
    for names in (identifiers or numbered, [*identifiers, *numbered]):
        keys = _keys(read_as_written(path, names).iloc[known])
        rows = _Rows(_keys(own[names]))
        found = [rows[key] for key in keys]
        if all(len(positions) <= 1 for positions in found):
            break
    if unknown := [key for key, positions in zip(keys, found, strict=True) if not positions]:
        raise DataError(_about_unknown(path, names, unknown[0], job))
    for key, positions in zip(keys, found, strict=True):
        if len(positions) > 1:
            raise DataError(
                f"{_named(names, key)} in {path} may be any of the {in_words(positions, job)} of "
                f"{job.options.files.of_target}; add a column {row!r} with the number of the row "
                "there, counted from 0"
            )
    return names, keys, [positions[0] for positions in found]


def _about_unknown(path: Path, names: list[str], key: Key, job: TuneJob) -> str:
    """Explain why a row is none of the target's: it is another site's, or nobody's."""
    files, row, target = job.options.files, row_column(job), job.table.problem.target.name
    stored = [name for name in names if name != row]
    everything = files.as_written([*stored, files.site_column])
    if files.target_file is not None and row in names:  # numbers are those of the target's file
        everything = everything[everything[files.site_column] == files.target_name]
    everything[row] = range(len(everything))
    keys = _keys(everything[names])
    what = _named(names, key)
    if others := _Rows(keys)[key]:
        site = everything[files.site_column].iloc[others[0]]
        if job.table.problem.sample is not None and str(site).strip() == target:
            return (
                f"{what} in {path} was not among the rows that were drawn; give labels of rows in "
                "predictions.csv"
            )
        return (
            f"{what} in {path} is of site {str(site)!r}, not of {target!r}; only labels of "
            f"{target!r} update its predictor: leave the others out"
        )
    if names == [row]:
        return (
            f"{files.of_target} has no {what}, which {path} names; its rows are counted from 0 to "
            f"{len(keys) - 1}, the first one below the header being 0"
        )
    texts = {" ".join(each): each for each in _keys(job.identifiers[stored])} if stored else {}
    near = alike(" ".join(key[: len(stored)]), texts)
    return (
        f"{files.of_target} has no row with {what}, which {path} names; write identifiers as they "
        "are written there" + (f" (is it {_named(stored, texts[near[0]])}?)" if near else "")
    )


def _keys(frame: pd.DataFrame) -> list[Key]:
    texts = [frame[name].astype(str).str.strip() for name in frame]
    return list(zip(*texts, strict=True))


def _loose(key: Key) -> Key:
    return tuple(without_zeros(text.removesuffix(".0")) for text in key)


def _named(names: Sequence[str], key: Key) -> str:
    return " and ".join(
        f"{name} {text if text.isdigit() and name.startswith(ROW) else repr(text)}"
        for name, text in zip(names, key, strict=True)
    )


def _either(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))


# ---------------------------------------------------------------- labels


def _quantity(job: TuneJob) -> bool:
    return job.table.problem.task == "regression"


def _numbers(labels: pd.Series) -> pd.Series:
    if types.is_numeric_dtype(labels):
        return labels.astype(float)
    return read_numbers(labels.astype(str).str.strip())


def _checked(value: float, text: str, what: str, path: Path) -> float:
    if not np.isfinite(value):
        raise DataError(
            f"{what} has the label {text!r} in {path}, which is not a number; write a number "
            "there, or leave it empty"
        )
    return value


def _class(text: str, what: str, path: Path, job: TuneJob) -> Any:
    classes = job.table.problem.classes
    known = {_plain(str(each), classes): each for each in classes}
    if (found := known.get(_plain(text, classes))) is not None:
        return found
    near = alike(text, map(str, classes))
    raise DataError(
        f"{what} has the label {text!r} in {path}, which is none of the classes "
        f"{listed(map(str, classes), 8)}; "
        + (f"did you mean {near[0]!r}? Correct it" if near else "correct it")
        + ", or leave it empty"
    )


def _plain(text: str, classes: Any) -> str:
    """Return a class as text that does not depend on how numbers and truth values are written."""
    if classes.dtype.kind == "b":
        return text.lower()
    if classes.dtype.kind in "iuf":
        value = pd.to_numeric(text, errors="coerce")
        return text if pd.isna(value) else repr(float(value))
    return text.casefold()
