"""Directions in which an adjustment to the target's rows may be wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from shiftune.risk.ridge import RidgeSystem
from shiftune.rows.moments import MomentRows

Floats = NDArray[np.float64]


def directions(
    target: MomentRows, mean: Floats, ridge: RidgeSystem, share: float, most: int
) -> Floats:
    r"""Directions along which the error of the adjustment varies most, times its deviation there.

    The largest eigenvectors, times the roots of their eigenvalues, of

    .. math:: \mathrm{cov}(z_T) / n_T + c\, Z^\top Z,

    the covariance of the target's mean and the prior of the slopes that the penalty holds back.

    Parameters
    ----------
    target : MomentRows
        Of shape (n_T, p).
    mean : array of shape (p,)
        Of its rows.
    ridge : RidgeSystem
        Of the sources' rows Z.
    share : float
        c.
    most : int
        Number of directions.

    Returns
    -------
    array of shape (at most `most`, p)
    """
    p = ridge.rows.width
    if not ridge.dual or len(target) + len(ridge.rows) >= p:
        gram = ridge.rows.gram() if ridge.dual else ridge.gram
        values, vectors = _largest(target.gram(mean) / len(target) ** 2 + share * gram, most)
        return np.asarray(np.sqrt(values.clip(0))[:, None] * vectors.T)
    away = (target.dense() - mean) / len(target)
    rows = np.vstack([away, np.sqrt(share) * ridge.rows.dense()])
    return np.asarray(_largest(rows @ rows.T, most)[1].T @ rows)


def _largest(matrix: Floats, most: int) -> tuple[Floats, Floats]:
    """Largest eigenvalues of a symmetric matrix, and their vectors as columns."""
    p = len(matrix)
    if p <= most:
        return np.linalg.eigh(matrix)
    values, vectors = eigh(matrix, subset_by_index=[p - most, p - 1])
    return np.asarray(values), np.asarray(vectors)
