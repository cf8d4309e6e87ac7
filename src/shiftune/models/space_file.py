"""A search space in a file, TOML or JSON, that people can read and write.

alpha = { low = 0.01, high = 100.0, log = true }   # decimal numbers
max_depth = { low = 2, high = 8 }                   # whole numbers
weights = ["uniform", "distance"]                   # one of these
n_estimators = 300                                  # always this
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune.errors import ProblemError, SettingsError
from shiftune.search.space import Space, check_names
from shiftune.spelling import hint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEYS = ("low", "high", "log", "step")
EXAMPLE = "alpha = { low = 0.01, high = 100.0, log = true }"


def read_space(path: Path, estimator: Any, ready: Space) -> Space:
    """Read a space from a file, for a model.

    Parameters
    ----------
    path : Path
        .toml or .json: an entry per parameter. A range is ``{low, high}`` with ``log`` and
        ``step`` as wanted; a list holds choices; a single value is fixed.
    estimator : scikit-learn estimator
        Its parameters' names are the only ones that are allowed.
    ready : Space
        The model's ready space. Whether a range is of whole or of decimal numbers is taken from
        there, and for other parameters from how its ends are written (2 or 2.0).
    """
    return _space(_entries(path), str(path), estimator, ready)


def space_from_toml(text: str, estimator: Any, ready: Space) -> Space:
    """Read what `space_as_toml` wrote."""
    return _space(tomllib.loads(text), "the space", estimator, ready)


def _space(entries: Mapping[str, Any], where: str, estimator: Any, ready: Space) -> Space:
    if not entries:
        raise ProblemError(f"{where} holds no parameters; write one per line, such as {EXAMPLE}")
    try:
        check_names(estimator, entries)
    except ProblemError as error:
        raise ProblemError(f"{where}: {error}") from error
    return {
        name: _distribution(value, f"{where}: {name}", ready.get(name))
        for name, value in entries.items()
    }


def space_as_toml(space: Mapping[str, BaseDistribution]) -> str:
    """Write a space as `read_space` reads it.

    >>> print(space_as_toml({"C": FloatDistribution(0.1, 10, log=True)}))
    C = { low = 0.1, high = 10.0, log = true }
    """
    return "\n".join(f"{name} = {_as_toml(values)}" for name, values in space.items())


def format_range(values: BaseDistribution) -> str:
    """Say in words where a parameter is looked for.

    >>> format_range(IntDistribution(1, 100, log=True))
    '1 to 100, whole, log'
    """
    if isinstance(values, CategoricalDistribution):
        return " or ".join(map(str, values.choices))
    if not isinstance(values, FloatDistribution | IntDistribution):
        return str(values)
    said = f"{values.low:g} to {values.high:g}"
    if isinstance(values, IntDistribution):
        said += ", whole"
    return said + (", log" if values.log else "")


def _entries(path: Path) -> dict[str, Any]:
    read = {".toml": tomllib.loads, ".json": json.loads}.get(path.suffix.lower())
    if read is None:
        raise ProblemError(f"the space {path} must end in .toml or .json")
    try:
        entries = read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProblemError(f"the space {path} cannot be read ({error.strerror})") from error
    except ValueError as error:  # of TOML, JSON and of text that is no UTF-8
        raise ProblemError(f"{path} is no {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(entries, dict):
        raise ProblemError(f"{path} must hold names of parameters and their values")
    return entries


def _distribution(value: Any, where: str, ready: BaseDistribution | None) -> BaseDistribution:
    if not isinstance(value, dict):
        choices = value if isinstance(value, list) else [value]
        if not choices or not all(isinstance(c, str | bool | int | float) for c in choices):
            raise ProblemError(
                f"{where} is neither a range, such as {{ low = 1, high = 10 }}, nor a list of "
                "text, numbers or true and false"
            )
        return CategoricalDistribution(choices)
    for key in value:
        if key not in KEYS:
            raise SettingsError(f"{where} has {key!r}; {hint(key, KEYS)}")
    if not {"low", "high"} <= value.keys():
        raise ProblemError(f"{where} needs low and high, such as {{ low = 1, high = 10 }}")
    numbers = [value[key] for key in ("low", "high", "step") if key in value]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise ProblemError(f"{where}: low, high and step are numbers")
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise ProblemError(f"{where}: log is true or false")
    whole = all(isinstance(n, int) for n in numbers) and not isinstance(ready, FloatDistribution)
    low, high = value["low"], value["high"]
    if low > high:
        raise ProblemError(f"{where}: low is {low} and high {high}; low must be the smaller")
    if log and low <= 0:
        raise ProblemError(f"{where}: low is {low}; on a log scale it must be above 0")
    try:
        if whole:
            return IntDistribution(low, high, log=log, step=value.get("step", 1))
        return FloatDistribution(float(low), float(high), log=log, step=value.get("step"))
    except ValueError as error:
        raise ProblemError(f"{where}: {error}") from error


def _as_toml(values: BaseDistribution) -> str:
    if isinstance(values, CategoricalDistribution):
        return json.dumps(list(values.choices))
    if not isinstance(values, FloatDistribution | IntDistribution):
        raise TypeError(f"no way to write {values!r}")
    step = "" if values.step in (None, 1) else f", step = {values.step}"
    log = ", log = true" if values.log else ""
    return f"{{ low = {values.low}, high = {values.high}{log}{step} }}"
