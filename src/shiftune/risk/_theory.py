r"""The paper's theory as functions: weights of the unbiased class, and the regret bound.

Throughout, `n` holds the rows :math:`n_j` of the k sources and `div` their divergences from the
target, :math:`\mathrm{Div}(T \| S_j) = E_j[w_j^2 L^2] - f_T^2`, which is the variance of one
weighted loss. The paper is Nomura and Saito, "Efficient Hyperparameter Optimization under
Multi-Source Covariate Shift", CIKM 2021.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune.errors import DataError, SettingsError


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
