"""Shares of sites in a mean over sites, by their numbers of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A site with this many rows has half the share of a very large one. Losses differ between sites
# by more than chance, so a hundred times the rows do not carry a hundred times the information.
ROWS_FOR_HALF_SHARE = 10.0


def site_shares(n: NDArray[np.intp]) -> NDArray[np.float64]:
    r"""Return :math:`q_j \propto n_j / (n_j + 10)` of sites with so many rows, with sum 1.

    >>> site_shares(np.array([10, 990])).round(3).tolist()
    [0.336, 0.664]
    """
    shares = n / (n + ROWS_FOR_HALF_SHARE)
    return np.asarray(shares / shares.sum())
