"""Folder of a result: its files, whether they are whole, its updates, the model in use.

Every file is written completely or not at all. JSON carries a format number and a checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from shiftune._files import atomic_write
from shiftune._provenance import RESULT_FORMAT, check_format
from shiftune._wording import listed
from shiftune.cli._console import note, shell_command
from shiftune.cli._options import TuneOptions
from shiftune.errors import ProblemError, StorageError
from shiftune.models import load_model, save_model
from shiftune.models._storing import PICKLED, mark_of
from shiftune.predictor._ensemble import TableModel

JOURNAL = "study.journal"
SETTINGS, COMMAND = "settings.json", "settings.toml"
BEST, TRIALS, PREDICTIONS = "best.json", "trials.csv", "predictions.csv"
REPORT, CARD, MODEL = "report.html", "model-card.md", "model"
SITES, TARGETS = "sites", "targets.csv"
UPDATES, LABELS, UPDATE = "updates", "labels.csv", "update.json"

CHECKSUM = "checksum"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file; its content has the number `RESULT_FORMAT`."""
    sealed = {**content, CHECKSUM: _checksum(content)}
    with atomic_write(path) as part:
        part.write_text(json.dumps(sealed, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_json(path: Path, advice: str = "give another folder") -> dict[str, Any]:
    """Read a file as it was written; one that is damaged or was edited is refused."""
    if not path.exists():
        raise StorageError(f"{path.parent} holds no result of shiftune tune (no {path.name})")
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} cannot be read ({error}); {advice}") from error
    if not isinstance(content, dict):
        raise StorageError(f"{path} is damaged; {advice}")
    check_format(content.get("format"), RESULT_FORMAT, str(path))
    if content.pop(CHECKSUM, None) != _checksum(content):
        raise StorageError(f"{path} is damaged or was edited; {advice}")
    return content


def fingerprint(best: Mapping[str, Any] | None) -> str:
    """Return what tells the model of a result from any other, whatever version words it.

    Risks are not part of it: other machines sum in another order.
    """
    if best is None:
        return _checksum(None)
    members = [(member["trial"], round(member["weight"], 6)) for member in best["members"]]
    return _checksum({"target": best["target"], "members": members, "params": best["params"]})


def _checksum(content: Mapping[str, Any] | None) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@contextmanager
def writing_to(folder: Path, advice: str) -> Iterator[None]:
    """Turn errors of the file system into a StorageError that names the folder."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"results cannot be written to {folder} ({error.strerror or error}); {advice}"
        ) from error


def check_free(path: Path, overwrite: bool) -> None:
    """Refuse to write over a file, unless this is asked for."""
    if not overwrite and os.path.lexists(path):
        raise StorageError(
            f"{path} exists; give another place with --out, or --overwrite to replace it"
        )


def command_line() -> str:
    """Return the command line of this process, which the files name."""
    return shell_command(*sys.argv[1:])


# Names that Windows keeps for devices, and those that other sites may have.
_ODD_NAME = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*-[0-9a-f]{8}", re.IGNORECASE)
_LONGEST_NAME = 60


def folder_names(sites: Sequence[str]) -> dict[str, str]:
    """Return a name for the folder of every site, different and safe on any file system.

    >>> folder_names(["A", "St. John's", ".."])
    {'A': 'A', "St. John's": 'site-St._John_s-de8580b5', '..': 'site--5ec1f7e7'}
    """
    plain = {site: re.sub(r"[^\w.-]+", "_", site)[:_LONGEST_NAME].strip("._-") for site in sites}
    alike = Counter(name.casefold() for name in plain.values())  # one folder on some systems
    names = {}
    for site, name in plain.items():
        if name != site or alike[name.casefold()] > 1 or _ODD_NAME.fullmatch(name):
            digest = hashlib.sha256(site.encode(errors="surrogatepass")).hexdigest()[:8]
            name = f"site-{name}-{digest}"
        names[site] = name
    return names


class ResultFolder:
    """Folder of the results of one job, which several runs may continue; it may not exist yet.

    That of several targets has a folder of the same kind for each, but without the `study` and its
    settings, which they share.
    """

    def __init__(self, path: Path) -> None:
        self.path = self.study = path
        above = path.resolve().parent
        if above.name == SITES and not (path / SETTINGS).exists():
            self.study = above.parent if (above.parent / SETTINGS).exists() else path
        self.journal = self.study / JOURNAL

    def settings(self) -> dict[str, Any]:
        """Return the content of settings.json."""
        return read_json(self.study / SETTINGS)

    def sites(self) -> dict[str, ResultFolder]:
        """Return the folder of every target: of one alone, this one."""
        targets = self.settings()["options"]["target"]
        if len(targets) == 1:
            return {targets[0]: self}
        names = folder_names(targets)
        if self.study == self.path:
            return {site: ResultFolder(self.path / SITES / name) for site, name in names.items()}
        return {site: self for site, name in names.items() if name == self.path.resolve().name}

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

    def best(self) -> dict[str, Any] | None:
        """Return the content of `BEST`; None where a search is not finished."""
        if not (self.path / BEST).exists():
            return None
        again = "remove it and run the same shiftune tune again, which adds no trial"
        return read_json(self.path / BEST, again)

    def complete(self, trials: int, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return the content of `BEST` if it is the result of so many trials, and complete.

        `BEST` is removed before any other file is written, and comes back last: where it is, the
        others belong to it.
        """
        best = self.best()
        if best is None or best["trials"]["finished"] < trials:
            return None
        if any(best.get(name) != value for name, value in asked.items()):
            return None
        files = [TRIALS, PREDICTIONS, best["model_file"], *[REPORT] * self.can_report()]
        files.append(TARGETS if "targets" in best else CARD)
        inside = [t["folder"] for t in best.get("targets", ()) if t["folder"] is not None]
        whole = all((self.path / name).exists() for name in files) and all(
            ResultFolder(self.path / name).complete(trials, asked) for name in inside
        )
        return best if whole else None

    def completed(self, trials: int = 1) -> dict[str, Any]:
        """Return the content of `BEST`; an error if it has fewer trials, or is not complete."""
        best = self.complete(trials, self.options().of_result())
        if best is None:
            raise StorageError(f"{self.path} is not finished; run this first: {self.last_command}")
        return best

    @staticmethod
    def can_report() -> bool:
        """Whether the packages that a report needs are installed."""
        return all(find_spec(package) for package in ("jinja2", "matplotlib"))

    def finished(self) -> int:
        """Return the number of finished trials in the journal."""
        from shiftune.search._storage import trials_in

        return len(trials_in(self.journal))

    def lost(self) -> str:
        """Return which trials of the result are not in the journal any more; "" if all are."""
        best, left = self.best(), self.finished()
        had = 0 if best is None else best["trials"]["finished"]
        if had <= left:
            return ""
        return (
            f"{self.journal} holds {left} of the {had} trials of this result, because it was "
            "deleted, cut or damaged"
        )

    def discard(self) -> None:
        """Remove the files of a first run that failed before any trial had a result."""
        from shiftune.search._storage import PREDICTIONS, trials_in

        with suppress(OSError, ProblemError):
            if any(trial.value is not None for trial in trials_in(self.journal)):
                return
            shutil.rmtree(self.path / f"{JOURNAL}{PREDICTIONS}", ignore_errors=True)
            for path in self.path.iterdir():
                if path.name.lstrip(".").startswith((JOURNAL, SETTINGS, COMMAND, "part-")):
                    path.unlink()
            self.path.rmdir()  # unless others have files there

    @property
    def updates(self) -> Updates:
        """Updates of the result by labels."""
        return Updates(self.path, self.best())

    def model(self) -> TableModel:
        """Load the model that predicts: the last update of the result, if there is one."""
        updates, path = self.updates, self.path / self.completed()["model_file"]
        mark, again = updates.fingerprint, f"{shell_command('report', self.path)} writes it again"
        if updates.finished:
            last = updates.record(max(updates.finished))
            state = updates.state(last["number"])
            if last["current"]:
                path, mark = state / last["model_file"], f"{mark} {last['number']}"
                again = f"remove {state}, and run shiftune update again"
            else:
                note(
                    f"the updates in {self.path} are of an earlier model and are not used; update "
                    f"this one: {shell_command('update', self.path, state / LABELS)}"
                )
        if path.suffix == PICKLED:
            raise StorageError(
                f"{path} is a model that skops cannot store, and loading it executes code; if you "
                "trust its origin, load it in Python: shiftune.load_model(path, execute_code=True)"
            )
        model = load_model(path)
        if not isinstance(model, TableModel):
            raise StorageError(f"{path} was written by another version of shiftune; {again}")
        if mark_of(path) != mark:
            raise StorageError(f"{path} is the model of another result; {again}")
        return model


class Updates:
    """States of a folder: `updates/1`, `updates/2`, ..., each made of all labels so far.

    The file `UPDATE` is written last: a state without it was not finished, and its number is used
    again. Other files of the folder are never changed. `best` is the content of best.json, whose
    model they update; None where there is none.
    """

    def __init__(self, folder: Path, best: Mapping[str, Any] | None) -> None:
        self.path = folder / UPDATES
        self.fingerprint = fingerprint(best)

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
    def next(self) -> int:
        """Number of the state that is written next."""
        return max(self.finished, default=0) + 1

    def state(self, number: int) -> Path:
        """Return the folder of a state."""
        return self.path / str(number)

    def record(self, number: int) -> dict[str, Any]:
        """Return the content of `UPDATE`; `current` is whether it updates the present model."""
        content = read_json(self.state(number) / UPDATE)
        return content | {"current": content["of_result"] == self.fingerprint}

    @property
    def states(self) -> dict[Path, dict[str, Any]]:
        """Folders of the finished states, with the contents of `UPDATE`."""
        return {self.state(number): self.record(number) for number in self.finished}

    def write(
        self,
        model: TableModel,
        labels: pd.DataFrame,
        predicted: pd.DataFrame,
        record: dict[str, Any],
    ) -> dict[str, Any]:
        """Write a new state; return its record."""
        number = self.next
        state = self.state(number)
        with writing_to(state, "make the folder writable"):
            state.mkdir(parents=True, exist_ok=True)  # others may have files there
            for name, table in ((LABELS, labels), (PREDICTIONS, predicted)):
                with atomic_write(state / name) as part:
                    table.to_csv(part, index=False)
            content = {
                "format": RESULT_FORMAT,
                "number": number,
                **record,
                "of_result": self.fingerprint,
                "model_file": save_model(
                    model, state / MODEL, mark=f"{self.fingerprint} {number}"
                ).name,
            }
            write_json(state / UPDATE, content)
        return self.record(number)


# ---------------------------------------------------------------- tables in the folder

ROW = "row"


def with_identifiers(identifiers: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """Prepend identifier columns, renaming prediction columns on a clash."""
    free = {name: free_name(name, identifiers.columns) for name in map(str, predictions)}
    if ours := [other for name, other in free.items() if name != other]:
        note(
            "identifiers have the names of columns that shiftune writes to the predictions; its "
            f"columns become {listed(ours)}"
        )
    return pd.concat([identifiers, predictions.rename(columns=free)], axis=1)


def free_name(name: str, taken: Collection[str] | pd.Index) -> str:
    """Return a name that is not taken: the same one, or with "_" behind it."""
    return name if name not in taken else free_name(f"{name}_", taken)


# A lone sign is shown as it is. The last four are wide forms of the first, for East Asian Excel.
FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20].", re.DOTALL)
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?\s*%?\Z", re.IGNORECASE)


def safe_text(value: Any) -> Any:
    """Put an apostrophe before text that begins like a formula; anything else stays as it is.

    >>> [safe_text(each) for each in ("=1+1", "-2.5", "-", "@SUM(A1)", -3.0, "B-7", "\uff1d1")]
    ["'=1+1", '-2.5', '-', "'@SUM(A1)", -3.0, 'B-7', "'\uff1d1"]
    """
    if not isinstance(value, str) or not FORMULA.match(value) or NUMBER.match(value):
        return value
    return f"'{value}"


def safe_for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """Escape texts and column names that a spreadsheet would run; a note names what changed."""
    escaped = frame.copy()
    changed = []
    for at, name in enumerate(frame.columns):
        column = frame.iloc[:, at]
        if column.dtype.kind not in "biufcmM":
            values = column.tolist()
            safe = [safe_text(value) for value in values]
            if any(now is not value for now, value in zip(safe, values, strict=True)):
                escaped.isetitem(at, safe)
                changed.append(str(name))
    names = [safe_text(name) for name in frame.columns]
    changed += [str(name) for name, safe in zip(frame.columns, names, strict=True) if name != safe]
    if changed:
        note(
            f"text in {listed(dict.fromkeys(changed))} begins like a formula of a spreadsheet and "
            "is written with ' before it; --no-safe-csv writes it as it is"
        )
    escaped.columns = pd.Index(names, name=frame.columns.name)
    return escaped
