"""What a row's inputs say about its label and about its site, by models that never saw the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FOLDS = 5
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
# Rows this far out, in standard deviations, count as this far: one of them would otherwise
# decide a linear fit.
FARTHEST = 3.0


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """Out-of-fold predictions.

    Attributes
    ----------
    label : array of shape (n, C)
        Expected label given x; for classes, the chance of each.
    site : array of shape (n, k)
        Chance that a row with these inputs is of each site.
    fold : array of shape (n,)
    """

    label: Floats
    site: Floats
    fold: NDArray[np.intp]


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def cross_fitted(
    Z: Floats, Y: Floats, site: NDArray[np.intp], rng: np.random.Generator
) -> CrossFitted:
    """Predict label and site of every row from models fitted on the other folds.

    The label: ridge regression, then boosted trees on what it leaves. Trees alone shrink a
    straight line towards its mean, and do so most where a site has its rows; a line alone misses
    every curve. The site: multinomial logistic regression on the columns, their squares (sites
    that spread differently) and the predicted label, so that sites are balanced in particular
    in what the label depends on.

    Parameters
    ----------
    Z : array of shape (n, p)
        Encoded inputs.
    Y : array of shape (n, C)
        Labels, or 0/1 columns of classes.
    site : array of shape (n,)
        Numbers 0..k-1, each with at least `FOLDS` rows.
    rng : Generator
        Deals the rows to folds.
    """
    n, k = len(Z), int(site.max()) + 1
    fold = dealt(site, rng)
    Z = standardised(Z)
    label, chance = np.empty_like(Y), np.empty((n, k))
    for f in range(FOLDS):
        rest, held = fold != f, fold == f
        for c in range(Y.shape[1]):
            label[held, c] = _expected(Z[rest], Y[rest, c], Z[held])
    numbers = np.array([len(np.unique(column)) > 2 for column in Z.T], dtype=bool)
    G = standardised(np.hstack([Z, Z[:, numbers] ** 2, label]))
    for f in range(FOLDS):
        rest, held = fold != f, fold == f
        model = LogisticRegression(C=1.0, max_iter=1000, tol=1e-3)
        chance[held] = model.fit(G[rest], site[rest]).predict_proba(G[held])
    return CrossFitted(label, chance, fold)


def dealt(site: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Deal the rows of every site to the folds, as evenly as can be, shape (n,)."""
    fold = np.empty(len(site), dtype=np.intp)
    for j in np.unique(site):
        rows = rng.permutation(np.flatnonzero(site == j))
        fold[rows] = (np.arange(len(rows)) + j) % FOLDS
    return fold


def standardised(Z: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1, cut at 3; constant ones become 0."""
    spread = Z.std(axis=0)
    scaled = (Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.asarray(np.clip(scaled, -FARTHEST, FARTHEST))


def _expected(Z: Floats, y: Floats, Z_new: Floats) -> Floats:
    line = RidgeCV(PENALTIES).fit(Z, y)
    trees = HistGradientBoostingRegressor(
        max_iter=100,
        max_leaf_nodes=8,
        learning_rate=0.1,
        min_samples_leaf=10,
        early_stopping=False,
        random_state=0,
    ).fit(Z, y - line.predict(Z))
    return np.asarray(line.predict(Z_new) + trees.predict(Z_new))
