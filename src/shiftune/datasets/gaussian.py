"""Generated multi-site problems whose density ratios and true risks are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GaussianSites:
    r"""Sites whose columns are independent Gaussians, so that every density ratio is known.

    .. math:: w_j(x) = \prod_c \frac{s_{jc}}{s_{Tc}} \exp\!\left(
              \frac{(x_c - m_{jc})^2}{2 s_{jc}^2} - \frac{(x_c - m_{Tc})^2}{2 s_{Tc}^2} \right)

    Attributes
    ----------
    means, sds : arrays of shape (k + 1, d)
        Of the target (first) and of the k sources.

    Examples
    --------
    >>> sites = gaussian_sites([[0.0], [1.0]])
    >>> sites.ratio(1)(np.array([[0.5]]))  # half-way between the two means
    array([1.])
    """

    means: Floats
    sds: Floats

    def draw(self, site: int, n: int, rng: np.random.Generator) -> Floats:
        """Draw n rows of a site (0 is the target), shape (n, d)."""
        noise = rng.standard_normal((n, self.means.shape[1]))
        return np.asarray(self.means[site] + self.sds[site] * noise)

    def ratio(self, source: int) -> Callable[[Floats], Floats]:
        """Return w_j as a function of rows, for source j = 1..k."""

        def w(X: Floats) -> Floats:
            z_T = (X - self.means[0]) / self.sds[0]
            z_j = (X - self.means[source]) / self.sds[source]
            log_sd = np.log(self.sds[source] / self.sds[0]).sum()
            return np.asarray(np.exp(log_sd + 0.5 * (z_j**2 - z_T**2).sum(axis=1)))

        return w

    @property
    def k(self) -> int:
        """Number of sources."""
        return len(self.means) - 1


def gaussian_sites(means: ArrayLike, sds: ArrayLike = 1.0) -> GaussianSites:
    """Return Gaussian sites with these means and standard deviations, the target first."""
    m = np.atleast_2d(np.asarray(means, dtype=float))
    return GaussianSites(m, np.broadcast_to(np.asarray(sds, dtype=float), m.shape).copy())
