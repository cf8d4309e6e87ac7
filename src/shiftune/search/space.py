"""A search space: what it holds, what is simple in it, and whether it fits a model."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from optuna.distributions import BaseDistribution, CategoricalDistribution

from shiftune.errors import ProblemError
from shiftune.spelling import alike

Measure = Callable[[Mapping[str, Any]], float | None]


class Space(dict[str, BaseDistribution]):
    """A search space: parameter names and their Optuna distributions, to be changed at will.

    Parameters
    ----------
    entries : mapping or pairs
        Full parameter names, as `set_params` takes them, and Optuna distributions.
    measure : callable, optional
        Complexity of a candidate, from its parameters without the prefix; None if unknown.
        Default: that of `entries` if it is a Space, else none.
    prefix : str
        What the names in `entries` begin with that the measure must not see.

    Examples
    --------
    >>> from optuna.distributions import FloatDistribution
    >>> from shiftune.search.spaces import svm
    >>> space = svm(prefix="svc__") | {"svc__C": FloatDistribution(1, 100, log=True)}
    >>> space["svc__C"]
    FloatDistribution(high=100.0, log=True, low=1.0, step=None)
    >>> space.complexity({"svc__C": 10.0, "svc__gamma": 0.01})
    -1.0
    """

    measure: Measure | None
    prefix: str

    def __init__(
        self,
        entries: Mapping[str, BaseDistribution] | Iterable[tuple[str, BaseDistribution]] = (),
        /,
        *,
        measure: Measure | None = None,
        prefix: str = "",
    ) -> None:
        super().__init__(entries)
        if measure is None and isinstance(entries, Space):
            measure, prefix = entries.measure, entries.prefix
        self.measure, self.prefix = measure, prefix

    @property
    def complexity(self) -> Callable[[Mapping[str, Any]], float] | None:
        """Function from a candidate's parameters to its complexity; smaller is simpler.

        Only the order has a meaning. A parameter that the space does not have is the same for all
        candidates and left out. It is None if the space cannot be put in order: it has no
        measure, or what the measure needs was removed or is not always a number
        (``gamma="scale"``). A single candidate that cannot be placed counts as the most complex,
        infinity, so that a rule that looks for simple ones passes over it.

        >>> from shiftune.search.spaces import lightgbm
        >>> trees = lightgbm()
        >>> trees.complexity({name: 1 for name in trees})
        1.5
        >>> del trees["num_leaves"]
        >>> trees.complexity is None
        True
        """
        if self.measure is None or any(self._measured(p) is None for p in self._probes()):
            return None
        return self._complexity

    def _complexity(self, params: Mapping[str, Any]) -> float:
        value = self._measured(params)
        return math.inf if value is None else value

    def _measured(self, params: Mapping[str, Any]) -> float | None:
        if self.measure is None or not self.keys() <= params.keys():
            return None
        start = self.prefix
        return self.measure(
            {name.removeprefix(start): v for name, v in params.items() if name.startswith(start)}
        )

    def _probes(self) -> Iterator[dict[str, Any]]:
        """Yield points in which each parameter in turn takes both its ends, or all choices."""
        values = {name: _ends_or_choices(distribution) for name, distribution in self.items()}
        first = {name: each[0] for name, each in values.items()}
        yield first  # also of an empty space
        yield from ({**first, name: value} for name, each in values.items() for value in each)

    def copy(self) -> Self:
        """Return a copy that keeps the measure, which that of a dict would lose."""
        return type(self)(self, measure=self.measure, prefix=self.prefix)

    # A dict's own `|` returns a plain dict, without the measure. Its two overloads also cover
    # other types of keys and values, which a search space cannot have.
    def __or__(self, other: Mapping[str, BaseDistribution]) -> Self:  # type: ignore[override]
        if not isinstance(other, Mapping):
            return NotImplemented
        measure, prefix = self._measure_with(other)
        return type(self)({**self, **other}, measure=measure, prefix=prefix)

    def __ror__(self, other: Mapping[str, BaseDistribution]) -> Self:  # type: ignore[override]
        if not isinstance(other, Mapping):
            return NotImplemented
        return type(self)({**other, **self}, measure=self.measure, prefix=self.prefix)

    def __ior__(  # type: ignore[override]
        self, other: Mapping[str, BaseDistribution] | Iterable[tuple[str, BaseDistribution]]
    ) -> Self:
        self.measure, self.prefix = self._measure_with(other)
        self.update(other)
        return self

    def _measure_with(self, other: object) -> tuple[Measure | None, str]:
        """Return the measure and prefix of this space joined with another."""
        if not isinstance(other, Space) or other.measure is None:
            return self.measure, self.prefix
        theirs = other.measure, other.prefix
        if self.measure is None or theirs == (self.measure, self.prefix):
            return theirs
        # Leaves of one step and, say, neighbours of another have no common unit.
        return None, ""


def check(space: Mapping[str, BaseDistribution], estimator: Any) -> None:
    """Raise a ProblemError unless the space fits the estimator.

    Parameters
    ----------
    space : mapping from parameter names to Optuna distributions
    estimator : scikit-learn-compatible estimator or pipeline, an instance

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from shiftune.search.spaces import svm
    >>> check(svm(), SVC())
    >>> check(svm(), make_pipeline(SVC()))
    Traceback (most recent call last):
    shiftune.errors.ProblemError: 'gamma' is no parameter of Pipeline; did you mean 'svc__gamma'?
    'C' is no parameter of Pipeline; did you mean 'svc__C'?
    """
    if not isinstance(space, Mapping):
        raise ProblemError(
            "a search space is a mapping from parameter names to Optuna distributions, got "
            f"{type(space).__name__}"
        )
    if not space:
        raise ProblemError("the search space is empty; there is nothing to tune")
    check_names(estimator, space)
    for key, value in space.items():
        if not isinstance(value, BaseDistribution):
            raise ProblemError(
                f"the values of {key!r} are {value!r}, not an Optuna distribution; use "
                "FloatDistribution(low, high), IntDistribution(low, high) or "
                "CategoricalDistribution(choices) of optuna.distributions"
            )


def check_names(estimator: Any, names: Iterable[str]) -> None:
    """Raise a ProblemError that says what is wrong with names that are no parameters.

    >>> from sklearn.svm import SVC
    >>> check_names(SVC(), ["C", "Gama"])
    Traceback (most recent call last):
    shiftune.errors.ProblemError: 'Gama' is no parameter of SVC; did you mean 'gamma'?
    """
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise ProblemError(
            f"the estimator must be an instance with get_params(), such as SVC(), got {estimator!r}"
        )
    known = estimator.get_params(deep=True)
    unknown = [_unknown(name, known, estimator) for name in names if name not in known]
    if unknown:
        raise ProblemError("\n".join(unknown))


def _unknown(key: object, known: Mapping[str, Any], estimator: Any) -> str:
    """Say that a key is no parameter, and which one may have been meant."""
    message = f"{key!r} is no parameter of {type(estimator).__name__}"
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
    """Return the parameters a wrong key may stand for, the likeliest first."""
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


def _ends_or_choices(distribution: BaseDistribution) -> tuple[Any, ...]:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    return getattr(distribution, "low", None), getattr(distribution, "high", None)
