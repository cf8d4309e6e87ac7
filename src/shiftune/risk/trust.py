"""How far the adjustment to the target's rows is trusted when models are compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# With a single source nothing can be learned about the adjustment.
UNKNOWN = 0.5


def adjustment(Z: Floats, gaps: Floats, shares: Floats, penalty: float) -> tuple[Floats, Floats]:
    r"""Vector by which the rows adjust the mean over the sites, and the inverse it is made of.

    .. math:: S = (Z^\top Z + \alpha I)^{-1}, \qquad v = S \sum_j q_j (\bar z_T - \bar z_j) ,

    so that :math:`Z v` is what the adjustment adds to the rows' coefficients.

    Parameters
    ----------
    Z : array of shape (n, p)
        Rows of all sources, centred.
    gaps : array of shape (k, p)
        Mean row of the target less that of every source.
    shares : array of shape (k,)
        Of the sources; they add up to 1.
    penalty : float
        Of the ridge regression of the losses on Z.
    """
    solve: Floats = np.linalg.inv(Z.T @ Z + penalty * np.eye(Z.shape[1])).astype(float)
    return np.asarray(solve @ (shares @ gaps)), solve


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
        See `adjustment`; n has the k numbers of rows.
    """
    if len(n) < 2:
        return UNKNOWN
    losses = losses - losses[0]  # models that do not differ must not differ by rounding errors
    site = np.repeat(np.arange(len(n)), n)
    fitted = explained = 0.0
    means = np.add.reduceat(Z, np.cumsum(n) - n) / n[:, None]
    losses_by_site = np.add.reduceat(losses, np.cumsum(n) - n, axis=1) / n
    for j in range(len(n)):
        others, kept = site != j, np.arange(len(n)) != j
        centred = Z[others] - Z[others].mean(axis=0)
        rest = shares[kept] / shares[kept].sum()
        move, _ = adjustment(centred, means[j] - means[kept], rest, penalty)
        a = losses[:, others] @ (centred @ move)
        b = losses_by_site[:, j] - losses_by_site[:, kept] @ rest
        a, b = a - a.mean(), b - b.mean()
        fitted, explained = fitted + float(a @ b), explained + float(a @ a)
    return float(np.clip(fitted / explained, 0, 1)) if explained > 0 else 0.0
