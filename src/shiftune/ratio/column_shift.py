"""Differences of every column's distribution between the target and each source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.problem.site import Features
from shiftune.rows.columns import kinds_of, level_columns, number_columns
from shiftune.rows.levels import one_hot
from shiftune.rows.subsample import subsample

_MOST_ROWS = 5_000


def column_shifts(
    X_target: Features, X_sources: Sequence[Features], names: Sequence[str]
) -> pd.DataFrame:
    r"""Distance between the distributions of every column at the target and at each source.

    From 0 (alike) to 1 (nothing in common): for numbers and dates the Kolmogorov-Smirnov
    distance, :math:`\sup_t |F_T(t) - F_j(t)|`, with missing values below all others; for
    categories the total variation distance, :math:`\frac12 \sum_c |p_T(c) - p_j(c)|`, over the 20
    most frequent levels (missing is one) and the rest. Each column is compared by itself: a shift
    in the dependence of two columns is not measured. Sampling error alone gives about
    :math:`0.9 \sqrt{1/n_T + 1/n_j}`.

    Parameters
    ----------
    X_target, X_sources : rows of the target and of k sources, with the same columns
    names : k names

    Returns
    -------
    DataFrame of shape (d, k)
        The column that shifts most, on average over the sources, first.

    Examples
    --------
    >>> target = pd.DataFrame({"sex": ["f", "m"] * 50, "age": np.arange(100.0)})
    >>> older = pd.DataFrame({"sex": ["m", "f"] * 50, "age": np.arange(75.0, 175.0)})
    >>> column_shifts(target, [older], ["B"])
    site     B
    age   0.75
    sex   0.00
    """
    tables = [subsample(X, _MOST_ROWS) for X in (X_target, *X_sources)]
    kinds = kinds_of(tables)
    numbers = zip(*(number_columns(X, kinds).T for X in tables), strict=True)
    levels = zip(*(level_columns(X, kinds).T for X in tables), strict=True)
    distances = np.array(
        [[ks_distance(target, source) for source in sources] for target, *sources in numbers]
        + [_total_variations(columns) for columns in levels]
    )
    # Numbers and dates come first, then categories.
    columns = sorted(kinds, key=lambda c: kinds[c] == "category") or range(len(distances))
    order = np.argsort(-distances.mean(axis=1), kind="stable")
    return pd.DataFrame(
        distances[order],
        index=pd.Index([str(columns[c]) for c in order]),
        columns=pd.Index(list(names), name="site"),
    )


def ks_distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Kolmogorov-Smirnov distance of two samples; missing values are below all others."""
    first, second = (np.sort(np.where(np.isnan(x), -np.inf, x)) for x in (a, b))
    points = np.concatenate([first, second])
    below = (np.searchsorted(x, points, side="right") / len(x) for x in (first, second))
    return float(np.max(np.abs(np.subtract(*below))))


def _total_variations(columns: Sequence[NDArray[np.object_]]) -> list[float]:
    """Distance of the first table's levels from those of every other table."""
    encoder = one_hot().fit(np.concatenate(columns)[:, None])
    target, *sources = [encoder.transform(column[:, None]).mean(axis=0) for column in columns]
    return [float(np.abs(target - source).sum() / 2) for source in sources]
