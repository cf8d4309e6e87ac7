"""Search spaces, checked against a model: from Python, and from files."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune._files import toml_lines
from shiftune._wording import alike, hint
from shiftune.errors import SettingsError

Space = dict[str, BaseDistribution]


def as_space(space: Mapping[str, Any], estimator: Any) -> Space:
    """Return a space for an estimator with Optuna distributions, or raise a SettingsError.

    Values are Optuna distributions, lists of choices, ranges (low, high) or (low, high, "log"),
    or `uniform`, `loguniform` and `randint` of scipy.stats.
    """
    if not isinstance(space, Mapping):
        raise SettingsError(
            "a search space is a mapping from parameter names to distributions, got "
            f"{type(space).__name__}"
        )
    if not space:
        raise SettingsError("the search space is empty; there is nothing to tune")
    check_names(estimator, space)
    distributions = {}
    for name, values in space.items():
        try:
            distribution = _distribution(values)
        except ValueError as error:  # Optuna's, such as low above high
            raise SettingsError(f"the values of {name!r} are {values!r}: {error}") from error
        if distribution is None:
            raise SettingsError(
                f"the values of {name!r} are {values!r}; give a list of choices, a range (low, "
                "high) or (low, high, 'log'), uniform, loguniform or randint of scipy.stats, or a "
                "distribution of optuna.distributions"
            )
        distributions[name] = distribution
    return distributions


def _distribution(values: Any) -> BaseDistribution | None:
    """Return a distribution; None for what cannot be one."""
    if isinstance(values, BaseDistribution):
        return values
    if isinstance(values, list | np.ndarray):
        return CategoricalDistribution(
            list(values) if isinstance(values, list) else values.tolist()
        )
    if isinstance(values, range) and values.step > 0 and values:
        return IntDistribution(values.start, values[-1], step=values.step)
    if isinstance(values, tuple) and len(values) in (2, 3):
        return _between(*values)
    kind = getattr(getattr(values, "dist", None), "name", "")  # of scipy.stats
    if kind not in ("uniform", "loguniform", "reciprocal", "randint"):
        return None
    low, high = values.support()
    if kind == "randint":
        return IntDistribution(int(low), int(high))
    return FloatDistribution(float(low), float(high), log=kind != "uniform")


def _between(low: Any, high: Any, scale: str = "") -> BaseDistribution | None:
    ends, log = (low, high), scale == "log"
    if scale not in ("", "log") or any(isinstance(end, bool) for end in ends):
        return None
    if all(isinstance(end, Integral) for end in ends):
        return IntDistribution(int(low), int(high), log=log)
    if all(isinstance(end, Real) for end in ends):
        return FloatDistribution(float(low), float(high), log=log)
    return None


def check_names(estimator: Any, names: Iterable[str]) -> None:
    """Raise a SettingsError for names that are not parameters of the estimator."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise SettingsError(
            f"the estimator must be an instance with get_params(), such as SVC(), got {estimator!r}"
        )
    params = _parameters(estimator)
    unknown = [_unknown(name, params, estimator) for name in names if name not in params]
    if unknown:
        raise SettingsError("\n".join(unknown))


