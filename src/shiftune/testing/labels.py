"""Labels of all kinds, most of them odd, and weights and groups of rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from shiftune.testing.columns import ODD_TEXTS

# Of a generator, the site number of every row, and a number that the label may depend on.
Label = Callable[[np.random.Generator, np.ndarray, np.ndarray], Any]


def _signal(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> np.ndarray:
    noise: np.ndarray = x + rng.standard_normal(len(x)) + 0.3 * site
    return noise


def _yes(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> np.ndarray:
    yes: np.ndarray = _signal(rng, site, x) > 0
    return yes


def _classes(k: int) -> Label:
    def made(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
        noisy = _signal(rng, site, x)
        return np.argsort(np.argsort(noisy, kind="stable")) * k // max(len(noisy), 1)

    return made


def _named(names: list[str]) -> Label:
    of = _classes(len(names))
    return lambda rng, site, x: np.array(names, dtype=object)[of(rng, site, x)]


def _scaled(scale: float, dtype: Any = float) -> Label:
    return lambda rng, site, x: (_signal(rng, site, x) * scale).astype(dtype)


def _one_class_at_a_site(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
    return np.where(site % 2 == 0, 1, _yes(rng, site, x)).astype(int)


def _one_class_per_site(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
    return np.char.add("class ", (site % 5).astype(str)).astype(object)


def _rare(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
    return (np.arange(len(x)) == len(x) - 1).astype(int)


def _missing(label: Label, share: float) -> Label:
    def made(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
        values = np.asarray(label(rng, site, x)).astype(object)
        values[rng.random(len(x)) < share] = None
        return values

    return made


def _with(label: Label, value: Any) -> Label:
    def made(rng: np.random.Generator, site: np.ndarray, x: np.ndarray) -> Any:
        values = np.asarray(
            label(rng, site, x), dtype=object if not isinstance(value, float) else None
        )
        values[rng.integers(len(values))] = value
        return values

    return made


USUAL_LABELS: dict[str, Label] = {
    "0 and 1": lambda rng, site, x: _yes(rng, site, x).astype(int),
    "booleans": _yes,
    "yes and no": _named(["no", "yes"]),
    "three classes": _named(["a", "b", "c"]),
    "15 classes": _classes(15),
    "60 names": _named([f"class {i}" for i in range(60)]),
    "odd names": _named(ODD_TEXTS[2:9]),
    "-1 and 1": lambda rng, site, x: 2 * _yes(rng, site, x).astype(int) - 1,
    "0.0 and 1.0": lambda rng, site, x: _yes(rng, site, x).astype(float),
    "known from the column": lambda rng, site, x: (np.nan_to_num(x) > 0).astype(int),
    "one class at a site": _one_class_at_a_site,
    "one class per site": _one_class_per_site,
    "one rare row": _rare,
    "quantity": _signal,
    "large quantity": _scaled(1e25),
    "small quantity": _scaled(1e-25),
    "float32": _scaled(1, np.float32),
    "counts": lambda rng, site, x: rng.poisson(30 + 5 * site),
    "heavy tails": lambda rng, site, x: np.clip(rng.standard_cauchy(len(x)) ** 3, -1e25, 1e25),
    "quantity known from the column": lambda rng, site, x: 2 * np.nan_to_num(x) + 1.5,
    "mostly zero": lambda rng, site, x: np.where(rng.random(len(x)) < 0.9, 0.0, 1.5),
    "Int64": lambda rng, site, x: pd.array(_yes(rng, site, x).astype(int), dtype="Int64"),
    "category": lambda rng, site, x: pd.Categorical(_named(["no", "yes"])(rng, site, x)),
    "boolean": lambda rng, site, x: pd.array(_yes(rng, site, x), dtype="boolean"),
}
ODD_LABELS: dict[str, Label] = {
    "constant quantity": lambda rng, site, x: np.full(len(x), 2.5),
    "constant class": lambda rng, site, x: np.full(len(x), "all", dtype=object),
    "constant per site": lambda rng, site, x: site + 0.5,
    "nearly constant": _with(lambda rng, site, x: np.full(len(x), 2.5), 2.5000001),
    "too large": _scaled(1e200),
    "too small": _scaled(1e-200),
    "infinite": _with(_signal, np.inf),
    "some missing": _missing(_yes, 0.2),
    "most missing": _missing(_signal, 0.9),
    "all missing": _missing(_signal, 1.1),
    "mixed": _with(_yes, "maybe"),
    "dates": lambda rng, site, x: pd.Timestamp("2020-01-01") + pd.to_timedelta(site, "D"),
    "lists": _with(_signal, dt.date(2020, 1, 1)),
    "complex": lambda rng, site, x: _signal(rng, site, x) + 1j,
    "large integers": lambda rng, site, x: rng.integers(2**62, 2**63 - 1, len(x)),
    "every row a class": lambda rng, site, x: np.array(
        [f"c{i}" for i in range(len(x))], dtype=object
    ),
}

Rows = Callable[[np.random.Generator, int], Any]

WEIGHTS: dict[str, Rows] = {
    "weights": lambda rng, n: rng.exponential(1, n) + 1e-3,
    "ones": lambda rng, n: np.ones(n),
    "weights of all scales": lambda rng, n: 10.0 ** rng.integers(-12, 12, n),
    "one heavy row": lambda rng, n: np.where(np.arange(n) == 0, 1e9, 1.0),
    "whole weights": lambda rng, n: rng.integers(1, 5, n),
}
ODD_WEIGHTS: dict[str, Rows] = {
    "a weight of 0": lambda rng, n: rng.integers(0, 5, n),
    "extreme weights": lambda rng, n: 10.0 ** rng.integers(-300, 300, n),
    "negative weights": lambda rng, n: rng.standard_normal(n),
    "missing weights": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, 1.0),
    "weights as text": lambda rng, n: np.full(n, "heavy", dtype=object),
}
GROUPS: dict[str, Rows] = {
    "pairs": lambda rng, n: np.arange(n) // 2,
    "few groups": lambda rng, n: rng.integers(0, 3, n),
    "one group": lambda rng, n: np.zeros(n, dtype=int),
    "rows": lambda rng, n: np.arange(n),
    "named": lambda rng, n: np.array(ODD_TEXTS, dtype=object)[rng.integers(0, len(ODD_TEXTS), n)],
    "some missing": lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, rng.integers(0, 5, n)),
}
ODD_GROUPS: dict[str, Rows] = {
    "all missing": lambda rng, n: np.full(n, np.nan),
    "lists": lambda rng, n: pd.Series([[i] for i in range(n)]),
    "complex": lambda rng, n: np.arange(n) + 1j,
}
