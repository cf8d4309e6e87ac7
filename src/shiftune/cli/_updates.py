"""Updates of a result by labels: numbered states in its folder."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from shiftune._files import atomic_write
from shiftune._wording import alike, count, listed, number
from shiftune.cli._job import TuneJob
from shiftune.cli._records import (
    FORMAT,
    PREDICTIONS,
    ROW,
    estimate_record,
    free_name,
    read_json,
    records,
    risk_record,
    write_json,
    writing_to,
)
from shiftune.effects._site_effects import LEAST_LIKELY
from shiftune.errors import DataError
from shiftune.models import save_model
from shiftune.predictor._ensemble import TableModel
from shiftune.problem._columns import ColumnKind
from shiftune.problem._site import Features, rows_of
from shiftune.risk import by_group, estimate
from shiftune.risk._result import Estimate, RiskEstimate
from shiftune.search._updating import Updated
from shiftune.tables import read_as_written, read_file
from shiftune.tables._formats import read_numbers, without_zeros
from shiftune.tables._schema import Schema

# Rows and columns that an error names.
MOST_NAMED = 2
# Relative difference of two numbers that are the same, as spreadsheets write them.
SAME = 1e-5


def check_rows(
    path: Path, given: pd.DataFrame, names: Sequence[str], positions: Sequence[int], job: TuneJob
) -> None:
    """Raise an error where columns of a file contradict the table.

    A file whose labels were shifted or sorted without its other columns still identifies rows.
    Empty cells, rounded numbers and dates in another format contradict nothing.

    Parameters
    ----------
    path : Path
        Of the file with labels.
    given : DataFrame of m rows
        Its rows with a label.
    names : m texts
        Each names a row.
    positions : m numbers
        The rows of the target with which they were matched.
    job : TuneJob
    """
    own, schema = _own(job, positions), _schema(job, given)
    here, there = schema.read(given.reset_index(drop=True)), schema.read(own)
    differ = pd.DataFrame({name: _differ(here[name], there[name]) for name in schema.kinds})
    rows = np.flatnonzero(differ.any(axis=1))
    if not len(rows):
        return
    first = [
        f"{names[row]} has {_values(here.iloc[row], differ.iloc[row], schema)} there, and "
        f"{_values(there.iloc[row], differ.iloc[row], schema)} in {job.options.files.of_target}"
        for row in rows[:MOST_NAMED]
    ]
    columns = listed([name for name in schema.kinds if differ[name].any()], 4)
    raise DataError(
        f"{count(len(rows), 'labelled row')} of {path} contradict{'s' * (len(rows) == 1)} the "
        f"table: {'; '.join(first)}. Were labels or rows moved? Put each label beside its row; if "
        f"they are right, leave {columns} out of {path}"
    )


def _own(job: TuneJob, positions: Sequence[int]) -> pd.DataFrame:
    target = job.table.problem.target
    own: pd.DataFrame = rows_of(target.X, np.asarray(positions))
    return own.reset_index(drop=True).assign(**{job.options.files.site_column: target.name})


def _schema(job: TuneJob, given: pd.DataFrame) -> Schema:
    """Return the columns that the model uses, and the site, as far as the file has them."""
    schema = job.table.schema
    kinds = {**schema.kinds, job.options.files.site_column: "category"}
    shared = {name: kind for name, kind in kinds.items() if name in given}
    return Schema(shared, schema.date_formats)


def _differ(one: pd.Series, other: pd.Series) -> NDArray[np.bool_]:
    known = (one.notna() & other.notna()).to_numpy()
    if one.dtype == object:
        return known & (_folded(one) != _folded(other)).to_numpy()
    rounded = min(map(_half_a_digit, one.dropna()), default=0.0)
    near = rounded + SAME * np.maximum(one.abs(), other.abs())
    return known & ~((one - other).abs() <= near).to_numpy()


def _folded(texts: pd.Series) -> pd.Series:
    return texts.astype(str).str.strip().str.casefold()


def _half_a_digit(value: float) -> float:
    """Return half a unit of a number's last decimal.

    >>> _half_a_digit(2.5), _half_a_digit(70.0)
    (0.05, 0.5)
    """
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    return 0.5 * 10.0 ** min(int(exponent), 0)


def _values(row: pd.Series, differ: pd.Series, schema: Schema) -> str:
    names = [name for name in schema.kinds if differ[name]][:MOST_NAMED]
    return " and ".join(f"{name} {_written_value(row[name], schema.kinds[name])}" for name in names)


def _written_value(value: Any, kind: ColumnKind) -> str:
    if kind == "date":
        return f"{pd.Timestamp(value, unit='D'):%Y-%m-%d}"
    return repr(value) if kind == "category" else number(value, 6)


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


UPDATES, LABELS, UPDATE, MODEL = "updates", "labels.csv", "update.json", "model"


class Updates:
    """States of a folder: `updates/1`, `updates/2`, ..., each made of all labels so far.

    The file `UPDATE` is written last: a state without it was not finished, and its number is used
    again.

    Parameters
    ----------
    folder : Path
        Of the result, whose own files are never changed.
    best : mapping or None
        Content of best.json, which changes with the model; None where there is none.
    """

    def __init__(self, folder: Path, best: Mapping[str, Any] | None) -> None:
        self.path = folder / UPDATES
        self.best = best

    @property
    def numbers(self) -> list[int]:
        """Numbers of the states, finished or not."""
        if not self.path.is_dir():
            return []
        return sorted(int(path.name) for path in self.path.iterdir() if path.name.isdecimal())

    @property
    def finished(self) -> list[int]:
        """Numbers of the finished states."""
        return [number for number in self.numbers if (self.state(number) / UPDATE).exists()]

    @property
    def unfinished(self) -> list[int]:
        """Numbers of states that were not written to their end."""
        return sorted(set(self.numbers) - set(self.finished))

    @property
    def next_number(self) -> int:
        """Number of the next state."""
        return max(self.finished, default=0) + 1

    def labels(self, job: TuneJob) -> dict[int, Any]:
        """Return the labels of the last state, by position among the target's rows."""
        if not self.finished:
            return {}
        return read_given(self.state(self.finished[-1]) / LABELS, job)

    def state(self, number: int) -> Path:
        """Return the folder of a state."""
        return self.path / str(number)

    def record(self, number: int) -> dict[str, Any]:
        """Return the content of `UPDATE`; `current` is whether it updates the present model."""
        found = read_json(self.state(number) / UPDATE)
        return found | {"current": found["of_result"] == self.fingerprint}

    @property
    def records(self) -> list[dict[str, Any]]:
        """Contents of `UPDATE` of the finished states."""
        return [self.record(number) for number in self.finished]

    @property
    def fingerprint(self) -> str:
        """Hash of best.json."""
        return hashlib.sha256(json.dumps(self.best).encode()).hexdigest()

    def write(
        self,
        model: TableModel,
        labels: pd.DataFrame,
        predicted: pd.DataFrame,
        record: dict[str, Any],
    ) -> dict[str, Any]:
        """Write a new state; return its record."""
        number = self.next_number
        state = self.state(number)
        with writing_to(state, "make the folder writable"):
            if state.exists():
                shutil.rmtree(state)
            state.mkdir(parents=True)
            for name, table in ((LABELS, labels), (PREDICTIONS, predicted)):
                with atomic_write(state / name) as part:
                    table.to_csv(part, index=False)
            file = save_model(model, state / MODEL)
            content = {
                "format": FORMAT,
                "number": number,
                **record,
                "of_result": self.fingerprint,
                "model_file": file.name,
            }
            write_json(state / UPDATE, content)
        return self.record(number)


