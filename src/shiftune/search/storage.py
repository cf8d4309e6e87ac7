"""Storage of trials: memory, a journal file, or any Optuna storage."""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
import uuid
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage

from shiftune.errors import ProblemError, SettingsError, StorageError
from shiftune.resuming import check_format, check_same
from shiftune.search.answer_store import AnswerStore
from shiftune.search.driver import Driver, OnlyDriver
from shiftune.search.heartbeat import FileBeats, Heartbeat, StudyBeats
from shiftune.search.joined_driver import JoinedDriver
from shiftune.search.journal_file import JournalFile, explained, repair
from shiftune.search.journal_lock import JournalLock, joined_search, only_search
from shiftune.search.records import finished_trials
from shiftune.search.tickets import Tickets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


STUDY_NAME = "shiftune"
DRIVERS_NAME = "shiftune drivers"
IDENTITY = "shiftune_identity"
FORMAT_NUMBER = "shiftune_format"
# A random mark of the study, by which its answers are known.
MARK = "shiftune_mark"
# What the name of the folder of answers adds to that of the journal.
ANSWERS = ".answers"
# Number of the form in which trials are recorded.
FORMAT = 2
# Attempts to open a storage that others may be creating.
ATTEMPTS = 8
# A driver waits so long for others that are writing to the same file.
SQLITE_SECONDS = 60
# Loggers of Optuna, which announce every new study.
ANNOUNCING = (
    "optuna.study.study",
    "optuna.storages._in_memory",
    "optuna.storages.journal._storage",
    "optuna.storages._rdb.storage",
)


def open_study(
    storage: str | os.PathLike[str] | BaseStorage | None,
    identity: Mapping[str, str],
    *,
    join: bool = False,
) -> optuna.Study:
    """Create a study, or continue the one in the storage if data and settings are the same.

    Parameters
    ----------
    storage : path, Optuna storage URL, Optuna storage or None
        A path is a journal file; None is memory.
    identity : mapping
        What must be the same for trials to be comparable: fingerprint of the data, loss, ...
    join : bool
        Whether others may open the same storage at the same time.
    """
    study = _study(storage, join=join)
    if len(study.directions) > 1:
        raise StorageError(
            f"the storage {shown(storage)} holds a study with {len(study.directions)} objectives; "
            "give another storage"
        )
    if not study.get_trials(deepcopy=False):
        marks = {FORMAT_NUMBER: FORMAT, IDENTITY: dict(identity), MARK: uuid.uuid4().hex}
        if join:  # all have the marks of the first
            marks = open_tickets(study).claim("study", marks).value
        for name, value in marks.items():
            study.set_user_attr(name, value)
    if join or study.get_trials(deepcopy=False):
        where = f"the storage {shown(storage)}"
        check_format(study.user_attrs.get(FORMAT_NUMBER), FORMAT, where)
        advice = "give another storage, or the same data and settings to continue"
        check_same(study.user_attrs.get(IDENTITY, {}), identity, where, advice, hidden=identity)
    return study


def shown(storage: object) -> str:
    """Return a storage as errors name it, without the password in a URL.

    >>> shown("postgresql://me:secret@server/trials")
    "'postgresql://me:***@server/trials'"
    """
    return repr(re.sub(r"(://[^:/@]*:)[^/]*@", r"\1***@", str(storage)))


def open_tickets(study: optuna.Study) -> Tickets:
    """Return the tickets of the drivers of a study, which are in the same storage."""
    return Tickets(_loaded(study._storage, DRIVERS_NAME))


def open_driver(
    storage: str | os.PathLike[str] | BaseStorage | None, study: optuna.Study, *, join: bool
) -> Driver:
    """Return the driver of a search: one that has the study alone, or shares it with others."""
    if not join:
        return OnlyDriver(study)
    tickets, path = open_tickets(study), _journal(storage)
    beats = StudyBeats(tickets.study) if path is None else FileBeats(path.resolve())
    return JoinedDriver(study, tickets, Heartbeat(beats))


