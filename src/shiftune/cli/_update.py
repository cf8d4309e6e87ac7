"""`shiftune label-plan` and `update`: labels of some rows of the target update a result's model."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from pandas.api import types

from shiftune._files import atomic_write
from shiftune._wording import alike, count, listed, number, shortened
from shiftune.cli._console import note, notes_for_warnings, screen, shell_command, show_note
from shiftune.cli._folder import (
    LABELS,
    ROW,
    SITES,
    ResultFolder,
    Updates,
    command_line,
    free_name,
    writing_to,
)
from shiftune.cli._predict import MOST_SITES, WRITERS
from shiftune.cli._screen import show_update, show_updates
from shiftune.cli._tune import TuneJob, predictions, reopened, table_model, write_site
from shiftune.columns import Columns
from shiftune.columns._column import TREND, as_text
from shiftune.columns._formats import read_numbers, without_zeros
from shiftune.errors import DataError, SettingsError, StorageError
from shiftune.models._by_name import ColumnReader
from shiftune.problem._site import rows_of
from shiftune.report._summary import estimate_record, risk_record, sentence, update_record
from shiftune.risk import by_group, estimate
from shiftune.risk._result import Estimate, RiskEstimate
from shiftune.search._storage import only_search_of
from shiftune.search._targets import label_plan
from shiftune.search._updating import site_scores
from shiftune.search._updating import update as update_predictor
from shiftune.tables import read_as_written, read_file

# Rows and columns that an error names.
MOST_NAMED = 2
# Relative difference of two numbers that are the same, as spreadsheets write them.
SAME_NUMBER = 1e-5
# Relative difference of weights that are the same: other machines and versions of libraries sum in
# another order.
SAME_WEIGHT = 1e-6
Moved = Mapping[str, Path | None]

# ---------------------------------------------------------------- the commands


def draw_rows(path: Path, n: int, out: Path | None, seed: int, moved: Moved) -> None:
    """Write a file with rows drawn at random among those without a label so far.

    With several targets, `label_plan` divides the rows among them.
    """
    folder = ResultFolder(path)
    obstacle = folder.completed(folder.finished())["labels"]["obstacle"]
    out = out or Path(f"{path.resolve().name}-labels.csv")
    if (ending := out.suffix.lower()) not in (".csv", ".xlsx"):
        raise SettingsError(f"--out must end in .csv or .xlsx, got {out}")
    if out.exists():
        raise StorageError(f"{out} exists, and may have labels in it; give another file with --out")
    with notes_for_warnings(), only_search_of(folder.journal):
        job = reopened(folder, moved)
        left = _unlabelled_rows(folder, job)
        if len(left) == 1:
            counts = dict.fromkeys(left, n)
        else:
            labelled = {site: len(rows) - len(left[site]) for site, rows in job.places.items()}
            planned = label_plan(job.search.result_, n, labelled)["labels"]
            counts = {str(site): int(m) for site, m in planned.items()}
        plan = _plan(job, left, counts, seed)
    with writing_to(out.parent, "give another file with --out"), atomic_write(out) as part:
        if ending == ".csv":
            plan.to_csv(part, index=False, sep=job.options.files.form.separator)
        else:
            WRITERS[ending](iter([plan]), part)
    console = screen()
    drawn = {site: m for site, m in counts.items() if m}
    of_sites = [f"{count(m, 'row')} of {shortened(site, 24)}" for site, m in drawn.items()]
    written = f"Written to {out}: {listed(of_sites, MOST_SITES, quoted=False)}, drawn at random."
    if obstacle:
        console.print(written)
        show_note(
            console,
            f"labels cannot update this predictor: {obstacle}. Fill them into the table, and run "
            "shiftune tune with --use-target-labels",
        )
        return
    console.print(f"{written} Fill in {job.options.label!r}, then run:")
    typer.echo(f"  {shell_command('update', path, out)}")


def _unlabelled_rows(folder: ResultFolder, job: TuneJob) -> dict[str, NDArray[np.intp]]:
    """Return the rows of each target without a label so far, by their numbers in the table."""
    unlabelled, target = {}, job.problem.target
    for site, site_dir in folder.sites().items():
        places = job.places[site]
        left = ~job.problem.target_labelled[places]
        if site_dir.updates.finished:
            left[list(_earlier_labels(site_dir.updates, job.at(site)))] = False
        unlabelled[site] = target.rows[places[left]]
    return unlabelled


def _plan(
    job: TuneJob, left: Mapping[str, NDArray[np.intp]], counts: Mapping[str, int], seed: int
) -> pd.DataFrame:
    """Return rows of the targets, so many of each, as written in the table."""
    problem, random = job.problem, np.random.default_rng(seed)
    if not any(map(len, left.values())):
        raise DataError(f"all rows of {problem.target.name!r} have a label already")
    if not sum(counts.values()):
        raise DataError(
            "labels are not expected to lower the loss at any of the targets; to draw rows of one "
            f"all the same: shiftune label-plan DIR/{SITES}/NAME"
        )
    for site, rows in left.items():
        if counts[site] > len(rows):
            raise DataError(
                f"{site!r} has {count(len(rows), 'row')} without a label so far; give an --n of at "
                f"most {len(rows)}"
            )
    drawn = np.sort(
        np.concatenate([random.choice(rows, counts[s], replace=False) for s, rows in left.items()])
    )
    several = [job.options.files.site_column] * (len(left) > 1)
    names = [*several, *problem.columns.identifiers]
    plan = job.options.files.as_written([*names, *problem.columns], drawn)
    plan.insert(len(names), _row_column(job), drawn)
    return plan.assign(**{job.options.label: ""})


def list_updates(path: Path, as_json: bool) -> None:
    """Show the updates of a result so far."""
    sites = ResultFolder(path).sites()  # an error where this is not the folder of a result
    every = [folder.updates for folder in sites.values()]
    states = {path: record for updates in every for path, record in updates.states.items()}
    unfinished = [number for updates in every for number in updates.unfinished]
    if as_json:
        content = {"updates": list(states.values()), "unfinished": unfinished}
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        show_updates(screen(), path, states, unfinished, several=len(sites) > 1)


def update(path: Path, labels: Path, moved: Moved, as_json: bool) -> None:
    """Update the model of a result by the labels in a file, and by all earlier ones.

    With several targets, every target with labels in the file is updated.
    """
    folder = ResultFolder(path)
    folder.settings()  # an error where this is not the folder of a result
    with notes_for_warnings(), only_search_of(folder.journal):
        states = _updated(folder, labels, moved)
    if as_json:
        records = [{"folder": str(state), **record} for state, record in states.items()]
        shown = records[0] if len(records) == 1 else {"updates": records}
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    elif len(states) == 1:
        ((state, record),) = states.items()
        show_update(screen(), record, state)
    else:
        show_updates(screen(), path, states, ())


def _updated(folder: ResultFolder, path: Path, moved: Moved) -> dict[Path, dict[str, Any]]:
    """Update the targets that have labels in a file; return the folders and records."""
    if obstacle := folder.completed(folder.finished())["labels"]["obstacle"]:
        raise SettingsError(f"labels cannot update this predictor: {obstacle}")
    sites = folder.sites()
    for site_dir in sites.values():
        if path.resolve().parent == site_dir.updates.state(site_dir.updates.next).resolve():
            raise StorageError(f"{path} is in the folder that is written; move it elsewhere")
    job, states = reopened(folder, moved), {}
    latest = read_labels(path, job)
    for site, site_dir in sites.items():
        places = {int(place): at for at, place in enumerate(job.places[site])}
        labels = {places[place]: label for place, label in latest.items() if place in places}
        if labels:
            if not site_dir.best():
                write_site(site_dir, job, site)
            record = _updated_site(site_dir, job.at(site), labels, path)
            states[site_dir.updates.state(record["number"])] = record
    return states


def _updated_site(
    folder: ResultFolder, job: TuneJob, latest: dict[int, Any], path: Path
) -> dict[str, Any]:
    """Return the record of a new state, or of the last one if the labels are all in it."""
    best, updates = folder.completed(folder.finished()), folder.updates
    last = max(updates.finished, default=None)
    earlier = _earlier_labels(updates, job)
    latest = _without_known(latest, job, path)
    new = latest.keys() - earlier.keys()
    replaced = [place for place in latest if latest[place] != earlier.get(place, latest[place])]
    if last is not None and not new and not replaced and updates.record(last)["current"]:
        note(f"update {last} has all labels of {path} already")
        return updates.record(last)
    if replaced:
        note(f"new labels replace those of {_rows_in_words(replaced, job)}")
    for n in updates.unfinished:
        note(f"{updates.state(n)} was not finished, and is written again")
    labels = dict(sorted((earlier | latest).items()))
    problem = job.problem
    kind = float if problem.task == "regression" else problem.classes.dtype
    positions, y = np.array(list(labels)), np.array(list(labels.values()), dtype=kind)
    result, model = job.search.result_, job.search.predictor_
    _check_members(folder, best, result.choice.weights)
    X = rows_of(problem.target.X, positions)
    target = problem.target
    groups = None if target.groups is None else target.groups[positions]
    weights = None if target.sample_weight is None else target.sample_weight[positions]
    updated = update_predictor(result, model, X, y, groups, weights)
    losses = result.loss(y, getattr(model, result.loss.needs)(X), result.context.data.classes)
    first = _compared(result.risk, losses, groups)
    record = {
        "command": command_line(),
        "new_labels": len(new),
        "replaced_labels": len(replaced),
        "target": target.name,
        "label": job.options.label,
        "loss": result.loss.name,
        **update_record(updated, updated.predictor_, result),
        "labels_of_tune": updated.labels_ - len(y),
        "first_estimate": first | {"says": sentence("first_estimate", first, updated.labels_)},
        "of_trials": best["trials"]["finished"],
    }
    used = job.problem.target_labelled.copy()
    used[positions] = True
    rows = {_row_column(job): job.problem.target.rows[positions], job.options.label: y}
    return updates.write(
        table_model(job, updated.predictor_, site_scores(result, updated)),
        job.identifiers.iloc[positions].assign(**rows),
        predictions(job, updated.predictor_, used),
        record,
    )


def _check_members(
    folder: ResultFolder, best: Mapping[str, Any], weights: Mapping[int, float]
) -> None:
    """Refuse to update another model than that of the folder."""
    members = {member["trial"]: member["weight"] for member in best["members"]}
    if weights.keys() != members.keys() or not all(
        np.isclose(weights[trial], members[trial], rtol=SAME_WEIGHT) for trial in members
    ):
        raise StorageError(
            f"the model in {folder.path} is not the one of its trials: with the packages installed "
            "now, shiftune chooses other models; "
            f"{shell_command('report', folder.study)} writes it again"
        )


def _without_known(latest: dict[int, Any], job: TuneJob, path: Path) -> dict[int, Any]:
    """Leave labels out that the search had; they must be the same."""
    few = job.problem.labelled_target
    if few is None:
        return latest
    had = dict(zip(few.rows.tolist(), few.labels.tolist(), strict=True))
    rows = job.problem.target.rows
    for position, label in latest.items():
        before = had.get(int(rows[position]), label)
        if before != label:
            raise DataError(
                f"row {rows[position]} has the label {str(label)!r} in {path}, and had "
                f"{str(before)!r} in tune; correct this one, or correct the table and tune again"
            )
    left = {place: label for place, label in latest.items() if int(rows[place]) not in had}
    if not left:
        raise DataError(f"tune has already used all labels of {path}; add new ones")
    return left


def _compared(
    first: RiskEstimate, losses: NDArray[np.float64], groups: NDArray[np.intp] | None
) -> dict[str, Any]:
    """Compare the estimate before any of these labels with the mean loss at their rows.

    They agree if the 95 % interval of the difference contains 0; a single row, or rows of a single
    subject, show nothing.
    """
    comparison: dict[str, Any] = risk_record(first) | {"mean_loss": None, "agrees": None}
    m = len(losses)
    risk = by_group(
        estimate([losses], method="naive"), [np.arange(m) if groups is None else groups]
    )
    if risk.block_counts[0] < 2:
        return comparison | {"mean_loss": {"value": risk.value, "low": None, "high": None}}
    direct = Estimate(risk.value, risk.variance * m / (m - 1), risk.dof)
    parts = np.array([first.variance, direct.variance])
    total = float(parts.sum())
    # Degrees of freedom of the difference, by Welch and Satterthwaite.
    dof = total**2 / float(np.sum(parts**2 / [first.dof, direct.dof])) if total > 0 else direct.dof
    about = estimate_record(direct)
    if first.nonnegative:
        about["low"] = max(about["low"], 0.0)
    low, high = Estimate(direct.value - first.value, total, dof).interval()
    return comparison | {"mean_loss": about, "agrees": bool(low <= 0 <= high)}


# ---------------------------------------------------------------- labels in a file


def _earlier_labels(updates: Updates, job: TuneJob) -> dict[int, Any]:
    """Return the labels of the last state, by position among the target's rows."""
    if not (finished := updates.finished):
        return {}
    return read_labels(updates.state(finished[-1]) / LABELS, job)


