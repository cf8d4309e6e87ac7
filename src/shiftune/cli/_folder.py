"""Folder of a result: check that it belongs to the job, and write its files atomically."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune._files import PART, atomic_write, one_at_a_time
from shiftune._provenance import check_same, made_with, versions_in_words
from shiftune.cli._job import TuneJob, prepare_job
from shiftune.cli._options import Role, TuneOptions, named, settings_text, values_of
from shiftune.cli._records import (
    FORMAT,
    PREDICTIONS,
    estimate_record,
    predictions,
    read_json,
    records,
    risk_record,
    safe_for_spreadsheets,
    sample_record,
    verdict_record,
    write_json,
    writing_to,
)
from shiftune.cli._updates import LABELS, MODEL, Updates, effect_record
from shiftune.errors import DataError, DataWarning, ProblemError, SearchWarning, StorageError
from shiftune.models import load_model, save_model
from shiftune.models._storing import PICKLED
from shiftune.predictor import SiteScores
from shiftune.predictor._ensemble import TableModel
from shiftune.ratio._overlap import ColumnSummaries
from shiftune.report._words import brief
from shiftune.search._journal import is_searched
from shiftune.search._storage import ANSWERS, trials_in
from shiftune.search._trial import finished_trials
from shiftune.tables import files_at
from shiftune.tables._schema import profile_of


def table_model(job: TuneJob, predictor: Any, scores: SiteScores) -> TableModel:
    """Return a fitted predictor with the profile of its training rows."""
    table, options = job.table, job.options
    problem, schema = table.problem, table.schema
    sites = [pd.DataFrame(site.X) for site in problem.labelled_sites]
    target = pd.DataFrame(problem.target.X)
    unused = table.columns.index[~table.columns["used"]]
    return TableModel(
        predictor,
        profile_of(sites, target, schema, [options.files.site_column, options.label, *unused]),
        ColumnSummaries.of(schema.read(target)),
        table.identifiers,
        options.label,
        scores,
    )


JOURNAL = "study.journal"
SETTINGS, COMMAND = "settings.json", "settings.toml"
BEST, TRIALS = "best.json", "trials.csv"
REPORT, CARD = "report.html", "model-card.md"
OUT = "put this right and run the same command again, or give another folder with --out"
AGAIN = "remove it and run the same shiftune tune again, which adds no trial"
ELSEWHERE = "give another folder with --out, or the same settings to continue"


class ResultFolder:
    """Folder of the results of one job, which several runs may continue.

    Parameters
    ----------
    path : Path
        It may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def journal(self) -> Path:
        """Path of the journal of trials."""
        return self.path / JOURNAL

    # ---------------------------------------------------------------- whose files

    def check(self, job: TuneJob) -> bool:
        """Make sure that the folder can be used for this job; return whether it is new.

        A folder of other data or settings, or with other files, is refused.
        """
        if self.path.exists() and not self.path.is_dir():
            raise StorageError(f"{self.path} is a file, not a folder; give another with --out")
        with writing_to(self.path, OUT):
            there = self.path.is_dir() and any(
                not path.name.startswith(PART) for path in self.path.iterdir()
            )
        if there and not (self.path / SETTINGS).exists():
            raise StorageError(
                f"the folder {self.path} is not empty and holds no result of shiftune; give "
                "another with --out"
            )
        if there:
            self._check_same(job)
            self.best()
        return not there

    def begin(self, job: TuneJob, command: str) -> None:
        """Record a run with its command and versions; create the folder if needed."""
        there = (self.path / SETTINGS).exists()
        run = {"command": command, "date": datetime.now().astimezone().isoformat("T", "seconds")}
        with writing_to(self.path, OUT):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = {
            "format": FORMAT,
            "files": job.options.saved_files(),
            "data": job.fingerprint,
            "options": job.options.saved(),
            "runs": [*(self.settings()["runs"] if there else []), run | made_with()],
        }
        with writing_to(self.path, OUT):
            write_json(self.path / SETTINGS, settings)
            with atomic_write(self.path / COMMAND) as part:
                part.write_text(settings_text(job.options), "utf-8")

    def _check_same(self, job: TuneJob) -> None:
        settings = self.settings()
        earlier, now = self.options().compared(), job.options.compared()
        # Options that read the same file differently imply other data, which is not reported again.
        if all(earlier[name] == now[name] for name in named(TuneOptions, Role.DATA)):
            earlier, now = earlier | {"data": settings["data"]}, now | {"data": job.fingerprint}
        check_same(earlier, now, str(self.path), ELSEWHERE, hidden=("space", "data"))

    def settings(self) -> dict[str, Any]:
        """Return the content of settings.json."""
        return read_json(self.path / SETTINGS)

    @property
    def last_command(self) -> str:
        """Command of the last run."""
        command: str = self.settings()["runs"][-1]["command"]
        return command

    def options(self, moved: Mapping[str, Path | None] | None = None) -> TuneOptions:
        """Return the options of the result, for files that may have been moved."""
        settings, where = self.settings(), str(self.path / SETTINGS)
        files = {name: Path(path) for name, path in settings["files"].items()}
        files |= {name: path for name, path in (moved or {}).items() if path is not None}
        return TuneOptions.from_saved(settings["options"], files, where)

    def complete(self, trials: int, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return the content of `BEST` if it is the result of so many trials, and complete.

        `BEST` is removed before any other file is written, and comes back last: where it is, the
        others belong to it.
        """
        best = self.best()
        if best is None or best["trials"] < trials:
            return None
        if any(best.get(name) != value for name, value in asked.items()):
            return None
        files = [TRIALS, PREDICTIONS, CARD, best["model_file"], *[REPORT] * self.can_report()]
        return best if all((self.path / name).exists() for name in files) else None

    def best(self) -> dict[str, Any] | None:
        """Return the content of `BEST`; None where a search is not finished."""
        if not (self.path / BEST).exists():
            return None
        return read_json(self.path / BEST, AGAIN)

    @property
    def updates(self) -> Updates:
        """Updates of the result by labels."""
        return Updates(self.path, self.best())

    def finished(self) -> int:
        """Number of finished trials in the journal."""
        return len(trials_in(self.journal))

    def lost(self) -> str:
        """Words about trials of the result that the journal has no more; empty if it has all."""
        best, left = self.best(), self.finished()
        if best is None or best["trials"] <= left:
            return ""
        return (
            f"{self.journal} holds {left} of the {best['trials']} trials of this result, because "
            "it was deleted, cut or damaged"
        )

    def discard(self) -> None:
        """Remove the files of a first run that failed before any trial had a result."""
        with suppress(OSError, ProblemError):
            if any(trial.value is not None for trial in trials_in(self.journal)):
                return
            shutil.rmtree(self.path / f"{JOURNAL}{ANSWERS}", ignore_errors=True)
            for path in self.path.iterdir():
                path.unlink()
            self.path.rmdir()

    # ---------------------------------------------------------------- files

    def write(self, done: TuneJob) -> dict[str, Any]:
        """Write all files of a fitted search; return the content of `BEST`."""
        search = done.search
        labelled = done.table.target_labelled if done.options.use_target_labels else None
        with writing_to(self.path, OUT):
            for outdated in (BEST, REPORT, CARD):
                (self.path / outdated).unlink(missing_ok=True)
            with atomic_write(self.path / TRIALS) as part:
                trials = search.trials_
                (safe_for_spreadsheets(trials) if done.options.safe_csv else trials).to_csv(part)
            stored = table_model(done, search.predictor_, search.result_.site_scores)
            model = save_model(stored, self.path / MODEL)
            with atomic_write(self.path / PREDICTIONS) as part:
                predictions(done, search, labelled).to_csv(part, index=False)
        best = self._best(done, model.name)
        with writing_to(self.path, OUT), atomic_write(self.path / CARD) as part:
            search.model_card(part, settings=self.provenance(done))
        if self.can_report():
            self.write_report(done, Updates(self.path, best).records)
        with writing_to(self.path, OUT):
            write_json(self.path / BEST, best)
        return best

    @staticmethod
    def _best(done: TuneJob, model_file: str) -> dict[str, Any]:
        """Return the content of `BEST` for a fitted search."""
        search, updated = done.search, done.search.result_.updated
        worth, gain = search.result_.worth_of_labels, search.result_.choice.gain
        sources = search.risk_.sources[["n", "estimate", "stderr", "share", "left_out"]]
        return {
            "format": FORMAT,
            "target": done.table.problem.target.name,
            "models": done.options.model,
            "model": search.best_model_,
            "task": done.table.problem.task,
            "loss": search.loss_.name,
            **done.options.of_result(),
            "trials": len(finished_trials(search.study_)),
            "failed_trials": int((search.trials_["failure"] != "").sum()),
            "best_trial": search.best_index_,
            "params": search.best_params_,
            "members": records(search.members_),
            "ensemble_gain": None if gain is None else estimate_record(gain),
            "risk": risk_record(search.risk_),
            "sample": sample_record(search.result_),
            "brief": brief(search.result_, search.checks()).record(),
            "verdict": verdict_record(search.checks()),
            "sources": records(sources),
            "metrics": records(search.metrics_),
            "site_metrics": records(search.site_metrics_),
            "target_labels_used": int(done.table.target_labelled.sum()),
            "update": updated
            and effect_record(updated, search.predictor_, done.table.problem.target.X),
            "label_worth": None if worth is None else records(worth),
            "update_obstacle": search.result_.updater.obstacle,
            "model_file": model_file,
        }

    @staticmethod
    def can_report() -> bool:
        """Whether the packages that a report needs are installed."""
        return all(find_spec(package) for package in ("jinja2", "plotly"))

    def write_report(self, done: TuneJob, updates: Sequence[Mapping[str, Any]]) -> Path:
        """Write the report of a fitted search, and of updates of its model."""
        path = self.path / REPORT
        with writing_to(self.path, OUT), atomic_write(path) as part:
            done.search.report(part, settings=self.provenance(done), updates=updates)
        return path

    def provenance(self, done: TuneJob) -> dict[str, str]:
        """Return the origin of the result, for the report."""
        settings = self.settings()
        last = settings["runs"][-1]
        columns = done.table.columns
        remarks = columns["remark"][columns["remark"] != ""]
        return {
            "command": last["command"],
            "data file": ", ".join(settings["files"].values()),
            "data fingerprint": settings["data"],
            "labels of the target": _about_labels(done.table.target_labelled),
            "columns": "; ".join(f"{name}: {remark}" for name, remark in remarks.items()) or "all",
            "seed": str(settings["options"]["seed"]),
            "date": last["date"],
            "versions": versions_in_words(last["versions"]),
        }


def _about_labels(labelled: NDArray[np.bool_]) -> str:
    if not labelled.any():
        return "not used"
    return f"used: {labelled.sum()} of {len(labelled)} rows"


@contextmanager
def one_beginning(folder: ResultFolder) -> Iterator[None]:
    """Let one process at a time check the settings in a folder, and record its own run."""
    with writing_to(folder.path, OUT):
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with one_at_a_time(folder.path / f"{PART}beginning"):
        yield


def searched_together(job: TuneJob, folder: ResultFolder) -> dict[str, Any] | None:
    """Run trials with other processes; return the results, whichever process has written them.

    They are written when all trials are finished, by the first process that finds no other one
    writing: if it dies, the next one does it. After a timeout others may still be at work, who will
    write them; the result is then None.
    """
    search = job.search
    search.add_trials(job.table.problem)
    with one_at_a_time(folder.journal.with_name(f".{folder.journal.name}.writing")):
        finished = folder.finished()
        if finished < job.options.trials and is_searched(folder.journal):
            return None
        best = folder.complete(finished, job.options.of_result())
        if best is not None:
            return best
        search.refit()
        for note in search.result_.notes:
            warnings.warn(note, SearchWarning, stacklevel=2)
        return folder.write(job)


# Relative difference of predictions up to which two models are the same: other machines and
# versions of libraries sum in another order.
SAME = 1e-6


def reopened(folder: ResultFolder, moved: Mapping[str, Path | None] | None = None) -> TuneJob:
    """Read the table of a result again; another table is refused."""
    options = folder.options(moved)
    for name, path in values_of(options, Role.FILE).items():
        try:
            files_at(path or options.data)
        except StorageError as error:
            option = f"--{name.replace('_', '-')}"
            raise DataError(f"{error} (if it was moved, give {option} FILE)") from error
    job = prepare_job(options, folder.journal)
    if folder.settings()["data"] != job.fingerprint:
        raise DataError(
            f"{options.files} is not the table of this result, or has changed since; give the old "
            "one with --data"
        )
    folder.check(job)
    return job


def completed(folder: ResultFolder) -> dict[str, Any]:
    """Return the content of best.json, if it is the result of all trials in the folder."""
    best = folder.complete(folder.finished(), folder.options().of_result())
    if best is None:
        raise StorageError(f"{folder.path} is not finished; run this first: {folder.last_command}")
    return best


def model_in_use(folder: Path) -> TableModel:
    """Return the model of a result that predicts: the last update of it, if there is one."""
    result = ResultFolder(folder)
    updates = result.updates
    path = folder / completed(result)["model_file"]
    if updates.finished:
        last = updates.record(max(updates.finished))
        if last["current"]:
            path = updates.state(last["number"]) / last["model_file"]
        else:
            labels = updates.state(last["number"]) / LABELS
            warnings.warn(
                f"the updates in {folder} are of an earlier model and are not used; update this "
                f"one: shiftune update {folder} {labels}",
                DataWarning,
                stacklevel=2,
            )
    if path.suffix == PICKLED:
        raise StorageError(
            f"{path} is a model that skops cannot store, and loading it executes code; if you "
            "trust its origin, load it in Python: shiftune.load_model(path, execute_code=True)"
        )
    model = load_model(path)
    if not isinstance(model, TableModel):
        raise StorageError(
            f"{path} was written by another version of shiftune; shiftune report {folder} writes "
            "it again"
        )
    return model


def handed_over(folder: ResultFolder, best: dict[str, Any], job: TuneJob) -> Any:
    """Return the stored model of a search that is open again.

    A pickled model is fitted again instead, since loading it would execute code.
    """
    members = {member["trial"]: member["weight"] for member in best["members"]}
    weights = job.search.result_.choice.weights
    if weights.keys() != members.keys() or not all(
        np.isclose(weights[trial], members[trial], rtol=SAME) for trial in members
    ):
        raise StorageError(_other_model(folder, "chooses other models"))
    if best["model_file"].endswith(PICKLED):
        return job.search.refit().predictor_
    model = load_model(folder.path / best["model_file"]).predictor
    labelled = job.table.target_labelled if job.options.use_target_labels else None
    now = StringIO(predictions(job, model, labelled).to_csv(index=False))
    if not _same(pd.read_csv(folder.path / PREDICTIONS), pd.read_csv(now)):
        raise StorageError(_other_model(folder, f"does not predict what {PREDICTIONS} holds"))
    return model


def _other_model(folder: ResultFolder, what: str) -> str:
    return (
        f"the model in {folder.path} is not the one of its trials: with the packages installed "
        f"now, shiftune {what}; shiftune report {folder.path} writes the model again"
    )


def _same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    if list(one) != list(other) or len(one) != len(other):
        return False
    return all(
        np.allclose(one[name], other[name], rtol=SAME, equal_nan=True)
        if one[name].dtype.kind in "iuf" and other[name].dtype.kind in "iuf"
        else one[name].equals(other[name])
        for name in one
    )
