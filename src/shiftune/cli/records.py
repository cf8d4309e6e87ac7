"""Results in the form of JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from shiftune.checks import judgement

if TYPE_CHECKING:
    import pandas as pd

    from shiftune.checks import Checks
    from shiftune.risk.result import Estimate, RiskEstimate
    from shiftune.search.result import SearchResult
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
