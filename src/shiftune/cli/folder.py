"""The folder of a result: what is in it, whose it is, and that nothing in it is half-written."""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pandas as pd

from shiftune.atomic_write import atomic_write
from shiftune.cli.records import records, risk_record
from shiftune.errors import DataWarning, ProblemError
from shiftune.models import save_model
from shiftune.provenance import made_with, versions_in_words
from shiftune.report.labels_in_words import worth_of_labels
from shiftune.search.records import finished_trials

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from shiftune.cli.job import TuneJob

JOURNAL = "study.journal"
SETTINGS, BEST, TRIALS, PREDICTIONS, REPORT, MODEL = (
    "settings.json",
    "best.json",
    "trials.csv",
    "predictions.csv",
    "report.html",
    "model",
)
# With other such options the data that is read of one and the same file is other data.
CHANGE_WHAT_IS_READ = {
    "site",
    "target",
    "label",
    "task",
    "keep",
    "drop",
    "identifiers",
    "drop_unlabelled",
    "use_target_labels",
}


class ResultFolder:
    """A folder that belongs to one question.

    Parameters
    ----------
    path : Path
        Need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def journal(self) -> Path:
        """Where the trials are kept."""
        return self.path / JOURNAL

    # ---------------------------------------------------------------- whose it is

    def check(self, undertaking: TuneJob) -> bool:
        """Make sure that the folder can be used for this question; say whether it is a new one.

        A folder of other data or settings, or with files of somebody else, is refused.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ProblemError(f"{self.path} is a file, not a folder; give another with --out")
        with _explained(self.path):
            there = self.path.is_dir() and any(self.path.iterdir())
        if there and not (self.path / SETTINGS).exists():
            raise ProblemError(
                f"the folder {self.path} is not empty and holds no result of shiftune; give "
                "another with --out"
            )
        if there:
            self._check_same(undertaking.options)
        return not there

    def begin(self, undertaking: TuneJob, command: str) -> None:
        """Note a run, its command and versions; the folder is made where it is not there."""
        there = (self.path / SETTINGS).exists()
        run = {"command": command, "date": datetime.now().astimezone().isoformat("T", "seconds")}
        with _explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        settings = {
            "file": str(undertaking.question.data.resolve()),
            "options": undertaking.options,
            "runs": [*(self.settings()["runs"] if there else []), run | made_with()],
        }
        self._write_json(SETTINGS, settings)

    def _check_same(self, options: Mapping[str, Any]) -> None:
        # An option that was not there yet when the folder was written was not given.
        earlier = {name: type(now)() for name, now in options.items()} | self.settings()["options"]
        others = [name for name in options if earlier[name] != options[name]]
        if CHANGE_WHAT_IS_READ.intersection(others):
            others = [name for name in others if name != "data"]
        if others:
            said = ", ".join(_difference(name, earlier[name], options[name]) for name in others)
            raise ProblemError(
                f"{self.path} holds a result of another question ({said}); give another folder "
                "with --out, or ask the same to go on"
            )

    def settings(self) -> dict[str, Any]:
        """Return what `begin` has written."""
        return self._read_json(SETTINGS, {"file", "options", "runs"})

    def best(self) -> dict[str, Any] | None:
        """Return the answer so far; None where there is none yet."""
        if not (self.path / BEST).exists():
            return None
        return self._read_json(BEST, {"trials", "risk", "params"})

    def discard(self) -> None:
        """Remove what a run has written that was the first and came to nothing."""
        with suppress(OSError):
            for path in self.path.iterdir():
                path.unlink()
            self.path.rmdir()

    # ---------------------------------------------------------------- what is in it

    def write(self, done: TuneJob) -> dict[str, Any]:
        """Write all that a fitted search gives but the report; return what `BEST` holds."""
        search, plain = done.search, done.model.plain
        with _explained(self.path):
            renamed = search.trials_.rename(columns=lambda name: self._plain_column(name, done))
            with atomic_write(self.path / TRIALS) as part:
                renamed.to_csv(part)
            model = save_model(search.best_estimator_, self.path / MODEL)
            with atomic_write(self.path / PREDICTIONS) as part:
                _predictions(done).to_csv(part, index=False)
        worth = worth_of_labels(search)
        sources = search.risk_.sources[["n", "estimate", "stderr", "share", "left_out"]]
        best = {
            "target": done.table.problem.target.name,
            "model": done.question.model,
            "task": done.table.problem.task,
            "loss": search.loss_.name,
            "fast": done.question.fast,
            "trials": len(finished_trials(search.study_)),
            "best_trial": search.best_index_,
            "params": plain(search.best_params_),
            "risk": risk_record(search.risk_),
            "sources": records(sources),
            "target_labels_used": int(done.table.target_labelled.sum()),
            "label_worth": None if worth is None else records(worth),
            "model_file": model.name,
        }
        self._write_json(BEST, best)
        return best

    @staticmethod
    def can_report() -> bool:
        """Whether the packages that a report needs are installed."""
        return all(find_spec(package) for package in ("jinja2", "plotly"))

    def write_report(self, done: TuneJob) -> Path:
        """Write the report of a fitted search."""
        from shiftune.report import save_report

        path = self.path / REPORT
        with _explained(self.path), atomic_write(path) as part:
            save_report(done.search, part, settings=self.provenance(done))
        return path

    def provenance(self, done: TuneJob) -> dict[str, str]:
        """Return where the result comes from, as the report prints it."""
        settings = self.settings()
        last = settings["runs"][-1]
        columns = done.table.columns
        remarks = columns["remark"][columns["remark"] != ""]
        return {
            "command": last["command"],
            "data file": settings["file"],
            "data fingerprint": settings["options"]["data"],
            "labels of the target": _about_labels(done.table.target_labelled),
            "columns": "; ".join(f"{name}: {remark}" for name, remark in remarks.items()) or "all",
            "seed": str(settings["options"]["seed"]),
            "date": last["date"],
            "versions": versions_in_words(last["versions"]),
        }

    @staticmethod
    def _plain_column(name: str, done: TuneJob) -> str:
        return name.replace(f"param_{done.model.prefix}", "param_", 1)

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        with _explained(self.path), atomic_write(self.path / name) as part:
            part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _read_json(self, name: str, needed: set[str]) -> dict[str, Any]:
        path = self.path / name
        if not path.exists():
            raise ProblemError(f"{self.path} holds no result of shiftune tune (no {name})")
        try:
            found = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ProblemError(f"{path} cannot be read ({error}); give another folder") from error
        if not isinstance(found, dict) or not needed <= found.keys():
            raise ProblemError(f"{path} is damaged; give another folder")
        return found


