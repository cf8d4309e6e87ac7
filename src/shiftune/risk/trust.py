"""How far the adjustment to the target's rows is trusted when models are compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# With a single source nothing can be learned about the adjustment.
UNKNOWN = 0.5


def row_coefficients(
    Z: Floats, target: Floats, n: NDArray[np.intp], shares: Floats, penalty: float
) -> tuple[Floats, Floats]:
    """Coefficients of the rows' losses in the mean over the sites, and what the adjustment adds.

    Parameters
    ----------
    Z : array of shape (n, p)
        Rows of all sources, centred.
    target : array of shape (p,)
        Mean row of the target.
    n : array of shape (k,)
    shares : array of shape (k,)
        Of the sources; they add up to 1.
    penalty : float
        Of the ridge regression of the losses on Z.
    """
    starts = np.cumsum(n) - n
    gap = target - shares @ (np.add.reduceat(Z, starts) / n[:, None])
    move = np.linalg.solve(Z.T @ Z + penalty * np.eye(Z.shape[1]), gap)
    return np.repeat(shares / n, n), Z @ move


def trust_in_adjustment(
    losses: Floats, Z: Floats, n: NDArray[np.intp], shares: Floats, penalty: float
) -> float:
    r"""Share of the adjustment that would have compared the models best at the sources.

    .. math:: \gamma = \frac{\sum_j a_j^\top b_j}{\sum_j a_j^\top a_j}, \quad 0 \le \gamma \le 1

    Every source j takes the target's role. Over the models, :math:`b_j` is the mean loss at j less
    the mean over the other sources, and :math:`a_j` what the adjustment of the other sources to the
    rows of j adds to that mean; both less their means over the models, since only differences
    between models matter. :math:`\gamma a_j` is the least-squares fit to :math:`b_j`. Where only
    the rows' distributions differ it is near 1, where p(y|x) does it is often near 0, and an
    adjustment that extrapolates wildly is ignored.

    Parameters
    ----------
    losses : array of shape (P, n)
        Of several models, on the rows of all sources.
    Z, n, shares, penalty
        See `row_coefficients`.
    """
    if len(n) < 2:
        return UNKNOWN
    site = np.repeat(np.arange(len(n)), n)
    fitted = explained = 0.0
    for j in range(len(n)):
        own, others = site == j, site != j
        center = Z[others].mean(axis=0)
        rest = np.delete(shares, j)
        plain, added = row_coefficients(
            Z[others] - center,
            Z[own].mean(axis=0) - center,
            np.delete(n, j),
            rest / rest.sum(),
            penalty,
        )
        a = losses[:, others] @ added
        b = losses[:, own].mean(axis=1) - losses[:, others] @ plain
        a, b = a - a.mean(), b - b.mean()
        fitted, explained = fitted + float(a @ b), explained + float(a @ a)
    return float(np.clip(fitted / explained, 0, 1)) if explained > 0 else 0.0
