r"""Variances of the paper's estimators in closed form, and the regret bound.

`n` holds the rows :math:`n_j` of the k sources and `div` their divergences from the target,
:math:`\mathrm{Div}(T \| S_j) = E_j[w_j^2 L^2] - f_T^2`, the variance of one weighted loss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shiftune.errors import DataError, SettingsError
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


def regret_bound(
    optimisation_regret: float,
    *,
    variance_chosen: float,
    variance_best: float,
    variance_best_estimated: float,
    delta: float = 0.1,
) -> float:
    r"""Upper bound on the regret of the chosen hyperparameters (main theorem).

    With probability at least :math:`1 - \delta`,

    .. math:: f(\hat\theta_B) - f(\theta^\star) \le R_n
        + \sqrt{2 V(\hat f(\hat\theta_B)) / \delta}
        + \sqrt{2 (V(\hat f(\theta^\star)) + V(\hat f(\hat\theta^\star))) / \delta} .

    The theorem takes the chosen :math:`\hat\theta_B` as if it did not depend on the data; with
    plug-in variances the bound is a guide, not a certificate.

    Parameters
    ----------
    optimisation_regret : float
        :math:`R_n = \hat f(\hat\theta_B) - \min_\theta \hat f(\theta)`: what the optimiser left.
    variance_chosen, variance_best, variance_best_estimated : float
        Variances of the estimated risk at the chosen hyperparameters, at the truly best ones,
        and at those that minimise the estimate.
    delta : float in (0, 1)

    Examples
    --------
    >>> round(regret_bound(0.1, variance_chosen=0.02, variance_best=0.01,
    ...                    variance_best_estimated=0.01, delta=0.16), 6)
    1.1
    """
    if not 0 < delta < 1:
        raise SettingsError(f"delta must lie between 0 and 1, got {delta}")
    if min(optimisation_regret, variance_chosen, variance_best, variance_best_estimated) < 0:
        raise DataError("regret and variances cannot be negative")
    return float(
        optimisation_regret
        + np.sqrt(2 * variance_chosen / delta)
        + np.sqrt(2 * (variance_best + variance_best_estimated) / delta)
    )
