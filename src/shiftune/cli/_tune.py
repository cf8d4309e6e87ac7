"""`shiftune diagnose`, `tune` and `report`: from options to a table, a search and a folder."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from shiftune import _interrupts, _names
from shiftune._files import PART, atomic_write, one_at_a_time
from shiftune._options import Role
from shiftune._provenance import RESULT_FORMAT, check_same, made_with, versions_in_words
from shiftune._wording import (
    count,
    how_to_install,
    listed,
    loss_in_words,
    printable,
    with_interval,
)
from shiftune.checks import Trust
from shiftune.cli._console import notes_for_warnings, screen, shell_command
from shiftune.cli._folder import (
    BEST,
    CARD,
    COMMAND,
    MODEL,
    PREDICTIONS,
    REPORT,
    ROW,
    SETTINGS,
    SITES,
    TARGETS,
    TRIALS,
    ResultFolder,
    Updates,
    command_line,
    fingerprint,
    safe_for_spreadsheets,
    with_identifiers,
    write_json,
    writing_to,
)
from shiftune.cli._options import (
    DiagnoseOptions,
    TuneOptions,
    named,
    settings_text,
    values_of,
)
from shiftune.cli._screen import (
    show_overlap,
    show_overlaps,
    show_result,
    show_table,
    show_targets,
    show_updates,
)
from shiftune.errors import (
    DataError,
    MissingPackageError,
    OverlapWarning,
    ProblemError,
    SettingsError,
    StorageError,
)
from shiftune.models import expand_auto, ready_model, save_model
from shiftune.models._space import space_entries, space_from_entries
from shiftune.predictor import SiteScores
from shiftune.predictor._ensemble import TableModel, prediction_columns
from shiftune.problem import ShiftProblem
from shiftune.ratio._overlap import ColumnSummaries
from shiftune.report import save_model_card, save_overview
from shiftune.report._summary import LEVEL_OF, records
from shiftune.search import ShiftSearch
from shiftune.search._families import table_size
from shiftune.search._journal import is_searched
from shiftune.search._settings import check_settings
from shiftune.search._storage import only_search_of
from shiftune.tables import files_at

OUT = "fix this, then rerun the command, or give another folder with --out"
NO_REPORT = f"no report, because packages are missing: {how_to_install('report')}"

# ---------------------------------------------------------------- the commands


def diagnose(options: DiagnoseOptions) -> None:
    """Show the overlap of the sites with the target, before any model is trained."""
    problem = options.read(seed=options.seed, drop_unlabelled=True)
    notes = _notes_on_table(problem)
    if options.label is None:
        notes.append("all columns but the site are compared; name the label, if any, with --label")
    overlaps = {
        target.name: problem.at(target.name).diagnose(options.ratio, random_state=options.seed)
        for target in problem.targets
    }
    if options.as_json:
        of_each: list[dict[str, Any]] = [
            {"target": t.name, "target_rows": len(t), "sources": records(overlaps[t.name])}
            for t in problem.targets
        ]
        content = {
            **(of_each[0] if len(of_each) == 1 else {"targets": of_each}),
            "columns": records(problem.columns.overview()),
            "notes": notes,
        }
        typer.echo(json.dumps(content, indent=2))
        return
    console = screen()
    show_table(console, options.files, problem, notes, label=options.label)
    if len(overlaps) > 1:
        show_overlaps(console, overlaps)
        return
    for target, overlap in overlaps.items():
        show_overlap(console, overlap, target)


def tune(options: TuneOptions) -> None:
    """Search in a folder, or continue there, and show the result."""
    folder = ResultFolder(options.out or _default_folder(options))
    if folder.study != folder.path:
        raise StorageError(
            f"{folder.path} is the folder of a site in {folder.study}, which is tuned with all "
            "others there; give another folder with --out"
        )
    job = prepare_job(options, folder.journal)
    with _one_beginning(folder) if options.join else nullcontext():
        new = check_folder(folder, job)
        best = None if new else folder.complete(options.trials, job.options.of_result())
        if best is not None and (lost := folder.lost()):
            typer.echo(f"{lost}; the others run again", err=True)
            best = None
        if best is None:
            begin(folder, job)
    console = screen(silent=options.as_json)
    notes = _notes_on_table(job.problem)
    show_table(console, options.files, job.problem, notes, label=options.label)
    if best is not None:
        done = count(best["trials"]["finished"], "trial")
        console.print(f"\n{folder.path} already has {done}; a larger --trials adds more.")
    else:
        _interrupts.keeps_results(True)
        earlier = 0 if new else folder.finished()
        asked = job.options
        console.print(
            f"\nTuning {listed(asked.model, quoted=False)}: {count(asked.trials, 'trial')}"
            f"{f', {earlier} of them done' if earlier else ''}, loss {asked.loss}, "
            f"risk {asked.risk}, seed {asked.seed}"
        )
        best = _searched(job, folder, new)
    if best is None:
        typer.echo(f"time limit reached; other processes will write {folder.path}", err=True)
        return
    if options.timeout is not None and best["trials"]["finished"] < options.trials:
        trials = f"{best['trials']['finished']} of {options.trials} trials"
        typer.echo(f"--timeout: {trials}; rerun the command to continue", err=True)
    if options.as_json:
        columns = records(job.problem.columns.overview())
        table = {"notes": _notes_on_table(job.problem), "columns": columns}
        content = {"folder": str(folder.path), **best, **table}
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    if "targets" in best:
        show_targets(console, best, folder.path)
        verdicts = [(t["site"], t["verdict"], t["reason"]) for t in best["targets"]]
    else:
        show_result(console, best, folder.path)
        verdicts = [(best["target"], best["verdict"]["trust"], best["verdict"]["reason"])]
    for site, trust, reason in verdicts:
        if trust == Trust.DO_NOT_USE:
            typer.echo(printable(f"Do not use this model at {site}: {reason}"), err=True)


def report(path: Path, moved: Mapping[str, Path | None]) -> None:
    """Write the files of a result again, from the trials so far: of all targets, or of one."""
    if not ResultFolder.can_report():
        raise MissingPackageError(NO_REPORT)
    folder = ResultFolder(path)
    if lost := folder.lost() or ("" if folder.finished() else f"{path} has no finished trial"):
        raise StorageError(f"{lost}; run this first: {folder.last_command}")
    with notes_for_warnings(), only_search_of(folder.journal):
        write_results(folder, reopened(folder, moved))
    if states := folder.updates.states:
        show_updates(screen(), path, states, ())
    typer.echo(f"Written to {path / REPORT}")


def _default_folder(options: TuneOptions) -> Path:
    pattern = any(sign in options.data.name for sign in "*?[")
    name = options.data.resolve().parent.name if pattern else options.data.name
    stem = name.split(".", maxsplit=1)[0]
    models = "-".join(sorted(options.model)) or "auto"
    several = len(options.target) > 1
    target = f"{len(options.target)}_sites" if several else options.files.target_name
    return Path(re.sub(r"[^\w.-]+", "_", f"{stem}-{target}-{models}"))


def _searched(job: TuneJob, folder: ResultFolder, new: bool) -> dict[str, Any] | None:
    """Run the trials and write the result; None if other processes will write it."""
    if not folder.can_report():
        typer.echo(f"{NO_REPORT}; then: {shell_command('report', folder.path)}", err=True)
    with notes_for_warnings():
        if job.options.join:
            return _searched_together(job, folder)
        try:
            job.search.fit(job.problem)
        except StorageError:  # the folder may be that of another run of the same command
            raise
        except ProblemError:
            if new:
                folder.discard()
            raise
        return write_results(folder, job)


def _searched_together(job: TuneJob, folder: ResultFolder) -> dict[str, Any] | None:
    """Run trials with other processes; return the result, whichever process has written it.

    It is written when all trials are finished, by the first process that finds no other one
    writing: if it dies, the next one does it. After a timeout others may still be at work, who will
    write it.
    """
    search = job.search
    search.add_trials(job.problem)
    with one_at_a_time(folder.journal.with_name(f".{folder.journal.name}.writing")):
        finished = folder.finished()
        if finished < job.options.trials and is_searched(folder.journal):
            return None
        best = folder.complete(finished, job.options.of_result())
        if best is not None:
            return best
        search.refit()
        return write_results(folder, job)


# ---------------------------------------------------------------- the job


@dataclass(frozen=True)
class TuneJob:
    """Options whose table has been read and whose settings have been checked.

    Defaults that depend on the table are filled in; identifiers of the target's rows (and the site,
    if there are several) are as they are written in the file; the search is ready to fit.
    """

    options: TuneOptions
    problem: ShiftProblem
    identifiers: pd.DataFrame
    search: ShiftSearch

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the data that was read."""
        return self.problem.fingerprint()

    @property
    def places(self) -> Mapping[str, NDArray[np.intp]]:
        """Positions of the rows of each target among those of all."""
        target = self.problem.target
        return self.problem.target_rows or {target.name: np.arange(len(target))}

    def at(self, site: str) -> TuneJob:
        """Return the job of one of the targets; the search has a result."""
        if not self.problem.target_rows:
            return self
        identifiers = self.identifiers.iloc[self.places[site]].reset_index(drop=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # the verdict has it
            search = self.search.at(site)
        return replace(self, problem=search.problem_, identifiers=identifiers, search=search)


def prepare_job(options: TuneOptions, storage: Path) -> TuneJob:
    """Read the table and set up the search; writes nothing."""
    problem = _with_note(options.read(seed=options.seed))
    task = problem.task
    size = table_size(problem)
    # Sorted, so that the order of the options does not decide which model has the first trial.
    wanted = expand_auto(options.model or [_names.AUTO], task, options.loss)
    models = {
        name: ready_model(name, task, problem.columns, size=size)
        for name in expand_auto([_names.AUTO, *_names.MODELS], task, options.loss)
        if name in wanted
    }
    space = None
    if options.space is not None:
        if len(models) > 1:
            raise SettingsError("--space is for one model; give one --model with it")
        (model,) = models.values()
        space = space_from_entries(options.space, model.bare, model.space)
    made = {"estimator": models, "space": space, "storage": storage}
    search = ShiftSearch(**{**options.params(), **made})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` gives the same, as notes
        settings = check_settings(search.get_params(deep=False), problem)
    if (several := len(problem.targets) > 1) and settings.one_target:
        raise SettingsError(
            f"{settings.one_target}; tune for one --target at a time, or with --risk adjusted, "
            "which serves all of them"
        )
    settled: dict[str, Any] = {
        "target": [target.name for target in problem.targets],
        "task": task,
        "model": list(models),
        "space": None if space is None else space_entries(space),
        "loss": settings.loss.name,
        "final": settings.final,
    }
    identifiers = pd.DataFrame(index=range(len(problem.target)))
    if names := [*[options.files.site_column] * several, *problem.columns.identifiers]:
        identifiers = options.files.as_written(names, problem.target.rows)
    return TuneJob(replace(options, **settled), problem, identifiers, search)


def _notes_on_table(problem: ShiftProblem) -> list[str]:
    """Return the notes that do not stand beside a column."""
    return [note for note in problem.notes if note not in problem.columns.decisions]


def _with_note(problem: ShiftProblem) -> ShiftProblem:
    """Note that not all rows of the target are predicted, if they were not all read."""
    site, sample = problem.target, problem.sample
    if sample is None or all(sample.share_of(target.name) == 1 for target in problem.targets):
        return problem
    note = (
        f"predictions.csv has the {len(site):,} rows of {site.name} that were read; shiftune "
        "predict predicts all"
    )
    first, *others = problem.notes
    return replace(problem, notes=(first, note, *others))


def reopened(folder: ResultFolder, moved: Mapping[str, Path | None] | None = None) -> TuneJob:
    """Read the table and the trials of a result again; another table is refused.

    From the folder of a site, the job is that of this target.
    """
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
    check_folder(ResultFolder(folder.study), job)
    job.search.set_params(n_trials=folder.settings()["runs"][-1]["trials"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # shown by tune
        job.search.reopen(job.problem)
    sites = folder.sites()
    return job.at(*sites) if len(sites) == 1 else job


def expected_at(folder: ResultFolder, sites: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Say what to expect at sites that the search did not know, from their rows."""
    try:
        job = reopened(folder)
        loss = loss_in_words(job.search.result_.loss.name)
        for site, X in sites.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OverlapWarning)  # the verdict has it
                search = job.search.at(X, name=site)
                expected = with_interval(search.risk_.value, search.risk_.interval())
                verdict = search.verdict_
            yield f"{site} is new; {loss} expected there: {expected}; {verdict}"
    except ProblemError as error:  # such as a table that was moved
        yield f"there is no estimate for new sites: {error}"


# ---------------------------------------------------------------- the folder of a job


@contextmanager
def _one_beginning(folder: ResultFolder) -> Iterator[None]:
    """Let one process at a time check the settings in a folder, and record its own run."""
    with writing_to(folder.path, OUT):
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with one_at_a_time(folder.path / f"{PART}beginning"):
        yield


def check_folder(folder: ResultFolder, job: TuneJob) -> bool:
    """Make sure that a folder can be used for a job; return whether it is new.

    A folder of other data or settings, or with other files, is refused.
    """
    path = folder.path
    if path.exists() and not path.is_dir():
        raise StorageError(f"{path} is a file, not a folder; give another with --out")
    with writing_to(path, OUT):
        there = path.is_dir() and any(not file.name.startswith(PART) for file in path.iterdir())
    if not there:
        return True
    if not (path / SETTINGS).exists():
        raise StorageError(
            f"the folder {path} is not empty and holds no result of shiftune; give another with "
            "--out"
        )
    settings = folder.settings()
    earlier, now = folder.options().compared(), job.options.compared()
    # Options that read the same file differently imply other data, which is not reported again.
    if all(earlier[name] == now[name] for name in named(TuneOptions, Role.DATA)):
        earlier, now = earlier | {"data": settings["data"]}, now | {"data": job.fingerprint}
    elsewhere = "give another folder with --out, or the same settings to continue"
    check_same(earlier, now, str(path), elsewhere, hidden=("space", "data"))
    folder.best()  # an error if it is damaged
    return False


def begin(folder: ResultFolder, job: TuneJob) -> None:
    """Record a run with its command and versions; create the folder if needed."""
    path = folder.path
    date = datetime.now().astimezone().isoformat("T", "seconds")
    run = {"command": command_line(), "date": date, "trials": job.options.trials} | made_with()
    earlier = folder.settings()["runs"] if (path / SETTINGS).exists() else []
    settings = {
        "format": RESULT_FORMAT,
        "files": job.options.saved_files(),
        "data": job.fingerprint,
        "options": job.options.saved(),
        "runs": [*earlier, run],
    }
    with writing_to(path, OUT):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(path / SETTINGS, settings)
        with atomic_write(path / COMMAND) as part:
            part.write_text(settings_text(job.options), "utf-8")


# Targets whose folders are written; others have theirs once labels update them.
MOST_FOLDERS = 30


def write_results(folder: ResultFolder, job: TuneJob) -> dict[str, Any]:
    """Write all files of a fitted search, and of each target; return the content of `BEST`."""
    if not job.problem.target_rows:
        return write_result(folder, job)
    # The sources have a few lines at the end, unless two are too few to spare one.
    table = job.search.target_table(sources=2 < len(job.problem.names) <= MOST_FOLDERS)
    with writing_to(folder.path, OUT):
        (folder.path / BEST).unlink(missing_ok=True)
    sites = folder.sites()
    urgent = [site for site in table.index if site in sites]
    for place, site in enumerate(urgent):
        if place < MOST_FOLDERS or sites[site].path.exists():
            write_site(sites[site], job, site)
    written = {site: f"{SITES}/{part.path.name}" for site, part in sites.items() if part.best()}
    return write_result(folder, job, table.assign(folder=table.index.map(written.get)))


def write_site(folder: ResultFolder, job: TuneJob, site: str) -> None:
    """Write all files of one of several targets."""
    _interrupts.check()
    with writing_to(folder.path, OUT):
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_result(folder, job.at(site))


def write_result(
    folder: ResultFolder, job: TuneJob, targets: pd.DataFrame | None = None
) -> dict[str, Any]:
    """Write all files of a fitted search; return the content of `BEST`.

    `BEST` goes first and comes back last: where it is, the other files belong to it. With a table
    of several targets, that and an overview take the place of model card and report.
    """
    search, path = job.search, folder.path
    labelled = job.problem.target_labelled if job.options.use_target_labels else None
    origin = _origin(folder, job)
    best = search.result_.summary(settings=origin)
    del best["provenance"]["settings"]  # which settings.json has, with every run
    with writing_to(path, OUT):
        for outdated in (BEST, REPORT, CARD):
            (path / outdated).unlink(missing_ok=True)
        trials = search.trials_
        with atomic_write(path / TRIALS) as part:
            (safe_for_spreadsheets(trials) if job.options.safe_csv else trials).to_csv(part)
        model = table_model(job, search.predictor_, search.result_.site_scores)
        model_file = save_model(model, path / MODEL, mark=fingerprint(best)).name
        with atomic_write(path / PREDICTIONS) as part:
            predictions(job, search, labelled).to_csv(part, index=False)
    best |= {**job.options.of_result(), "model_file": model_file}
    updates = [] if targets is not None else list(Updates(path, best).states.values())
    if targets is None:
        with writing_to(path, OUT), atomic_write(path / CARD) as part:
            save_model_card(search.result_, part, settings=origin, updates=updates)
    else:
        best["targets"] = records(targets.assign(level=targets["verdict"].map(LEVEL_OF)))
        with writing_to(path, OUT), atomic_write(path / TARGETS) as part:
            (safe_for_spreadsheets(targets) if job.options.safe_csv else targets).to_csv(part)
    if folder.can_report():
        with writing_to(path, OUT), atomic_write(path / REPORT) as part:
            if targets is None:
                search.report(part, settings=origin, updates=updates)
            else:
                pages = {
                    t["site"]: f"{t['folder']}/{REPORT}" for t in best["targets"] if t["folder"]
                }
                save_overview(search.result_, part, table=targets, pages=pages)
    with writing_to(path, OUT):
        write_json(path / BEST, best)
    return best


def _origin(folder: ResultFolder, job: TuneJob) -> dict[str, str]:
    """Return where a result comes from, for the report and the model card.

    These are shown to others: the command, and where the files are, stay in the settings.
    """
    settings = folder.settings()
    last = settings["runs"][-1]
    labelled = job.problem.target_labelled
    remarks = (remark.removeprefix("column ") for remark in job.problem.columns.decisions)
    used = f"used: {labelled.sum()} of {len(labelled)} rows" if labelled.any() else "not used"
    return {
        "command": f"shiftune tune --settings {COMMAND}",
        "data file": ", ".join(Path(file).name for file in settings["files"].values()),
        "data fingerprint": settings["data"],
        "labels of the target": used,
        "columns": "; ".join(remarks) or "all",
        "seed": str(settings["options"]["seed"]),
        "date": last["date"],
        "versions": versions_in_words(last["versions"]),
    }


def table_model(job: TuneJob, predictor: Any, scores: SiteScores) -> TableModel:
    """Return a fitted predictor with the profile of its training rows."""
    columns, target = job.problem.columns, pd.DataFrame(job.problem.target.X)
    return TableModel(
        predictor,
        columns,
        ColumnSummaries.of(target.drop(columns=columns.uncompared)),
        columns.identifiers,
        job.options.label,
        scores,
    )


def predictions(
    job: TuneJob, predictor: Any, labelled: NDArray[np.bool_] | None = None
) -> pd.DataFrame:
    """Return identifiers, position in the table and prediction of every target row.

    Rows whose label the predictor has seen, a bool array of shape (n_T,), have a column if given.
    """
    frame = prediction_columns(predictor, pd.DataFrame(job.problem.target.X))
    if labelled is not None:
        frame.insert(0, "label_used", labelled)
    frame.insert(0, ROW, job.problem.target.rows)
    whole = with_identifiers(job.identifiers, frame)
    return safe_for_spreadsheets(whole) if job.options.safe_csv else whole
