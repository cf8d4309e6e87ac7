"""Label and site of every row, predicted from its inputs by models that never saw the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]

FOLDS = 5
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
# Values are clipped at this many standard deviations from the mean: one wild row would otherwise
# decide a linear fit.
MOST_SDS_FROM_MEAN = 3.0
# Larger trees for larger tables; they learn rough functions, and overfit small tables.
ROWS_PER_LEAF = 100
# Trees are grown for every site: 12 sites of 800 rows take some 10 s.
MOST_SITES_FOR_TREES = 12
# More columns have fewer bins in trees, and enter the models of the site as so many principal
# components: with 200 columns these would take minutes.
MANY_COLUMNS = 40
BINS = 255


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """Out-of-fold predictions.

    Attributes
    ----------
    label : array of shape (n, C)
        Expected label given x; for classes, the probability of each.
    site : array of shape (n, k)
        Probability of each site for a row with these inputs.
    fold : array of shape (n,)
    group : array of shape (n,)
        Codes 0..G-1 of rows that belong together, or row numbers.
    """

    label: Floats
    site: Floats
    fold: NDArray[np.intp]
    group: NDArray[np.intp]

    def summed(self, rows: Floats) -> Floats:
        """Add up what the rows of a group report: shape (n, m) -> (G, m)."""
        sums = np.zeros((self.group.max() + 1, rows.shape[1]))
        np.add.at(sums, self.group, rows)
        return sums


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def cross_fitted(
    Z: Floats,
    Y: Floats,
    site: NDArray[np.intp],
    rng: np.random.Generator,
    group: NDArray[np.intp] | None = None,
) -> CrossFitted:
    """Predict label and site of every row from models fitted on the other folds.

    The label: ridge regression, then boosted trees on what it leaves. Trees alone shrink a
    straight line towards its mean, and do so most where a site has its rows; a line alone misses
    every curve. The site: multinomial logistic regression on the columns, their squares (sites
    that spread differently) and the predicted label, so that sites are balanced in particular
    in what the label depends on; or, with up to 12 sites, boosted trees on the same, which see
    values that only some sites have: whichever has the lower log loss in the first fold.

    Parameters
    ----------
    Z : array of shape (n, p)
        Encoded inputs.
    Y : array of shape (n, C)
        Labels, or 0/1 columns of classes.
    site : array of shape (n,)
        Numbers 0..k-1, each with at least `FOLDS` rows, or groups.
    rng : Generator
        Assigns the rows to folds.
    group : array of shape (n,), optional
        Codes 0..G-1 of rows of a site that belong together, and are in the same fold.
    """
    n, k = len(Z), int(site.max()) + 1
    group = np.arange(n) if group is None else group
    _, first = np.unique(group, return_index=True)
    fold = assign_folds(site[first], rng)[group]
    Z = standardised(Z)
    label, chance = np.empty_like(Y), np.empty((n, k))
    for f in range(FOLDS):
        rest, held = fold != f, fold == f
        for c in range(Y.shape[1]):
            label[held, c] = _expected(Z[rest], Y[rest, c], Z[held])
    inputs = Z if Z.shape[1] <= MANY_COLUMNS else principal_components(Z, MANY_COLUMNS)
    numbers = np.array([len(np.unique(column)) > 2 for column in inputs.T], dtype=bool)
    G = standardised(np.hstack([inputs, inputs[:, numbers] ** 2, label]))
    models: list[Any] = [LogisticRegression(max_iter=1000, tol=1e-3)]
    if k <= MOST_SITES_FOR_TREES:
        models.append(HistGradientBoostingClassifier(**_trees(n, inputs.shape[1]), max_iter=60))
    for f in range(FOLDS):
        rest, held = fold != f, fold == f
        answers = [model.fit(G[rest], site[rest]).predict_proba(G[held]) for model in models]
        best = int(np.argmin([log_loss(site[held], p, labels=np.arange(k)) for p in answers]))
        models, chance[held] = [models[best]], answers[best]
    return CrossFitted(label, chance, fold, group)


def assign_folds(site: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Assign the rows (or groups) of every site to the folds, as evenly as possible, (n,)."""
    fold = np.empty(len(site), dtype=np.intp)
    for j in np.unique(site):
        rows = rng.permutation(np.flatnonzero(site == j))
        fold[rows] = (np.arange(len(rows)) + j) % FOLDS
    return fold


def standardised(Z: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1, cut at 3; constant ones become 0."""
    spread = Z.std(axis=0)
    scaled = (Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.asarray(np.clip(scaled, -MOST_SDS_FROM_MEAN, MOST_SDS_FROM_MEAN))


def principal_components(Z: Floats, most: int) -> Floats:
    """Return the leading principal components, standardised, shape (n, at most `most`)."""
    centred = standardised(Z)
    centred -= centred.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    kept = np.argsort(values)[::-1][:most]
    kept = kept[values[kept] > 1e-9 * values.max(initial=0.0)]
    return standardised(centred @ vectors[:, kept])


def _expected(Z: Floats, y: Floats, Z_new: Floats) -> Floats:
    if np.ptp(y) == 0:  # exactly: rounding errors would be taken for labels that move
        return np.full(len(Z_new), y[0])
    line = RidgeCV(PENALTIES).fit(Z, y)
    trees = HistGradientBoostingRegressor(**_trees(*Z.shape), max_iter=100)
    trees.fit(Z, y - line.predict(Z))
    return np.asarray(line.predict(Z_new) + trees.predict(Z_new))


def _trees(n: int, columns: int) -> dict[str, Any]:
    """Settings of boosted trees for n rows: from 8 leaves up to scikit-learn's 31."""
    leaves = int(np.clip(n // ROWS_PER_LEAF, 8, 31))
    return {
        "max_leaf_nodes": leaves,
        "max_bins": int(np.clip(BINS * MANY_COLUMNS // max(columns, 1), 16, BINS)),
        "min_samples_leaf": 10,
        "early_stopping": False,
        "random_state": 0,
    }
