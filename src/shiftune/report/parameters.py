"""Parameters of the chosen trial, with the searched ranges and the values that are as good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from shiftune.search.records import finished_trials
from shiftune.search.result import SearchResult
from shiftune.wording import number, short_names

# Of the width of a range, on its scale.
NEAR_AN_END = 0.01


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of the table of parameters, as text."""

    name: str
    short_name: str
    chosen: str
    default: str
    searched: str
    as_good: str


def parameters(result: SearchResult) -> list[Parameter]:
    """Describe every parameter that any trial has; texts are empty where there is no value."""
    chosen = result.best_params
    default: dict[str, Any] = {}
    for family in result.families.values():
        default |= family.defaults()
    tied = [t.params for t in finished_trials(result.study) if t.number in result.tied]
    short = short_names(result.distributions)
    return [
        Parameter(
            name,
            short[name],
            number(chosen[name]) if name in chosen else "",
            number(default[name]) if name in default else "",
            _searched(distribution, chosen.get(name)),
            _span([params[name] for params in tied if name in params]),
        )
        for name, distribution in result.distributions.items()
    ]


def in_words(params: Mapping[str, Any]) -> str:
    """Return parameters in one line, by short names.

    >>> in_words({"model__alpha": 0.5, "model__l1_ratio": 1.0}), in_words({})
    ('alpha 0.5, l1_ratio 1', 'default parameters')
    """
    short = short_names(params)
    words = [f"{short[name]} {number(value)}" for name, value in params.items()]
    return ", ".join(words) or "default parameters"


def _searched(distribution: BaseDistribution, chosen: Any) -> str:
    """Describe the searched range, and whether the chosen value lies at its end.

    >>> _searched(FloatDistribution(1e-4, 1e3, log=True), 990.0)
    '0.0001 to 1000, log scale; chosen at its end'
    """
    if isinstance(distribution, CategoricalDistribution):
        return ", ".join(str(choice) for choice in distribution.choices)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        log = ", log scale" if distribution.log else ""
        end = "; chosen at its end" if _at_an_end(distribution, chosen) else ""
        return f"{_range(distribution.low, distribution.high)}{log}{end}"
    return str(distribution)


def _at_an_end(distribution: FloatDistribution | IntDistribution, chosen: Any) -> bool:
    if chosen is None or distribution.single():
        return False
    ends = np.array([distribution.low, chosen, distribution.high], dtype=float)
    low, value, high = np.log(ends) if distribution.log else ends
    return bool(min(value - low, high - value) <= NEAR_AN_END * (high - low))


def _span(values: Sequence[Any]) -> str:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values) or not numbers:
        return ", ".join(dict.fromkeys(str(v) for v in values))
    return _range(min(numbers), max(numbers))


def _range(low: Any, high: Any) -> str:
    """Write both ends.

    >>> _range(0.01, 0.3), _range(5, 5)
    ('0.01 to 0.3', '5')
    """
    first, last = number(low), number(high)
    return first if first == last else f"{first} to {last}"
