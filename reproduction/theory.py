r"""Variances of the paper's estimators in closed form.

`n` holds the rows :math:`n_j` of the k sources and `div` their divergences from the target,
:math:`\mathrm{Div}(T \| S_j) = E_j[w_j^2 L^2] - f_T^2`, the variance of one weighted loss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shiftune.risk import optimal_lambda, unbiased_lambda


def divergence(weighted_losses: ArrayLike) -> float:
    r"""Empirical divergence of one source from the target.

    .. math:: \widehat{\mathrm{Div}} = \mathrm{mean}\,(wL)^2 - (\mathrm{mean}\, wL)^2

    >>> divergence([1.0, 3.0])
    1.0
    """
    return float(np.var(np.asarray(weighted_losses, dtype=float)))


def variance_of_lambda(lam: ArrayLike, n: ArrayLike, div: ArrayLike) -> float:
    r"""Variance of a lambda-unbiased estimator (proof of the variance optimality theorem).

    .. math:: V(\hat f_\lambda) = \sum_j \lambda_j^2 n_j \mathrm{Div}_j

    >>> round(variance_of_lambda([0, 1], [1, 1], [252.81, 4.2711]), 4)
    4.2711
    """
    weights, rows, d = (np.asarray(v, dtype=float) for v in (lam, n, div))
    return float(np.sum(weights**2 * rows * d))


def variance_of_unbiased(n: ArrayLike, div: ArrayLike) -> float:
    r"""Variance of the unbiased estimator (proposition on the variance of f_UB).

    .. math:: V(\hat f_{UB}) = \frac{1}{n^2} \sum_j n_j \mathrm{Div}_j

    >>> round(variance_of_unbiased([1, 1], [252.81, 4.27111111]), 4)
    64.2703
    """
    return variance_of_lambda(unbiased_lambda(n), n, div)


def optimal_variance(n: ArrayLike, div: ArrayLike) -> float:
    r"""Variance of the variance reduced estimator, the smallest of all lambdas (theorem 1).

    .. math:: V(\hat f_{VR}) = \Big( \sum_j \frac{n_j}{\mathrm{Div}_j} \Big)^{-1}

    >>> round(optimal_variance([1, 1], [252.81, 4.27111111]), 4)
    4.2002
    """
    return variance_of_lambda(optimal_lambda(n, div), n, div)