def _parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator and its parts, those without a value included.

    CatBoost lists only parameters that have a value; skorch those of a module's class
    (``module__units``) likewise.
    """
    params: dict[str, Any] = estimator.get_params(deep=True)
    for prefix, part in [("", estimator), *((f"{n}__", value) for n, value in params.items())]:
        if isinstance(part, type) or hasattr(part, "get_params"):
            named = _signature(part if isinstance(part, type) else type(part))
            names = [prefix + p.name for p in named if p.kind is not p.VAR_KEYWORD]
            params = dict.fromkeys(names) | params
    return params


def _signature(kind: type) -> list[inspect.Parameter]:
    """Return the parameters of a class; none of one written in C."""
    try:
        return list(inspect.signature(kind).parameters.values())
    except ValueError:
        return []


def _unknown(key: object, params: Mapping[str, Any], estimator: Any) -> str:
    """Return the message for a key that is not a parameter, with the likely ones."""
    message = f"{key!r} is not a parameter of {type(estimator).__name__}"
    if not isinstance(key, str):
        return f"{message}; parameters are named by text"
    meant = _meant(key, params)
    if meant:
        message += f"; did you mean {' or '.join(map(repr, meant))}?"
    else:
        message += f"; it has {sorted(params)}."
    step, _, name = key.rpartition("__")
    owner = params.get(step) if step else estimator
    if hasattr(owner, "get_params") and any(
        p.kind is p.VAR_KEYWORD for p in _signature(type(owner))
    ):
        # LightGBM and XGBoost take options of their libraries beyond the named ones, and list
        # them among their parameters once they have a value.
        message += f" If {type(owner).__name__} takes {name!r} as an option, give it a value there."
    return message


def _meant(key: str, params: Mapping[str, Any]) -> list[str]:
    """Return the parameters that a wrong key may stand for, the likeliest first."""
    name = _last_part(key)
    elsewhere = [other for other in params if _last_part(other) == name]
    if elsewhere:  # a step was forgotten, misspelt or is too much
        return alike(key, elsewhere, most=3, cutoff=0.0)
    # Not a step as a whole, which nobody tunes.
    tunable = [other for other, value in params.items() if not hasattr(value, "get_params")]
    ends = {_last_part(other): other for other in tunable}
    return [ends[end] for end in alike(name, ends)] or alike(key, tunable)


def _last_part(key: str) -> str:
    return key.rpartition("__")[2]


# ---------------------------------------------------------------- files


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
        raise SettingsError(
            f"{path} is empty; write one parameter per line, such as "
            "alpha = { low = 0.01, high = 100.0, log = true }"
        )
    return entries


def space_from_entries(
    entries: Mapping[str, Any], estimator: Any, ready: Space, where: str = "the search space"
) -> Space:
    """Make a search space for a model, from entries by the names of its parameters.

    A range is ``{"low": ..., "high": ...}``, with ``log`` and ``step`` where wanted; a list holds
    choices; any other value is fixed. Whether a range has whole or decimal numbers follows from the
    model's `ready` space; for other parameters from the spelling of the ends (2 or 2.0). Errors
    begin with `where`.

    >>> from sklearn.linear_model import Ridge
    >>> space_from_entries({"alpha": {"low": 1, "high": 2}}, Ridge(), {})
    {'alpha': IntDistribution(high=2, log=False, low=1, step=1)}
    """
    try:
        check_names(estimator, entries)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from error
    return {
        name: _distribution_of_entry(value, f"{where}: {name}", ready.get(name))
        for name, value in entries.items()
    }


def space_entries(space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """Return a space as entries that `space_from_entries` reads.

    >>> space_entries({"C": FloatDistribution(0.1, 10, log=True)})
    {'C': {'low': 0.1, 'high': 10.0, 'log': True}}
    """
    return {name: _entry(values) for name, values in space.items()}


def space_as_toml(space: Mapping[str, BaseDistribution]) -> str:
    """Return a space as the text of a file that `read_entries` reads.

    >>> print(space_as_toml({"C": FloatDistribution(0.1, 10, log=True)}))
    C = { low = 0.1, high = 10.0, log = true }
    """
    return toml_lines(space_entries(space))


def format_range(values: BaseDistribution) -> str:
    """Describe the values of a parameter in a few words."""
    if isinstance(values, CategoricalDistribution):
        return " or ".join(map(str, values.choices))
    if not isinstance(values, FloatDistribution | IntDistribution):
        return str(values)
    whole = ", whole" if isinstance(values, IntDistribution) else ""
    return f"{values.low:g} to {values.high:g}{whole}{', log' if values.log else ''}"


def _distribution_of_entry(
    value: Any, where: str, ready: BaseDistribution | None
) -> BaseDistribution:
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
    keys = ("low", "high", "log", "step")
    for key in value:
        if key not in keys:
            raise SettingsError(f"{where} has {key!r}; {hint(key, keys)}")
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
