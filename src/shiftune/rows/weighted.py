"""Rows that count by weights, as rows that count once each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def linearised(values: Floats, weights: Floats | None) -> Floats:
    r"""Return values whose plain mean is the weighted mean, and whose variance is that of it.

    .. math:: z_i = m + (x_i - m)\, w_i / \bar w, \qquad m = \sum_i w_i x_i / \sum_i w_i .

    The second part is the influence of row i on m, so that formulas for rows that count once each
    (means, standard errors, sums within groups of rows) hold for weighted ones, and weights can be
    multiplied by any number.

    Parameters
    ----------
    values : array of shape (n,) or (n, p)
    weights : array of shape (n,), or None for rows that count once each

    Examples
    --------
    >>> linearised(np.array([1.0, 4.0]), np.array([2.0, 1.0])).mean()  # of 1, 1, 4
    np.float64(2.0)
    """
    if weights is None:
        return values
    w = weights / weights.mean()
    mean = w @ values / len(w)
    return np.asarray(mean + (w * (values - mean).T).T)


def coefficients(shares: Floats, weights: Floats | None) -> Floats:
    r"""Return coefficients of values, from those of the values linearised.

    With z as in `linearised`, the c' of :math:`\sum_i c_i z_i = \sum_i c'_i x_i`, shape (n,).

    >>> w, c = np.array([2.0, 1.0]), np.array([0.5, 0.1])
    >>> x = np.array([1.0, 4.0])
    >>> bool(np.isclose(c @ linearised(x, w), coefficients(c, w) @ x))
    True
    """
    if weights is None:
        return shares
    w = weights / weights.mean()
    return np.asarray(w * (shares + (shares.sum() - w @ shares) / len(w)))
