"""Storage of trials: memory, a journal file, or any Optuna storage."""

from __future__ import annotations

import logging
import os
import threading
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
from shiftune.search.journal_file import JournalFile, explained, repair
from shiftune.search.journal_lock import JournalLock, only_search
from shiftune.search.records import finished_trials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


STUDY_NAME = "shiftune"
IDENTITY = "shiftune_identity"
FORMAT_NUMBER = "shiftune_format"
# A random mark of the study, by which its answers are known.
MARK = "shiftune_mark"
# What the name of the folder of answers adds to that of the journal.
ANSWERS = ".answers"
# Number of the form in which trials are recorded.
FORMAT = 2
# Loggers of Optuna's storages, which announce every new study.
ANNOUNCING = (
    "optuna.storages._in_memory",
    "optuna.storages.journal._storage",
    "optuna.storages._rdb.storage",
)


def open_study(
    storage: str | os.PathLike[str] | BaseStorage | None,
    identity: Mapping[str, str],
) -> optuna.Study:
    """Create a study, or continue the one in the storage if data and settings are the same.

    Parameters
    ----------
    storage : path, Optuna storage URL, Optuna storage or None
        A path is a journal file; None is memory.
    identity : mapping
        What must be the same for trials to be comparable: fingerprint of the data, loss, ...
    """
    study = _study(storage)
    if len(study.directions) > 1:
        raise StorageError(
            f"the storage {storage!r} holds a study with {len(study.directions)} objectives; "
            "give another storage"
        )
    if not study.get_trials(deepcopy=False):
        study.set_user_attr(FORMAT_NUMBER, FORMAT)
        study.set_user_attr(IDENTITY, dict(identity))
        study.set_user_attr(MARK, uuid.uuid4().hex)
    else:
        where = f"the storage {str(storage)!r}"
        check_format(study.user_attrs.get(FORMAT_NUMBER), FORMAT, where)
        advice = "give another storage, or the same data and settings to continue"
        check_same(study.user_attrs.get(IDENTITY, {}), identity, where, advice, hidden=identity)
    return study


def open_answers(
    storage: str | os.PathLike[str] | BaseStorage | None, study: optuna.Study
) -> AnswerStore:
    """Return the store of a study's answers: beside a journal file, otherwise in memory."""
    path = _journal(storage)
    folder = None if path is None else path.with_name(f"{path.name}{ANSWERS}")
    return AnswerStore(folder, study.user_attrs.get(MARK, ""))


def trials_in(journal: Path) -> list[optuna.trial.FrozenTrial]:
    """Return the finished trials of a journal; none where there is no file."""
    return finished_trials(_study(journal)) if journal.exists() else []


@contextmanager
def only_search_of(storage: str | os.PathLike[str] | BaseStorage | None) -> Iterator[None]:
    """Refuse a second search inside the block, if the storage is a journal file.

    Errors of a database, a full disk for example, become a `StorageError`.
    """
    path = _journal(storage)
    try:
        with nullcontext() if path is None else only_search(path.resolve()):
            yield
    except StorageInternalError as error:
        raise StorageError(
            f"the storage {str(storage)!r} cannot be written ({error}); put this right and run the "
            "same again, which continues after the last trial in it"
        ) from error


def _study(storage: str | os.PathLike[str] | BaseStorage | None) -> optuna.Study:
    try:
        opened = optuna.storages.get_storage(_opened(storage))
        try:  # creating a study that exists would add a record to a journal
            return optuna.load_study(study_name=STUDY_NAME, storage=opened)
        except KeyError:
            with _quiet_optuna():
                return optuna.create_study(
                    storage=opened,
                    study_name=STUDY_NAME,
                    direction="minimize",
                    load_if_exists=True,
                )
    except ProblemError:
        raise
    except Exception as error:  # Optuna, SQLAlchemy and JSON each have errors of their own
        raise StorageError(
            f"the storage {str(storage)!r} cannot be opened as a journal of trials or as an "
            f"Optuna storage ({type(error).__name__}: {error}); give another"
        ) from error


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


def _opened(storage: str | os.PathLike[str] | BaseStorage | None) -> str | BaseStorage | None:
    path = _journal(storage)
    if path is None:
        return storage  # type: ignore[return-value]  # paths are journals
    with explained(path):
        with path.open("a"):
            pass
        # A search that was killed has left it, with a version that used Optuna's own locks.
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
        with JournalLock(path):  # a line that another process is writing is not torn
            repair(path)
    return JournalStorage(JournalFile(path))
