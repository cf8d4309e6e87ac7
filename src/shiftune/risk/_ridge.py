"""Ridge regression on many rows, in chunks, or on many numbers, by its dual form."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from shiftune.rows._moments import MomentRows

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RidgeSystem:
    r"""The inverse :math:`S = (Z^\top Z + \alpha I)^{-1}` of rows Z, shape (n, p).

    Where the rows are fewer than the numbers, the inverse that is kept is the smaller
    :math:`K = (Z Z^\top + \alpha I)^{-1}`, with :math:`S = (I - Z^\top K Z) / \alpha`.
    """

    rows: MomentRows
    penalty: float  # alpha
    gram: Floats  # Z'Z, (p, p), or ZZ', (n, n)
    inverse: Floats  # S or K

    @classmethod
    def of(cls, rows: MomentRows, penalty: float) -> RidgeSystem:
        """Build the system; the rows are read once."""
        if rows.width > len(rows):
            Z = rows.dense()
            gram = Z @ Z.T
        else:
            gram = rows.gram()
        return cls(rows, penalty, gram, _inverse(gram, penalty))

    @property
    def dual(self) -> bool:
        """Whether the smaller inverse K is kept."""
        return self.rows.width > len(self.rows)

    def with_penalty(self, penalty: float) -> RidgeSystem:
        """Return the system of the same rows under another penalty."""
        return replace(self, penalty=penalty, inverse=_inverse(self.gram, penalty))

    def solve(self, v: Floats) -> Floats:
        """Return S v, for a vector (p,) or columns (p, m)."""
        if not self.dual:
            return np.asarray(self.inverse @ v)
        Z = self.rows.dense()
        return np.asarray((v - Z.T @ (self.inverse @ (Z @ v))) / self.penalty)

    def slope(self, r: Floats) -> Floats:
        """Return S Z'r, the regression of r (n,) on the rows, shape (p,)."""
        if self.dual:
            return self.rows.sums(self.inverse @ r)
        return np.asarray(self.inverse @ self.rows.sums(r))


def _inverse(gram: Floats, penalty: float) -> Floats:
    return np.linalg.inv(gram + penalty * np.eye(len(gram))).astype(float)


def directions(
    target: MomentRows, mean: Floats, ridge: RidgeSystem, share: float, most: int
) -> Floats:
    r"""Directions along which the error of the adjustment varies most, times its deviation there.

    The largest eigenvectors, times the roots of their eigenvalues, of

    .. math:: \mathrm{cov}(z_T) / n_T + c\, Z^\top Z,

    the covariance of the target's mean and the prior of the slopes that the penalty holds back:
    shape (at most `most`, p). c is the `share`, and `mean`, (p,), that of the target's rows.
    """
    p = ridge.rows.width
    if not ridge.dual or len(target) + len(ridge.rows) >= p:
        gram = ridge.rows.gram() if ridge.dual else ridge.gram
        values, vectors = _largest(target.less(mean).gram() / len(target) ** 2 + share * gram, most)
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
