"""Regret of a choice, and how means over data sets compare.

Regret is averaged over the cells of a data set (all its targets and seeds), then over data sets.
Two estimators are compared by the ratio of these means, on the cells that both have. Its interval
is by bootstrap over data sets, each draw with the same data sets for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

NAIVE, PUBLISHED = "naive", "VR as published"
CELL = ["dataset", "target", "family", "seed"]
CAP = 3.0
LEVEL = 0.9
DRAWS = 2000


class Measured(NamedTuple):
    """A measured number with its interval."""

    value: float
    low: float
    high: float


NOTHING = Measured(np.nan, np.nan, np.nan)


def regret(frame: pd.DataFrame) -> pd.Series:
    """Return min((loss - best) / (median - best), 3), one per row; 0 where all are the same."""
    span = frame["median"] - frame["best"]
    excess = (frame["loss"] - frame["best"]) / span.where(span > 0)
    return excess.clip(upper=CAP).where(span > 0, 0.0)


def by_cell(frame: pd.DataFrame, values: pd.Series, keys: Sequence[str] = CELL) -> pd.DataFrame:
    """Lay values of the rows out: a row per cell, a column per estimator, in the file's order."""
    long = frame[[*keys, "estimator"]].assign(value=values)
    wide = long.pivot(index=list(keys), columns="estimator", values="value")  # noqa: PD010 - no means
    return wide[list(dict.fromkeys(frame["estimator"]))]


def over_datasets(wide: pd.DataFrame, *estimators: str) -> pd.DataFrame:
    """Return means per data set, of the cells that all of the estimators have."""
    columns = list(dict.fromkeys(estimators))
    return wide[columns].dropna().groupby(level="dataset").mean()


def relative(wide: pd.DataFrame, estimator: str, to: str = NAIVE) -> Measured:
    """Return the ratio of two estimators' means over data sets, with its interval."""
    means = over_datasets(wide, estimator, to)
    return ratio_of_means(means[estimator], means[to])


def ratio_of_means(over: pd.Series, under: pd.Series) -> Measured:
    """Return mean(over) / mean(under) of paired values; 1 where both are 0."""
    if over.empty:
        return NOTHING
    a, b = over.to_numpy(float), under.to_numpy(float)
    drawn = resampled(len(a))
    value = _quotient(np.array([a.mean()]), np.array([b.mean()]))[0]
    return _measured(value, _quotient(a[drawn].mean(axis=1), b[drawn].mean(axis=1)))


def mean(values: pd.Series) -> Measured:
    """Return the mean, with its interval."""
    if values.empty:
        return NOTHING
    v = values.to_numpy(float)
    return _measured(v.mean(), v[resampled(len(v))].mean(axis=1))


def geometric_mean(values: pd.Series) -> Measured:
    """Return the geometric mean, with its interval."""
    return Measured(*np.exp(mean(np.log(values))))


def resampled(n: int) -> np.ndarray:
    """Return which of n are drawn, with replacement, (DRAWS, n): the same for every comparison."""
    return np.random.default_rng(0).integers(n, size=(DRAWS, n))


def _measured(value: float, drawn: np.ndarray) -> Measured:
    # A quantile that is one of the draws: between infinite ones nothing can be interpolated.
    ends = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return Measured(float(value), float(ends[0]), float(ends[1]))


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    nothing = np.where(a == 0, 1.0, np.inf)
    return np.divide(a, b, out=nothing, where=b != 0)