def read_labels(path: Path, job: TuneJob) -> dict[int, Any]:
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
    labelled = np.flatnonzero(table[label].notna())
    if not len(labelled):
        raise DataError(f"no row of {path} has a label in {label!r}; fill some in")
    names, keys, positions = _matched(path, table, labelled, job)
    whats = [_named(names, key) for key in keys]
    check_rows(path, table.iloc[labelled], whats, positions, job)
    texts = read_as_written(path, [label])[label].iloc[labelled].astype(str).str.strip()
    if job.problem.task == "regression":
        values = _quantities(table[label].iloc[labelled], texts, whats, path)
    else:
        values = [_class(*pair, path, job) for pair in zip(texts, whats, strict=True)]
    labels: dict[int, Any] = {}
    for what, position, value in zip(whats, positions, values, strict=True):
        if labels.setdefault(position, value) != value:
            raise DataError(
                f"{what} has the labels {str(labels[position])!r} and {str(value)!r} in {path}; "
                "keep one of them"
            )
    return labels


def _quantities(
    labels: pd.Series, texts: pd.Series, whats: Sequence[str], path: Path
) -> list[float]:
    numeric = types.is_numeric_dtype(labels)
    values = labels.astype(float) if numeric else read_numbers(labels.astype(str).str.strip())
    for what, text, value in zip(whats, texts, values, strict=True):
        if not np.isfinite(value):
            raise DataError(
                f"{what} has the label {text!r} in {path}, which is not a number; write a number "
                "there, or leave it empty"
            )
    return list(values)