Floats = NDArray[np.float64]


def effect_record(updated: Updated, predictor: Any, X: Features) -> dict[str, Any]:
    """Return risks, the gain, and the site's effect.

    Parameters
    ----------
    updated : Updated
    predictor : fitted `UpdatedRegressor` or `UpdatedClassifier`
        What predicts.
    X : rows of the target
    """
    return {
        "labels": updated.labels_,
        "before": risk_record(updated.before_),
        "after": risk_record(updated.risk_),
        "gain": estimate_record(updated.gain_),
        "metrics": records(updated.metrics_),
        "effect": records(_first_terms(updated.effect_)),
        "shift": _shift(predictor, X),
    }


def update_record(
    job: TuneJob,
    model: Any,
    updated: Updated,
    X: Features,
    y: NDArray[Any],
    groups: NDArray[np.intp] | None = None,
) -> dict[str, Any]:
    """Return what has changed, and the first estimate beside the labels.

    Parameters
    ----------
    job : TuneJob
        Whose search is open.
    model : fitted estimator
        What the search handed over.
    updated : Updated
    X, y, groups : labelled rows of the target that the search did not have
    """
    result, target = job.search.result_, job.table.problem.target.X
    return {
        "target": job.table.problem.target.name,
        "label": job.options.label,
        "loss": result.loss.name,
        **effect_record(updated, updated.predictor_, target),
        "labels_of_tune": updated.labels_ - len(y),
        "first_estimate": _compared(result.risk, _losses(job, model, X, y), groups),
    }


