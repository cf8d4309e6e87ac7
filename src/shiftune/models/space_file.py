"""Search spaces in files, TOML or JSON, that people can read and write.

alpha = { low = 0.01, high = 100.0, log = true }   # decimal numbers
max_depth = { low = 2, high = 8 }                   # whole numbers
weights = ["uniform", "distance"]                   # one of these
n_estimators = 300                                  # always this
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune._files import toml_lines
from shiftune.errors import SettingsError
from shiftune.models.space import Space, check_names
from shiftune.spelling import hint

KEYS = ("low", "high", "log", "step")
EXAMPLE = "alpha = { low = 0.01, high = 100.0, log = true }"


def read_space(path: Path, estimator: Any, ready: Space) -> Space:
    """Read a search space from a .toml or .json file, for a model; see `space_from_entries`."""
    return space_from_entries(read_entries(path), estimator, ready, where=str(path))


def read_entries(path: Path) -> dict[str, Any]:
    """Read the entries of a space file, one per parameter, as they are written."""
    read = {".toml": tomllib.loads, ".json": json.loads}.get(path.suffix.lower())
    if read is None:
        raise SettingsError(f"the search space {path} must be a .toml or .json file")
    try:
        entries = read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the search space {path} cannot be read ({error.strerror})") from error
    except ValueError as error:  # invalid TOML, JSON or UTF-8
        raise SettingsError(f"{path} is not valid {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(entries, dict):
        raise SettingsError(f"{path} must map names of parameters to values")
    if not entries:
        raise SettingsError(f"{path} is empty; write one parameter per line, such as {EXAMPLE}")
    return entries


def space_from_entries(
    entries: Mapping[str, Any], estimator: Any, ready: Space, where: str = "the search space"
) -> Space:
    """Make a search space for a model.

    Parameters
    ----------
    entries : mapping from parameter names
        A range is ``{"low": ..., "high": ...}``, with ``log`` and ``step`` where wanted; a list
        holds choices; any other value is fixed.
    estimator : scikit-learn estimator
        The parameters must be its own.
    ready : Space
        The model's ready space. A parameter's range has whole or decimal numbers as it has there;
        for other parameters the spelling of the ends decides (2 or 2.0).
    where : str
        Start of the error messages.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> space_from_entries({"alpha": {"low": 1, "high": 2}}, Ridge(), {})
    {'alpha': IntDistribution(high=2, log=False, low=1, step=1)}
    """
    try:
        check_names(estimator, entries)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from error
    return {
        name: _distribution(value, f"{where}: {name}", ready.get(name))
        for name, value in entries.items()
    }


def space_entries(space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """Return a space as entries that `space_from_entries` reads.

    >>> space_entries({"C": FloatDistribution(0.1, 10, log=True)})
    {'C': {'low': 0.1, 'high': 10.0, 'log': True}}
    """
    return {name: _entry(values) for name, values in space.items()}


def space_as_toml(space: Mapping[str, BaseDistribution]) -> str:
    """Return a space as the text of a file that `read_space` reads.

    >>> print(space_as_toml({"C": FloatDistribution(0.1, 10, log=True)}))
    C = { low = 0.1, high = 10.0, log = true }
    """
    return toml_lines(space_entries(space))


def format_range(values: BaseDistribution) -> str:
    """Describe the values of a parameter in a few words.

    >>> format_range(IntDistribution(1, 100, log=True))
    '1 to 100, whole, log'
    """
    if isinstance(values, CategoricalDistribution):
        return " or ".join(map(str, values.choices))
    if not isinstance(values, FloatDistribution | IntDistribution):
        return str(values)
    whole = ", whole" if isinstance(values, IntDistribution) else ""
    return f"{values.low:g} to {values.high:g}{whole}{', log' if values.log else ''}"


def _distribution(value: Any, where: str, ready: BaseDistribution | None) -> BaseDistribution:
    if not isinstance(value, dict):
        choices = value if isinstance(value, list) else [value]
        if not choices or not all(isinstance(c, str | bool | int | float) for c in choices):
            raise SettingsError(
                f"{where} is neither a range, such as {{ low = 1, high = 10 }}, nor a list of "
                "text, numbers or true and false"
            )
        return CategoricalDistribution(choices)
    numbers, log = _checked_range(value, where)
    low, high = value["low"], value["high"]
    whole = all(isinstance(n, int) for n in numbers) and not isinstance(ready, FloatDistribution)
    try:
        if whole:
            return IntDistribution(low, high, log=log, step=value.get("step", 1))
        return FloatDistribution(float(low), float(high), log=log, step=value.get("step"))
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error


def _checked_range(value: Mapping[str, Any], where: str) -> tuple[list[Any], bool]:
    """Return the numbers of a range, and whether its scale is logarithmic."""
    for key in value:
        if key not in KEYS:
            raise SettingsError(f"{where} has {key!r}; {hint(key, KEYS)}")
    if not {"low", "high"} <= value.keys():
        raise SettingsError(f"{where} needs low and high, such as {{ low = 1, high = 10 }}")
    numbers = [value[key] for key in ("low", "high", "step") if key in value]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise SettingsError(f"{where}: low, high and step must be numbers")
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise SettingsError(f"{where}: log must be true or false")
    if value["low"] > value["high"]:
        raise SettingsError(f"{where}: low ({value['low']}) is above high ({value['high']})")
    if log and value["low"] <= 0:
        raise SettingsError(f"{where}: low is {value['low']}; a log scale needs it above 0")
    return numbers, log


def _entry(values: BaseDistribution) -> Any:
    if isinstance(values, CategoricalDistribution):
        return list(values.choices)
    if not isinstance(values, FloatDistribution | IntDistribution):
        raise TypeError(f"a file cannot hold {values!r}")
    usual = 1 if isinstance(values, IntDistribution) else None
    return (
        {"low": values.low, "high": values.high}
        | ({"log": True} if values.log else {})
        | ({} if values.step == usual else {"step": values.step})
    )