def _predictions(done: TuneJob) -> pd.DataFrame:
    """Identifiers of the target's rows, their number in the table, what the model says of them."""
    search, X = done.search, done.table.problem.target.X
    found = pd.DataFrame({"row": done.table.target_rows, "prediction": search.predict(X)})
    if done.question.use_target_labels:
        found.insert(1, "label_used", done.table.target_labelled)
    if done.table.problem.task == "classification" and hasattr(search, "predict_proba"):
        shares = search.predict_proba(X)
        for label, share in zip(search.classes_, shares.T, strict=True):
            found[f"probability_{label}"] = share
    taken = done.table.identifiers
    free = {name: _free(name, taken) for name in found.columns}
    if ours := [repr(other) for name, other in free.items() if name != other]:
        warnings.warn(
            f"the file has identifiers that are called like columns of {PREDICTIONS}; what "
            f"shiftune writes is called {', '.join(ours)} there",
            DataWarning,
            stacklevel=3,
        )
    found = found.rename(columns=free)
    return pd.concat([done.identified, found], axis=1)


def _free(name: str, taken: Collection[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _about_labels(labelled: NDArray[np.bool_]) -> str:
    if not labelled.any():
        return "not used"
    return f"used, those of {labelled.sum()} of its {len(labelled)} rows"


def _difference(name: str, earlier: Any, now: Any) -> str:
    if name in ("data", "space"):  # too long to be shown
        return f"other {name}"
    return f"{name} {_shown(earlier)} there, {_shown(now)} here"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "of " + (", ".join(map(repr, value)) or "nothing")
    return repr(value)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say what to do where a file cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise ProblemError(
            f"results cannot be written to {path} ({error.strerror or error}); give another "
            "folder with --out"
        ) from error
