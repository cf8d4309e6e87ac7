"""Held-out score by which any density ratios can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from shiftune.errors import DataError
from shiftune.problem.site import rows_of
from shiftune.ratio.base import DensityRatio


def held_out_scores(
    ratio: DensityRatio,
    X_target: Any,
    X_sources: Sequence[Any],
    *,
    n_folds: int = 5,
    random_state: int = 0,
) -> NDArray[np.float64]:
    r"""Least-squares objective of a ratio on rows it was not fitted on; lower is better.

    .. math:: J_j(w) = \tfrac12 \, \mathrm{mean}_{S_j} w^2 - \mathrm{mean}_T \, w
              = \tfrac12 \, E_j (w - w_j)^2 + \text{const},

    the paper's equation for uLSIF: up to a constant that is the same for all candidates, it is
    half the mean squared error against the true ratio.

    Parameters
    ----------
    ratio : DensityRatio
        Cloned for every fold, and not changed.
    X_target, X_sources
        As in `DensityRatio.fit`.
    n_folds : int
        Target and sources are split alike; at most as many as the smallest of them has rows.

    Returns
    -------
    array of shape (n_folds, k)
        J of every source on every held-out fold.

    Examples
    --------
    >>> from shiftune.ratio import ClassifierRatio, KnownRatio
    >>> rng = np.random.default_rng(0)
    >>> target, source = rng.normal(0, 1, (500, 1)), rng.normal(1, 1, (500, 1))
    >>> flat = KnownRatio([lambda X: np.ones(len(X))])
    >>> good = held_out_scores(ClassifierRatio(), target, [source]).mean()
    >>> bool(good < held_out_scores(flat, target, [source]).mean())
    True
    """
    tables = [X_target, *X_sources]
    n_folds = min(n_folds, *(len(X) for X in tables))
    if n_folds < 2:
        raise DataError("a held-out score needs at least 2 rows in the target and every source")
    folds = KFold(n_folds, shuffle=True, random_state=random_state)
    scores = np.empty((n_folds, len(X_sources)))
    for f, cuts in enumerate(zip(*(folds.split(X) for X in tables), strict=True)):
        train = [rows_of(X, kept) for X, (kept, _) in zip(tables, cuts, strict=True)]
        test = [rows_of(X, out) for X, (_, out) in zip(tables, cuts, strict=True)]
        fitted = clone(ratio).fit(train[0], train[1:])
        for j, V in enumerate(test[1:]):
            on_source = fitted.weights_at(V, source=j)
            on_target = fitted.weights_at(test[0], source=j)
            scores[f, j] = 0.5 * np.mean(on_source**2) - np.mean(on_target)
    return scores