def open_answers(
    storage: str | os.PathLike[str] | BaseStorage | None,
    study: optuna.Study,
    folder: str | os.PathLike[str] | None = None,
) -> AnswerStore:
    """Return the store of a study's answers: a folder, by default beside a journal, or memory."""
    path = _journal(storage)
    beside = None if path is None else path.with_name(f"{path.name}{ANSWERS}")
    place = beside if folder is None else Path(folder).absolute()
    return AnswerStore(place, study.user_attrs.get(MARK, ""))


def trials_in(journal: Path) -> list[optuna.trial.FrozenTrial]:
    """Return the finished trials of a journal; none where there is no file."""
    return finished_trials(_study(journal)) if journal.exists() else []


@contextmanager
def only_search_of(
    storage: str | os.PathLike[str] | BaseStorage | None, *, join: bool = False
) -> Iterator[None]:
    """Refuse a second search inside the block, if the storage is a journal file.

    Searches that have joined are refused only by one that has not.

    Errors of a database, a full disk for example, become a `StorageError`.
    """
    path = _journal(storage)
    lock = joined_search if join else only_search
    try:
        with nullcontext() if path is None else lock(path.resolve()):
            yield
    except StorageInternalError as error:
        raise StorageError(
            f"the storage {shown(storage)} cannot be written ({error}); put this right and run the "
            "same again, which continues after the last trial in it"
        ) from error


def _study(
    storage: str | os.PathLike[str] | BaseStorage | None, *, join: bool = False
) -> optuna.Study:
    for attempt in range(ATTEMPTS if join else 1):
        try:
            return _loaded(optuna.storages.get_storage(_opened(storage, join=join)), STUDY_NAME)
        except (ProblemError, ImportError):
            raise
        except Exception as error:  # Optuna, SQLAlchemy and JSON each have errors of their own
            failure = error
        if attempt < ATTEMPTS - 1:
            # Of processes that create the tables of a database at the same time, all but one fail.
            time.sleep(random.random())
    raise StorageError(
        f"the storage {shown(storage)} cannot be opened as a journal of trials or as an "
        f"Optuna storage ({type(failure).__name__}: {failure}); give another"
    ) from failure


def _loaded(storage: BaseStorage, name: str) -> optuna.Study:
    """Return a study of a storage, which is created if it is new."""
    try:  # creating a study that exists would add a record to a journal
        return optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        with _quiet_optuna():
            return optuna.create_study(
                storage=storage, study_name=name, direction="minimize", load_if_exists=True
            )


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Keep Optuna from announcing a new study on the terminal; other threads are not affected."""
    thread = threading.get_ident()

    def is_shown(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.levelno > logging.INFO

    loggers = [logging.getLogger(name) for name in ANNOUNCING]
    for logger in loggers:
        logger.addFilter(is_shown)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_shown)


def _journal(storage: str | os.PathLike[str] | BaseStorage | None) -> Path | None:
    """Return the path of a journal, in a folder that exists; None for other storages."""
    if storage is None or isinstance(storage, BaseStorage):
        return None
    if not isinstance(storage, str | os.PathLike):
        raise SettingsError(
            f"storage is a path, an Optuna storage or its URL, got {type(storage).__name__}"
        )
    text = os.fspath(storage)
    if "://" in text:
        return None
    path = Path(text).absolute()
    if path.is_dir():
        raise StorageError(f"the storage {text!r} is a folder; give the path of a file in it")
    if path.exists() and not path.is_file():
        raise StorageError(f"the storage {text!r} is no ordinary file; give another path")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _opened(
    storage: str | os.PathLike[str] | BaseStorage | None, *, join: bool = False
) -> str | BaseStorage | None:
    path = _journal(storage)
    if path is None:
        if join and isinstance(storage, str) and storage.startswith("sqlite"):
            patience = {"connect_args": {"timeout": SQLITE_SECONDS}}
            return optuna.storages.RDBStorage(storage, engine_kwargs=patience)
        return storage  # type: ignore[return-value]  # paths are journals
    with explained(path):
        with path.open("a"):
            pass
        # A search that was killed has left it, with a version that used Optuna's own locks.
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
        with JournalLock(path):  # a line that another process is writing is not torn
            repair(path)
    return JournalStorage(JournalFile(path))
