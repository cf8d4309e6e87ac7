"""Tail of a weighted sum of chi-square variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import chdtrc, ndtr

# Within this many standard deviations of the mean the saddlepoint formula divides 0 by 0.
_NEAR_THE_MEAN = 1e-3


def weighted_chi_square_tail(q: float, weights: ArrayLike) -> float:
    r"""Probability that :math:`\sum_c \lambda_c \chi^2_1` exceeds q, by a saddlepoint.

    .. math:: K(\zeta) = -\tfrac12 \sum_c \log(1 - 2 \zeta \lambda_c), \quad K'(\zeta) = q, \quad
              p = 1 - \Phi\!\left(u + \tfrac1u \log \tfrac vu\right),

    with :math:`u = \mathrm{sign}(\zeta) \sqrt{2 (\zeta q - K)}` and :math:`v = \zeta \sqrt{K''}`.
    The relative error stays small far out in the tail, where permutations would have to be
    counted by the million [1]_. At the mean the argument is a sixth of the skewness.

    References
    ----------
    .. [1] D. Kuonen (1999). Saddlepoint approximations for distributions of quadratic forms in
       normal variables. Biometrika 86.
    """
    lam = np.asarray(weights, dtype=float)
    lam = lam[lam > 1e-12 * lam.max(initial=0.0)]
    if len(lam) == 0:
        return 1.0
    lam, q = lam / lam.sum(), q / float(lam.sum())
    if q <= 0:
        return 1.0
    variance = 2 * float(np.sum(lam**2))
    if len(lam) == 1:
        return float(chdtrc(1, q))
    z = (q - 1) / np.sqrt(variance)
    if abs(z) < _NEAR_THE_MEAN:
        return float(ndtr(-z - 8 * np.sum(lam**3) / variance**1.5 / 6))
    top = 1 / (2 * lam.max())
    # K' grows from 0 at minus infinity to infinity at `top`; these ends enclose q.
    low, high = -len(lam) / (2 * q) - 1, top * (1 - 0.5 * lam.max() / (q + 1))
    zeta = brentq(lambda z: float(np.sum(lam / (1 - 2 * z * lam))) - q, low, high, xtol=1e-13)
    K = -0.5 * float(np.sum(np.log1p(-2 * zeta * lam)))
    u = np.sign(zeta) * np.sqrt(2 * (zeta * q - K))
    v = zeta * np.sqrt(2 * float(np.sum((lam / (1 - 2 * zeta * lam)) ** 2)))
    return float(np.clip(ndtr(-(u + np.log(v / u) / u)), 0.0, 1.0))