def _first_terms(effect: pd.DataFrame) -> pd.DataFrame:
    """Return intercept and slope; columns can be thousands."""
    return (
        effect.groupby("class", sort=False).head(2) if "class" in effect.index.names else effect[:2]
    )


def _shift(after: Any, X: Features) -> list[dict[str, Any]]:
    """Return how far the effect moves the target's predictions: values, or log odds by class."""
    before = after.predictor_
    if not hasattr(after, "classes_"):
        moved = after.predict(X) - np.asarray(before.predict(X)).reshape(-1)
        return [{"class": None, "scale": "value", "mean": float(moved.mean())}]
    moved = _log_odds(after.predict_proba(X)) - _log_odds(before.predict_proba(X))
    return [
        {"class": str(name), "scale": "log odds", "mean": float(own.mean())}
        for name, own in zip(after.classes_, moved.T, strict=True)
    ]


def _log_odds(shares: Any) -> Floats:
    inside = np.clip(shares, LEAST_LIKELY, 1 - LEAST_LIKELY)
    return np.asarray(np.log(inside / (1 - inside)))


def _losses(job: TuneJob, model: Any, X: Features, y: NDArray[Any]) -> Floats:
    result = job.search.result_
    classes = result.context.data.classes
    return result.loss(y, getattr(model, result.loss.needs)(X), classes)


def _compared(
    first: RiskEstimate, losses: Floats, groups: NDArray[np.intp] | None
) -> dict[str, Any]:
    """Compare the estimate before any of these labels with the mean loss at their rows.

    They agree if the 95 % interval of the difference contains 0; a single row, or rows of a single
    group, show nothing.
    """
    found: dict[str, Any] = risk_record(first) | {"mean_loss": None, "agrees": None}
    m = len(losses)
    risk = by_group(
        estimate([losses], method="naive"), [np.arange(m) if groups is None else groups]
    )
    if risk.block_counts[0] < 2:
        return found | {"mean_loss": {"value": risk.value, "low": None, "high": None}}
    own = Estimate(risk.value, risk.variance * m / (m - 1), risk.dof)
    parts = np.array([first.variance, own.variance])
    total = float(parts.sum())
    dof = total**2 / float(np.sum(parts**2 / [first.dof, own.dof])) if total > 0 else own.dof
    about = estimate_record(own)
    if first.nonnegative:
        about["low"] = max(about["low"], 0.0)
    low, high = Estimate(own.value - first.value, total, dof).interval()
    return found | {"mean_loss": about, "agrees": bool(low <= 0 <= high)}
