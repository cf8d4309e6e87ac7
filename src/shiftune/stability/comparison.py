"""Comparison of every site's labels with those of the other sites, at the same inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftune.stability.cross_fitting import CrossFitted, principal_components, standardised
from shiftune.stability.weighted_chi_square import weighted_chi_square_tail

Floats = NDArray[np.float64]

# A site with fewer rows, or with fewer like the other sites', is not tested; the guard needs as
# many effective rows (`shiftune.ratio.Guard`).
FEWEST_ROWS = 10
# Slopes are tested along the predicted label and the leading principal components of the
# inputs. Each further direction takes power from the others.
MOST_DIRECTIONS = 10
# Directions times classes times sites; the eigenvalues of a matrix of this size take 0.1 s.
MOST_COMPONENTS = 600


@dataclass(frozen=True, slots=True)
class Comparison:
    r"""Sites compared with the others at the same inputs.

    Attributes
    ----------
    comparable : array of shape (k,)
        Rows of a site that are like those of others, :math:`\sum_{i \in j} (1 - \hat e_j(x_i))`.
    shift, stderr : arrays of shape (k, C)
        How far labels lie above those of the other sites.
    p_level, p_slope : arrays of shape (k,)
        Labels that lie higher or lower; inputs that act differently. NaN where a site has too few
        comparable rows.
    p_together : float
        All sites at once: twice the smaller p value of levels and slopes.
    """

    comparable: Floats
    shift: Floats
    stderr: Floats
    p_level: Floats
    p_slope: Floats
    p_together: float


def compared(Z: Floats, Y: Floats, site: NDArray[np.intp], fits: CrossFitted) -> Comparison:
    r"""Compare the residuals of every site with those of the others at the same inputs.

    With :math:`a_{ij} = 1\{s_i = j\} - \hat e_j(x_i)` and :math:`R_{ij} = (y_i - \hat f(x_i))\,
    a_{ij}`, the shift of site j is :math:`\sum_i R_{ij} / \sum_i a_{ij}^2`, the difference to the
    other sites averaged over the inputs that they share.

    Parameters
    ----------
    Z : array of shape (n, p)
    Y : array of shape (n, C)
    site : array of shape (n,)
    fits : CrossFitted
    """
    k, C = fits.site.shape[1], Y.shape[1]
    few = int(np.clip(MOST_COMPONENTS // (k * C) - 1, 0, MOST_DIRECTIONS - 1))
    along = principal_components(Z, few)
    away = (site[:, None] == np.arange(k)) - fits.site
    residual = Y - fits.label
    comparable = np.array([np.sum(away[site == j, j]) for j in range(k)])
    shift, stderr = np.full((2, k, C), np.nan)
    p_level, p_slope = np.full((2, k), np.nan)
    levels: list[Floats] = []
    all_slopes: list[Floats] = []
    for j in np.flatnonzero(comparable >= FEWEST_ROWS):
        R = residual * away[:, [j]]
        square, by_group = np.sum(away[:, j] ** 2), fits.summed(R)
        shift[j] = R.sum(axis=0) / square
        stderr[j] = np.sqrt(np.sum(by_group**2, axis=0)) / square
        slopes = [
            R[:, [c]] * np.column_stack([standardised(fits.label[:, [c]]), along]) for c in range(C)
        ]
        for reports, p_value, everyone in (
            (by_group, p_level, levels),
            (fits.summed(np.hstack(slopes)), p_slope, all_slopes),
        ):
            # Each site counts alike in the test of all sites, however noisy it is.
            scaled = reports / (np.sqrt(np.sum(reports**2)) or 1.0)
            p_value[j] = _p_value(scaled)
            everyone.append(scaled)
    together = [_p_value(np.hstack(everyone)) for everyone in (levels, all_slopes) if everyone]
    p_together = min(1.0, 2 * min(together, default=1.0))
    return Comparison(comparable, shift, stderr, p_level, p_slope, p_together)


def _p_value(reports: Floats) -> float:
    r"""P value of :math:`\|\sum_i \phi_i\|^2` for independent rows (groups) of mean 0, (n, m).

    The sum has covariance :math:`\sum_i \phi_i \phi_i'`, not centred: a few wild rows then
    enlarge the covariance along with the sum, so that they alone are never significant.
    """
    n, m = reports.shape
    gram = reports.T @ reports if m < n else reports @ reports.T
    return weighted_chi_square_tail(
        float(np.sum(reports.sum(axis=0) ** 2)), np.linalg.eigvalsh(gram)
    )
