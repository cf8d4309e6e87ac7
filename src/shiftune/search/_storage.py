"""Storage of a search: its study, what it shares with one that continues it, and predictions.

Trials are in memory, in a journal file or in any storage of Optuna; their out-of-site predictions
are in files beside the journal, or in memory.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import random
import re
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import numpy as np
import optuna
import pandas as pd
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage
from optuna.trial import FrozenTrial

from shiftune._files import PART, atomic_write
from shiftune._options import Role, options
from shiftune._provenance import check_format, check_same
from shiftune._wording import count, how_to_install
from shiftune.errors import MissingPackageError, ProblemError, SettingsError, StorageError
from shiftune.evaluate._fits import Predictions
from shiftune.search._driver import (
    Claims,
    Driver,
    FileHeartbeats,
    Heartbeat,
    JoinedDriver,
    OnlyDriver,
    StudyHeartbeats,
)
from shiftune.search._journal import explained, open_journal, search_lock
from shiftune.search._trial import MODEL, PREDICTIONS_BYTES, finished_trials

if TYPE_CHECKING:
    from shiftune.problem import ShiftProblem
    from shiftune.search._loop import TrialWorkers
    from shiftune.search._settings import Settings

logger = logging.getLogger("shiftune")

# A path is a journal file, other text a URL of Optuna; None is memory.
Storage = str | os.PathLike[str] | BaseStorage | None

STUDY_NAME = "shiftune"
CLAIMS_NAME = "shiftune drivers"
IDENTITY = "shiftune_identity"
FORMAT_NUMBER = "shiftune_format"
# A random mark of the study, by which its predictions are known.
MARK = "shiftune_mark"
# Number of the form in which trials are recorded.
FORMAT = 6
# Attempts to open a storage that others may be creating.
ATTEMPTS = 8
# A driver waits so long for others that are writing to the same file.
SQLITE_SECONDS = 60
# The folder of predictions has the name of the journal with this suffix.
PREDICTIONS = ".predictions"
# Trials of a model family whose predictions are kept, those of lowest risk. An ensemble chooses
# among at most so many, and all that are kept together take at most so many bytes. (100,000 rows
# of a quantity or of two classes take 800 kB per trial.)
MOST_KEPT = 24
MOST_BYTES = 2**30


def open_study(
    storage: Storage, identity: Mapping[str, str], *, join: bool = False
) -> optuna.Study:
    """Create a study, or continue the one in the storage if its `identity` is the same.

    With `join`, others may open the same storage at the same time.
    """
    study = load_study(storage, join=join)
    where = f"the storage {shown(storage)}"
    if len(study.directions) > 1:
        raise StorageError(
            f"{where} holds a study with {len(study.directions)} objectives; give another storage"
        )
    is_new = not study.get_trials(deepcopy=False)
    if is_new:
        marks = {FORMAT_NUMBER: FORMAT, IDENTITY: dict(identity), MARK: uuid.uuid4().hex}
        if join:  # all have the marks of the first
            marks = open_claims(study).claim("study", marks)
        for name, value in marks.items():
            study.set_user_attr(name, value)
    if join or not is_new:
        check_format(study.user_attrs.get(FORMAT_NUMBER), FORMAT, where)
        advice = "give another storage, or the same data and settings to continue"
        check_same(study.user_attrs.get(IDENTITY, {}), identity, where, advice, hidden=identity)
    return study


def load_study(storage: Storage, *, join: bool = False) -> optuna.Study:
    """Return the study of a storage, which is created if it is new."""
    for attempt in range(ATTEMPTS if join else 1):
        if attempt:
            # Of processes that create the tables of a database at the same time, all but one fail.
            time.sleep(random.random())
        try:
            return _study(optuna.storages.get_storage(_optuna_storage(storage, join)), STUDY_NAME)
        except ProblemError:
            raise
        except ImportError as error:
            extra = how_to_install("postgresql")
            raise MissingPackageError(
                f"the storage {shown(storage)} needs a package ({error.__cause__ or error}); "
                f"install it ({extra} for PostgreSQL; its URL begins with postgresql+psycopg://)"
            ) from error
        except Exception as error:  # Optuna, SQLAlchemy and JSON each have errors of their own
            failure = error
    what = "cannot be opened as a journal of trials or as an Optuna storage"
    raise _explained(storage, failure, what, "give another")


def _optuna_storage(storage: Storage, join: bool) -> str | BaseStorage | None:
    if path := _journal(storage):
        return JournalStorage(open_journal(path))
    if join and isinstance(storage, str) and storage.startswith("sqlite"):
        patience = {"connect_args": {"timeout": SQLITE_SECONDS}}
        return optuna.storages.RDBStorage(storage, engine_kwargs=patience)
    return storage  # type: ignore[return-value]  # paths are journals


def _journal(storage: Storage) -> Path | None:
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
        raise StorageError(f"the storage {text!r} is not an ordinary file; give another path")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _study(storage: BaseStorage, name: str) -> optuna.Study:
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

    handlers = logging.getLogger("optuna").handlers
    for handler in handlers:
        handler.addFilter(is_shown)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_shown)


# Before the host, as SQLAlchemy reads it, and among the options; the text is the last group.
_PASSWORDS = (
    re.compile(r"([?&;][^=&]*(?:pass|pwd|secret|token|odbc_connect)[^=&]*=)([^&]*)", re.IGNORECASE),
    re.compile(r"(://[^:/@]*:)(.*(?=@)|(?!\d*([/?]|$)).*)", re.DOTALL),  # or the host is forgotten
)


class StorageUrl(str):
    """URL of a storage; its repr has no passwords.

    >>> StorageUrl("postgresql://me:secret@server/trials?sslpassword=secret")
    'postgresql://me:***@server/trials?sslpassword=***'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        text = str(self)
        for pattern in _PASSWORDS:
            text = pattern.sub(r"\1***", text)
        return repr(text)

    def without_passwords(self, text: str) -> str:
        """Return a text without these passwords, as they are written here, decoded or in ODBC."""
        hidden = {match[2] for pattern in _PASSWORDS for match in pattern.finditer(self)}
        hidden |= set(map(unquote_plus, hidden))
        hidden |= {part.partition("=")[2] for secret in hidden for part in secret.split(";")}
        for secret in sorted(hidden - {""}, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def shown(storage: object) -> str:
    """Return a storage as errors name it, without passwords."""
    return repr(StorageUrl(storage))


def _explained(storage: Storage, error: Exception, what: str, advice: str) -> ProblemError:
    """Return an error that names the storage and its cause, without passwords."""
    reason = StorageUrl(storage).without_passwords(str(error))
    storage_error = StorageError(f"the storage {shown(storage)} {what} ({reason}); {advice}")
    # A traceback shows the cause, too.
    storage_error.__cause__ = error if reason == str(error) else None
    return storage_error


def trials_in(journal: Path) -> list[FrozenTrial]:
    """Return the finished trials of a journal; none where there is no file."""
    return finished_trials(load_study(journal)) if journal.exists() else []


@contextmanager
def only_search_of(storage: Storage, *, join: bool = False) -> Iterator[None]:
    """Refuse a second search of a journal inside the block, unless both `join`.

    Errors of a database, a full disk for example, become a `StorageError`.
    """
    path = _journal(storage)
    try:
        with search_lock(path.resolve(), join=join) if path else nullcontext():
            yield
    except StorageInternalError as error:
        again = "fix this, then rerun the command, which continues after the last trial in it"
        failed = _explained(storage, error, "cannot be written", again)
        raise failed from failed.__cause__


def open_claims(study: optuna.Study) -> Claims:
    """Return the claims of the drivers of a study, which are in the same storage."""
    return Claims(_study(study._storage, CLAIMS_NAME))


def open_driver(storage: Storage, study: optuna.Study, *, join: bool) -> Driver:
    """Return the driver of a search: one that has the study alone, or shares it with others."""
    if not join:
        return OnlyDriver(study)
    claims, path = open_claims(study), _journal(storage)
    heartbeats = FileHeartbeats(path.resolve()) if path else StudyHeartbeats(claims.study)
    return JoinedDriver(study, claims, Heartbeat(heartbeats))


# ---------------------------------------------------------------- identity of a search


def identity(settings: Settings, problem: ShiftProblem) -> dict[str, str]:
    """Return what must be the same for trials of one study to be comparable."""
    oracle = problem.oracle if settings.risk.uses_target_labels else None
    data = f"{problem.fingerprint()} {stable_repr(oracle and oracle.labels)}"
    values = {option.name: getattr(settings, option.name) for option in options(Role.SEARCH)}
    return {"data": data} | {name: stable_repr(value) for name, value in values.items()}


def stable_repr(thing: Any) -> str:
    """Describe settings, models and functions by what they are, never by where they are stored.

    >>> stable_repr(lambda y, p: y - p) == stable_repr(lambda y, p: y + p)
    False
    >>> from sklearn.linear_model import Ridge
    >>> stable_repr(Ridge()) == stable_repr(Ridge(alpha=1.0)), stable_repr({"b": 1, "a": (2,)})
    (True, '{a: (2), b: 1}')
    """
    if thing is None or isinstance(thing, bool | int | float | str | bytes | np.generic):
        return repr(thing.item() if isinstance(thing, np.generic) else thing)
    if isinstance(thing, dict):
        return (
            "{" + ", ".join(f"{k}: {stable_repr(thing[k])}" for k in sorted(thing, key=str)) + "}"
        )
    if isinstance(thing, list | tuple | set | frozenset):
        parts = [stable_repr(part) for part in thing]
        return "(" + ", ".join(sorted(parts) if isinstance(thing, set | frozenset) else parts) + ")"
    if isinstance(thing, np.ndarray):
        return f"array {thing.shape} {_digest(pd.util.hash_array(np.ravel(thing)).tobytes())}"
    if isinstance(thing, pd.DataFrame | pd.Series):
        return f"table {_digest(pd.util.hash_pandas_object(thing).to_numpy().tobytes())}"
    if isinstance(thing, functools.partial):
        called = (thing.func, thing.args, thing.keywords)
        return "partial " + " ".join(stable_repr(part) for part in called)
    if isinstance(thing, FunctionType):
        closed_over = [cell.cell_contents for cell in thing.__closure__ or ()]
        inside = (
            f"{_code(thing.__code__)} {stable_repr(thing.__defaults__)} {stable_repr(closed_over)}"
        )
        return f"{_home(thing)}.{thing.__qualname__} {_digest(inside.encode())}"
    if isinstance(thing, type | BuiltinFunctionType | np.ufunc):
        return f"{_home(thing)}.{thing.__name__}"
    name = f"{_home(type(thing))}.{type(thing).__qualname__}"
    if hasattr(thing, "get_params"):
        return f"{name} {stable_repr(thing.get_params(deep=False))}"
    if isinstance(thing, np.random.RandomState | np.random.Generator):
        return name
    if slots := getattr(type(thing), "__slots__", None):
        return f"{name} {stable_repr({s: getattr(thing, s, None) for s in slots})}"
    if getattr(thing, "__dict__", None):
        return f"{name} {stable_repr(vars(thing))}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _home(thing: Any) -> str:
    """Module of a class or function; of ours the public package, whose private modules may move."""
    module = getattr(thing, "__module__", None) or ""
    return module.partition("._")[0] if module.startswith("shiftune.") else module


def _code(code: CodeType) -> str:
    """Return the bytecode with its names and constants; those of inner functions too."""
    constants = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


# ---------------------------------------------------------------- predictions of trials


class PredictionStore:
    """Predictions by the number of their trial, in files of a folder or, with None, in memory.

    Files are written completely or not at all, and their zip format has checksums: a damaged file
    counts as missing and is removed, as does one of another trial or study. Where a file cannot be
    written, the predictions stay in memory.

    >>> store = PredictionStore(None)
    >>> store.put(3, np.zeros(2))
    >>> store.get(3), store.get(4)
    (array([0., 0.]), None)
    """

    def __init__(self, folder: Path | None, study: str = "") -> None:
        self.folder = folder  # created with the first file
        self._study = study
        self._memory: dict[int, Predictions] = {}

    def put(self, number: int, predictions: Predictions) -> None:
        """Keep the predictions of a trial."""
        self._memory[number] = predictions
        if self.folder is None:
            return
        path = self.folder / f"{number}.npz"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with atomic_write(path, interruptible=False) as part, part.open("wb") as file:
                np.savez(
                    file,
                    study=np.array(self._study),
                    trial=np.array(number),
                    predictions=predictions,
                    allow_pickle=False,
                )
        except OSError as error:
            logger.warning("predictions of trial %d stay in memory: %s", number, error)
        else:
            del self._memory[number]

    def get(self, number: int) -> Predictions | None:
        """Return the predictions of a trial; None if there are none."""
        if number in self._memory or self.folder is None:
            return self._memory.get(number)
        path = self.folder / f"{number}.npz"
        try:
            # NumPy leaves a file open whose directory it cannot read.
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = dict(file)
            if (str(arrays["study"]), int(arrays["trial"])) != (self._study, number):
                raise ValueError("it belongs to another study or trial")
            return np.asarray(arrays["predictions"])
        except FileNotFoundError:
            return None
        except Exception as error:  # zip files and arrays can be damaged in many ways
            logger.warning(
                "%s is damaged or of another trial, and is removed; it is computed again if it is "
                "needed",
                path,
            )
            logger.debug("%s: %s", path, error)
            path.unlink(missing_ok=True)
            return None

    def keep(self, numbers: Collection[int], among: Collection[int] | None = None) -> None:
        """Drop the predictions of all other trials, or of those among some."""

        def stays(number: int) -> bool:
            return number in numbers or (among is not None and number not in among)

        self._memory = {n: predictions for n, predictions in self._memory.items() if stays(n)}
        if self.folder is None or not self.folder.is_dir():
            return
        for path in self.folder.glob("*.npz"):
            # Parts of files are left by a process that was killed.
            number, left = path.name.removeprefix(PART)[:-4], path.name.startswith(PART)
            if number.isdecimal() and ((left and among is None) or not stays(int(number))):
                path.unlink(missing_ok=True)

    def __getstate__(self) -> dict[str, Any]:
        # A fitted search that is loaded elsewhere needs no predictions, unless it is refitted.
        return vars(self) | {"_memory": {}}


def open_predictions(
    storage: Storage, study: optuna.Study, folder: str | os.PathLike[str] | None = None
) -> PredictionStore:
    """Return the predictions of a study: in a folder, by default beside a journal, or in memory."""
    path = _journal(storage)
    beside = path.with_name(f"{path.name}{PREDICTIONS}") if path else None
    place = beside if folder is None else Path(folder).absolute()
    return PredictionStore(place, study.user_attrs.get(MARK, ""))


def candidates(trials: Iterable[FrozenTrial]) -> list[int]:
    """Return the trials whose predictions are kept: those of lowest risk of every model family.

    At most `MOST_KEPT` of a family, and fewer if the predictions of all would exceed `MOST_BYTES`;
    of every family at least one. Trials without predictions are none.
    """
    families: dict[str, list[tuple[float, int]]] = defaultdict(list)
    largest = 1
    for trial in trials:
        size = trial.user_attrs.get(PREDICTIONS_BYTES, 0)
        if trial.value is not None and size:
            families[trial.user_attrs.get(MODEL, "")].append((trial.value, trial.number))
            largest = max(largest, size)
    most = min(MOST_KEPT, MOST_BYTES // (largest * max(len(families), 1)))
    return [n for family in families.values() for _, n in sorted(family)[: max(most, 1)]]


def complete_predictions(
    store: PredictionStore, items: Mapping[int, Any], workers: Callable[[], TrialWorkers]
) -> dict[int, Predictions]:
    """Return the predictions of trials, computing again and storing those that the store lacks.

    `items` has what a worker gets for every trial; `workers` makes new workers if any predictions
    are missing. Trials that fail this time are left out.
    """
    stored = {number: store.get(number) for number in items}
    predictions = {number: p for number, p in stored.items() if p is not None}
    missing = [number for number in items if number not in predictions]
    if not missing:
        return predictions
    logger.warning(
        "computing again the predictions of %s, which are missing", count(len(missing), "trial")
    )
    with workers() as pool:
        for number in missing:
            pool.submit(number, items[number])
        for number in missing:
            try:
                computed = pool.result(number).predictions
            except Exception as error:  # the worker died, or the time was over
                logger.info(
                    "trial %d failed when its predictions were computed again: %s", number, error
                )
                continue
            if computed is not None:
                predictions[number] = computed
                store.put(number, computed)
    return {number: predictions[number] for number in items if number in predictions}
