"""JSON and CSV that a folder holds."""

from __future__ import annotations

import hashlib
import json
import math
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune._files import atomic_write
from shiftune._provenance import check_format
from shiftune._wording import listed
from shiftune.checks import judgement
from shiftune.cli._job import TuneJob
from shiftune.errors import DataWarning, StorageError
from shiftune.predictor._ensemble import prediction_columns

if TYPE_CHECKING:
    from shiftune.checks import Checks
    from shiftune.risk._result import Estimate, RiskEstimate
    from shiftune.search._result import SearchResult
    from shiftune.tables import SiteTable


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, with the index as a column; NaN is null.

    >>> import pandas as pd
    >>> records(pd.DataFrame({"x": [None, 1.5]}, index=pd.Index(["B", "C"], name="site")))
    [{'site': 'B', 'x': None}, {'site': 'C', 'x': 1.5}]
    """
    text = frame.reset_index().to_json(orient="records", double_precision=15)
    found: list[dict[str, Any]] = json.loads(text)
    return found


def column_records(table: SiteTable) -> list[dict[str, Any]]:
    """Return kind, counts and remark of every column."""
    return records(table.columns)


def estimate_record(estimate: Estimate, level: float = 0.95) -> dict[str, Any]:
    """Return an estimate with its interval; unknown values are null."""
    low, high = estimate.interval(level)
    return {
        "value": estimate.value,
        "stderr": _finite(estimate.stderr),
        "low": _finite(low),
        "high": _finite(high),
        "level": level,
    }


def risk_record(risk: RiskEstimate, level: float = 0.95) -> dict[str, Any]:
    """Return an estimated risk with its interval and method."""
    return estimate_record(risk, level) | {"method": risk.method, "fallback": risk.fallback}


def sample_record(result: SearchResult) -> dict[str, Any] | None:
    """Return what was drawn of a larger table, and what that costs; None if all was read."""
    if (sample := result.problem.sample) is None:
        return None
    return {
        "rows": sample.rows,
        "rows_drawn": sample.rows_drawn,
        "most_of_a_site": sample.cap,
        "stderr_of_all_rows": result.stderr_of_all_rows,
    }


def verdict_record(checks: Checks) -> dict[str, Any]:
    """Return the verdict on a result, and the checks that it follows from."""
    found = judgement(checks)
    return {
        "trust": str(found.trust),
        "reason": found.reason,
        "checks": [
            {
                "name": check.name,
                "level": str(check.level),
                "finding": check.finding,
                "advice": check.advice,
                "figures": {name: _finite(value) for name, value in check.figures.items()},
            }
            for check in checks
        ],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# Number of the form of settings.json, best.json and update.json.
FORMAT = 4
CHECKSUM = "checksum"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file; its content has the number `FORMAT`."""
    sealed = {**content, CHECKSUM: _checksum(content)}
    with atomic_write(path) as part:
        part.write_text(json.dumps(sealed, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_json(path: Path, advice: str = "give another folder") -> dict[str, Any]:
    """Read a file as it was written; one that is damaged or was edited is refused."""
    if not path.exists():
        raise StorageError(f"{path.parent} holds no result of shiftune tune (no {path.name})")
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} cannot be read ({error}); {advice}") from error
    if not isinstance(found, dict):
        raise StorageError(f"{path} is damaged; {advice}")
    check_format(found.get("format"), FORMAT, str(path))
    if found.pop(CHECKSUM, None) != _checksum(found):
        raise StorageError(f"{path} is damaged or was edited; {advice}")
    return found


def _checksum(content: Mapping[str, Any]) -> str:
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


# A lone sign is shown as it is.
FORMULA = re.compile(r"[=+\-@\t\r].", re.DOTALL)
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?\s*%?\Z", re.IGNORECASE)


def safe_text(value: Any) -> Any:
    """Put an apostrophe before text that begins like a formula; anything else stays as it is.

    >>> [safe_text(each) for each in ("=1+1", "-2.5", "-", "@SUM(A1)", -3.0, "B-7")]
    ["'=1+1", '-2.5', '-', "'@SUM(A1)", -3.0, 'B-7']
    """
    if not isinstance(value, str) or not FORMULA.match(value) or NUMBER.match(value):
        return value
    return f"'{value}"


def safe_for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts and column names are no formulas; a note names what changed."""
    found = frame.copy()
    changed = []
    for at, name in enumerate(frame.columns):
        column = frame.iloc[:, at]
        if column.dtype.kind not in "biufcmM":
            values = column.tolist()
            safe = [safe_text(value) for value in values]
            if any(now is not value for now, value in zip(safe, values, strict=True)):
                found.isetitem(at, safe)
                changed.append(str(name))
    names = [safe_text(name) for name in frame.columns]
    changed += [str(name) for name, safe in zip(frame.columns, names, strict=True) if name != safe]
    if changed:
        where = listed(dict.fromkeys(changed))
        warnings.warn(
            f"text in {where} begins like a formula of a spreadsheet and is "
            "written with ' before it; --no-safe-csv writes it as it is",
            DataWarning,
            stacklevel=2,
        )
    found.columns = pd.Index(names, name=frame.columns.name)
    return found


PREDICTIONS = "predictions.csv"
ROW = "row"


def predictions(
    job: TuneJob, predictor: Any, labelled: NDArray[np.bool_] | None = None
) -> pd.DataFrame:
    """Return identifiers, position in the table and prediction of every target row.

    Parameters
    ----------
    job : TuneJob
    predictor : fitted estimator
    labelled : bool array of shape (n_T,), optional
        Rows whose label the predictor has seen, for a column of their own.
    """
    found = prediction_columns(predictor, pd.DataFrame(job.table.problem.target.X))
    if labelled is not None:
        found.insert(0, "label_used", labelled)
    found.insert(0, ROW, job.table.target_rows)
    whole = with_identifiers(job.identifiers, found)
    return safe_for_spreadsheets(whole) if job.options.safe_csv else whole


def with_identifiers(identifiers: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Put identifiers in front of predictions, whose names make room for theirs."""
    free = {name: free_name(name, identifiers.columns) for name in map(str, found)}
    if ours := [other for name, other in free.items() if name != other]:
        warnings.warn(
            "identifiers have names of columns that shiftune writes to the predictions; these are "
            f"called {listed(ours)} there",
            DataWarning,
            stacklevel=3,
        )
    return pd.concat([identifiers, found.rename(columns=free)], axis=1)


def free_name(name: str, taken: Collection[str] | pd.Index) -> str:
    """Return a name that is not taken.

    >>> free_name("row", ["row", "age"])
    'row_'
    """
    return name if name not in taken else free_name(f"{name}_", taken)
