"""Files of an experiment: a line per run, and the options, code and versions behind them."""

from __future__ import annotations

import csv
import json
import warnings
from dataclasses import asdict, dataclass, fields
from datetime import date
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from shiftune._files import atomic_write
from shiftune._provenance import check_same, made_with
from shiftune.errors import DataWarning, StorageError

RUNS, OPTIONS, TABLE = "runs.csv", "options.json", "table.md"
HERE = Path(__file__).parent
# Wording and tests do not change a run.
CODE = [
    path
    for path in sorted(HERE.rglob("*.py"))
    if path.relative_to(HERE).parts[0] not in ("page", "tests")
]


@dataclass(frozen=True, slots=True)
class Run:
    """One row of the file: task, choice and score.

    Attributes
    ----------
    experiment, setting, method, c, seed
        The task.
    params : str
        The chosen parameters, as JSON.
    score : float
        Loss at the target.
    true_risk : float
        Known for the toy problem only.
    estimate : float
        Estimated risk of the choice.
    top_share, top_mean_weight : float
        Largest share of one source in that estimate, and the mean of its density ratios, which
        should be 1.
    left_out : int
        Number of sources that the guard left out.
    seconds, cpu_seconds : float
    failure : str
        Reason for a missing score; empty otherwise.
    """

    experiment: str
    setting: str
    method: str
    c: float
    seed: int
    params: str
    score: float
    true_risk: float
    estimate: float
    top_share: float
    top_mean_weight: float
    left_out: int
    seconds: float
    cpu_seconds: float
    failure: str = ""


def read_runs(path: Path) -> pd.DataFrame:
    """Return the runs of a file, ordered by seed, without a last line that was cut off."""
    names = [field.name for field in fields(Run)]
    text = path.read_text(errors="replace") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        return pd.DataFrame(columns=names)
    try:
        runs = pd.read_csv(
            StringIO(whole), keep_default_na=False, na_values=dict.fromkeys(NUMBERS, "")
        )
        if list(runs.columns) != names:
            raise ValueError(f"its columns are {list(runs.columns)[:4]}...")
        runs = runs.astype({"seed": int, "left_out": int, **dict.fromkeys(NUMBERS, float)})
    except (ValueError, TypeError) as error:
        raise StorageError(
            f"{path} is damaged or no file of runs ({error}); repair the line or choose another "
            "folder"
        ) from error
    # Two calls at once may have done the same run, with the same result.
    once = runs.drop_duplicates(["setting", "method", "c", "seed"])
    order = once.sort_values(["c", "seed", "setting", "method"], kind="stable")
    return order.reset_index(drop=True)


NUMBERS = ("c", "score", "true_risk", "estimate", "top_share", "top_mean_weight")


def append_run(path: Path, run: Run) -> None:
    """Add a line to the file, and the header to a new one."""
    line = StringIO()
    writer = csv.writer(line, lineterminator="\n")
    if not path.exists() or not path.stat().st_size:
        writer.writerow([field.name for field in fields(Run)])
    writer.writerow(["" if value != value else value for value in asdict(run).values()])
    with path.open("a") as file:
        file.write(line.getvalue())


def note(folder: Path, options: dict[str, Any], command: str) -> None:
    """Record options, command, code and versions of a call; refuse to mix different options.

    Parameters
    ----------
    folder : Path
        Created if missing.
    options : dict
        Options that all runs of a folder share.
    command : str
        The call, for the record.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot create the folder {folder} ({error.strerror}); choose another"
        ) from error
    path = folder / OPTIONS
    fresh: dict[str, Any] = {"options": options, "made": []}
    noted = noted_in(folder) if path.exists() else fresh
    check_same(noted["options"], options, str(folder), "choose another folder")
    call = {"date": date.today().isoformat(), "command": command, **made_with(*CODE)}
    if any(earlier["code"] != call["code"] for earlier in noted["made"]):
        warnings.warn(
            f"{folder} has runs made with other code; to keep results of one code together, "
            "choose another folder",
            DataWarning,
            stacklevel=4,
        )
    if call not in noted["made"]:
        noted["made"].append(call)
    try:
        with atomic_write(path) as part:
            part.write_text(json.dumps(noted, indent=2) + "\n")
    except OSError as error:
        raise StorageError(
            f"cannot write {path} ({error.strerror}); choose another folder"
        ) from error


def noted_in(folder: Path) -> dict[str, Any]:
    """Return the record that `note` has written."""
    try:
        found = json.loads((folder / OPTIONS).read_text())
        return {"options": found["options"], "made": found["made"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{folder / OPTIONS} is damaged or missing ({error}); choose another folder"
        ) from error
