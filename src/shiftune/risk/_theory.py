r"""Weights of the paper's unbiased class.

`n` holds the rows :math:`n_j` of the k sources and `div` their divergences from the target,
:math:`\mathrm{Div}(T \| S_j) = E_j[w_j^2 L^2] - f_T^2`, the variance of one weighted loss. The
paper is Nomura and Saito, "Efficient Hyperparameter Optimization under Multi-Source Covariate
Shift", CIKM 2021.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune.errors import DataError


def unbiased_lambda(n: ArrayLike) -> NDArray[np.float64]:
    r"""Weights of the unbiased estimator, :math:`\lambda_j = 1/n`, shape (k,).

    The text of the paper has :math:`n_j/n` in one place; only :math:`1/n`, as in its formula,
    satisfies :math:`\sum_j \lambda_j n_j = 1`.

    >>> unbiased_lambda([1, 3])
    array([0.25, 0.25])
    """
    rows = np.asarray(n, dtype=float)
    return np.full(len(rows), 1 / rows.sum())


def optimal_lambda(n: ArrayLike, div: ArrayLike) -> NDArray[np.float64]:
    r"""Weights of the variance reduced estimator, shape (k,).

    .. math:: \lambda^\star_j = \Big( \mathrm{Div}_j \sum_l \frac{n_l}{\mathrm{Div}_l} \Big)^{-1}

    Divergences of 0 are infinitely precise, and share all the mass among them.

    >>> optimal_lambda([1, 1], [252.81, 4.27111111]).round(4)
    array([0.0166, 0.9834])
    """
    rows, d = np.asarray(n, dtype=float), np.asarray(div, dtype=float)
    if np.any(d < 0):
        raise DataError("a divergence cannot be negative")
    if np.any(d == 0):  # the limit of the formula: those sources share all the mass
        return np.where(d == 0, 1 / rows[d == 0].sum(), 0.0)
    # Relative to the smallest, so that divergences of 1e-200 neither overflow nor vanish.
    precision = d.min() / d
    return np.asarray(precision / (rows * precision).sum())
