"""Results of others: the paper's printed values and those of its released code.

``published.json`` has the figures with their origin.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def _entries(part: dict[str, Any]) -> Any:
    return {
        experiment: {method: tuple(values) for method, values in methods.items()}
        for experiment, methods in part.items()
        if experiment not in ("origin", "seeds")
    }


_FOUND = json.loads(Path(__file__).with_suffix(".json").read_text())

PRINTED: dict[str, dict[str, tuple[float, float]]] = _entries(_FOUND["printed"])
"""Mean and standard error by experiment and method."""

RELEASED: dict[str, dict[str, tuple[float | None, ...]]] = _entries(_FOUND["released"])
"""Mean and standard error by experiment and method; on the toy problem the means over c."""

RELEASED_SEEDS: dict[str, int] = _FOUND["released"]["seeds"]