def _class(text: str, what: str, path: Path, job: TuneJob) -> Any:
    classes = job.problem.classes
    by_text = {_plain(str(value), classes): value for value in classes}
    if (label := by_text.get(_plain(text, classes))) is not None:
        return label
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


# ---------------------------------------------------------------- which rows they are of

Key = tuple[str, ...]


class _Rows:
    """Positions of rows by their identifiers, which spreadsheets may rob of leading zeros."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.exact: dict[Key, list[int]] = defaultdict(list)
        self.loose: dict[Key, list[int]] = defaultdict(list)
        for position, key in enumerate(keys):
            self.exact[key].append(position)
            self.loose[self._loose(key)].append(position)

    def __getitem__(self, key: Key) -> list[int]:
        return self.exact.get(key) or self.loose.get(self._loose(key), [])

    @staticmethod
    def _loose(key: Key) -> Key:
        return tuple(without_zeros(text.removesuffix(".0")) for text in key)


def _matched(
    path: Path, table: pd.DataFrame, labelled: Any, job: TuneJob
) -> tuple[list[str], list[Key], list[int]]:
    """Return the columns that identify rows, their values, and the positions of the rows."""
    row = _row_column(job)
    identifiers = [name for name in job.problem.columns.identifiers if name in table]
    numbered = [row] if row in table else []
    if not identifiers and not numbered:
        raise DataError(
            f"{path} does not identify its rows: it has no column "
            f"{' or '.join(map(repr, [*job.problem.columns.identifiers, row]))}; add {row!r}, the "
            f"number of the row in {job.options.files.of_target}, counted from 0"
        )
    of_target = job.identifiers.assign(**{row: job.problem.target.rows})
    for names in (identifiers or numbered, [*identifiers, *numbered]):
        keys = _keys(read_as_written(path, names).iloc[labelled])
        rows = _Rows(_keys(of_target[names]))
        matches = [rows[key] for key in keys]
        if all(len(positions) <= 1 for positions in matches):
            break
    if unknown := [key for key, positions in zip(keys, matches, strict=True) if not positions]:
        raise DataError(_about_unknown(path, names, unknown[0], job))
    for key, positions in zip(keys, matches, strict=True):
        if len(positions) > 1:
            raise DataError(
                f"{_named(names, key)} in {path} may be any of the "
                f"{_rows_in_words(positions, job)} of {job.options.files.of_target}; add a column "
                f"{row!r} with the number of the row there, counted from 0"
            )
    return names, keys, [positions[0] for positions in matches]


def _about_unknown(path: Path, names: list[str], key: Key, job: TuneJob) -> str:
    """Explain why a row is none of the target's: it is another site's, or nobody's."""
    files, row, target = job.options.files, _row_column(job), job.problem.target.name
    stored = [name for name in names if name != row]
    everything = files.as_written([*stored, files.site_column])
    if files.target_file is not None and row in names:  # numbers are those of the target's file
        everything = everything[everything[files.site_column] == files.target_name]
    everything[row] = range(len(everything))
    keys = _keys(everything[names])
    what = _named(names, key)
    if others := _Rows(keys)[key]:
        site = everything[files.site_column].iloc[others[0]]
        if job.problem.sample is not None and str(site).strip() == target:
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
    texts = {" ".join(key): key for key in _keys(job.identifiers[stored])} if stored else {}
    near = alike(" ".join(key[: len(stored)]), texts)
    return (
        f"{files.of_target} has no row with {what}, which {path} names; write identifiers as they "
        "are written there" + (f" (is it {_named(stored, texts[near[0]])}?)" if near else "")
    )


