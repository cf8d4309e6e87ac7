"""Search spaces: parameter names and Optuna distributions, checked against a model."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from optuna.distributions import BaseDistribution

from shiftune.errors import SettingsError
from shiftune.spelling import alike

Space = dict[str, BaseDistribution]


def check(space: Mapping[str, BaseDistribution], estimator: Any) -> None:
    """Raise a SettingsError unless the space fits the estimator.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from shiftune.models.spaces import svm
    >>> check(svm(), SVC())
    >>> check(svm(), make_pipeline(SVC()))
    Traceback (most recent call last):
    shiftune.errors.SettingsError: 'gamma' is not a parameter of Pipeline; did you mean
    'svc__gamma'?
    'C' is not a parameter of Pipeline; did you mean 'svc__C'?
    """
    if not isinstance(space, Mapping):
        raise SettingsError(
            "a search space is a mapping from parameter names to Optuna distributions, got "
            f"{type(space).__name__}"
        )
    if not space:
        raise SettingsError("the search space is empty; there is nothing to tune")
    check_names(estimator, space)
    for key, value in space.items():
        if not isinstance(value, BaseDistribution):
            raise SettingsError(
                f"the values of {key!r} are {value!r}, not an Optuna distribution; use "
                "FloatDistribution(low, high), IntDistribution(low, high) or "
                "CategoricalDistribution(choices) of optuna.distributions"
            )


def check_names(estimator: Any, names: Iterable[str]) -> None:
    """Raise a SettingsError for names that are not parameters of the estimator.

    >>> from sklearn.svm import SVC
    >>> check_names(SVC(), ["C", "Gama"])
    Traceback (most recent call last):
    shiftune.errors.SettingsError: 'Gama' is not a parameter of SVC; did you mean 'gamma'?
    """
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise SettingsError(
            f"the estimator must be an instance with get_params(), such as SVC(), got {estimator!r}"
        )
    known = estimator.get_params(deep=True)
    unknown = [_unknown(name, known, estimator) for name in names if name not in known]
    if unknown:
        raise SettingsError("\n".join(unknown))


def _unknown(key: object, known: Mapping[str, Any], estimator: Any) -> str:
    """Return the message for a key that is not a parameter, with the likely ones."""
    message = f"{key!r} is not a parameter of {type(estimator).__name__}"
    if not isinstance(key, str):
        return f"{message}; parameters are named by text"
    meant = _meant(key, known)
    if meant:
        message += f"; did you mean {' or '.join(map(repr, meant))}?"
    else:
        message += f"; it has {sorted(known)}."
    step, _, name = key.rpartition("__")
    owner = known.get(step) if step else estimator
    if owner is not None and _takes_any_keyword(type(owner)):
        # LightGBM and XGBoost take options of their libraries beyond the named ones, and list
        # them among their parameters once they have a value.
        message += f" If {type(owner).__name__} takes {name!r} as an option, give it a value there."
    return message


def _meant(key: str, known: Mapping[str, Any]) -> list[str]:
    """Return the parameters that a wrong key may stand for, the likeliest first."""
    name = _last_part(key)
    elsewhere = [other for other in known if _last_part(other) == name]
    if elsewhere:  # a step was forgotten, misspelt or is too much
        return alike(key, elsewhere, most=3, cutoff=0.0)
    tunable = [
        other
        for other, value in known.items()
        if not hasattr(value, "get_params")  # a step as a whole, which nobody tunes
    ]
    ends = {_last_part(other): other for other in tunable}
    return [ends[end] for end in alike(name, ends)] or alike(key, tunable)


def _last_part(key: str) -> str:
    return key.rpartition("__")[2]


def _takes_any_keyword(kind: type) -> bool:
    parameters = inspect.signature(kind).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