def _keys(frame: pd.DataFrame) -> list[Key]:
    texts = [frame[name].astype(object).fillna("").astype(str).str.strip() for name in frame]
    return list(zip(*texts, strict=True))


def _named(names: Sequence[str], key: Key) -> str:
    return " and ".join(
        f"{name} {text if text.isdigit() and name.startswith(ROW) else repr(text)}"
        for name, text in zip(names, key, strict=True)
    )


def _row_column(job: TuneJob) -> str:
    """Return the name of the column with the number of a row in the data file, from 0."""
    columns = job.problem.columns
    return free_name(ROW, {*columns, *columns.left_out, *columns.others})


def _rows_in_words(positions: Sequence[int], job: TuneJob) -> str:
    """Name rows of the target by their numbers in the data file."""
    rows = [str(job.problem.target.rows[position]) for position in positions]
    return f"row{'s' * (len(rows) > 1)} {listed(rows, quoted=False)}"


# ---------------------------------------------------------------- other columns of the file


def check_rows(
    path: Path, entries: pd.DataFrame, names: Sequence[str], positions: Sequence[int], job: TuneJob
) -> None:
    """Raise an error where columns of a file contradict the table.

    A file whose labels were shifted or sorted without its other columns still identifies rows.
    Empty cells, rounded numbers and dates in another format contradict nothing.

    The m rows in `entries` have a label; each has a name, and the position of the target's row with
    which it was matched.
    """
    target, site = job.problem.target, job.options.files.site_column
    shared = {n: column for n, column in job.problem.columns.items() if n in entries}
    # Dates are compared as days, if these were read.
    days = {f"{n}_{TREND}": n for n, column in shared.items() if TREND in column.parts}
    parts = [f"{n}_{part}" for n in days.values() for part in shared[n].parts if part != TREND]
    stored: pd.DataFrame = rows_of(target.X, np.asarray(positions))
    reader = ColumnReader(Columns(shared))
    here, there = (
        reader.transform(rows.reset_index(drop=True)).drop(columns=parts).rename(columns=days)
        for rows in (entries, stored)
    )
    if site in entries:
        here[site] = as_text(entries[site].reset_index(drop=True))
        of_row = np.full(len(target), target.name, dtype=object)
        for name, places in job.places.items():
            of_row[places] = name
        there[site] = pd.Series(of_row[np.asarray(positions)], there.index)
    differ = pd.DataFrame({name: _differ(here[name], there[name]) for name in here})
    rows = np.flatnonzero(differ.any(axis=1))
    if not len(rows):
        return
    first = [
        f"{names[row]} has {_values(here.iloc[row], differ.iloc[row], days)} there, and "
        f"{_values(there.iloc[row], differ.iloc[row], days)} in {job.options.files.of_target}"
        for row in rows[:MOST_NAMED]
    ]
    columns = listed(differ.columns[differ.any()], 4)
    raise DataError(
        f"{count(len(rows), 'labelled row')} of {path} contradict{'s' * (len(rows) == 1)} the "
        f"table: {'; '.join(first)}. Were labels or rows moved? Put each label beside its row; if "
        f"they are right, leave {columns} out of {path}"
    )


def _differ(one: pd.Series, other: pd.Series) -> NDArray[np.bool_]:
    both = (one.notna() & other.notna()).to_numpy()
    if one.dtype == object:
        texts = [column.astype(str).str.strip().str.casefold() for column in (one, other)]
        return both & (texts[0] != texts[1]).to_numpy()
    rounded = min(map(_half_a_digit, one.dropna()), default=0.0)
    near = rounded + SAME_NUMBER * np.maximum(one.abs(), other.abs())
    return both & ~((one - other).abs() <= near).to_numpy()


def _half_a_digit(value: float) -> float:
    """Return half a unit of a number's last decimal: 0.05 for 2.5, and 0.5 for 70.0."""
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    return 0.5 * 10.0 ** min(int(exponent), 0)


def _values(row: pd.Series, differ: pd.Series, days: Mapping[str, str]) -> str:
    names = differ.index[differ][:MOST_NAMED]
    return " and ".join(f"{n} {_written(row[n], n in days.values())}" for n in names)


def _written(value: Any, date: bool) -> str:
    if date:
        return f"{pd.Timestamp(value, unit='D'):%Y-%m-%d}"
    return repr(value) if isinstance(value, str) else number(value, 6)
