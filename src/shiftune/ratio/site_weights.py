"""Weights for the parts of a split, labelled rows of the target included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from shiftune.problem import Site
    from shiftune.ratio.base import DensityRatio


def site_weights(ratio: DensityRatio, sites: Sequence[Site]) -> list[NDArray[np.float64]]:
    """Return the density ratios at the rows of every site, one array per site.

    Parameters
    ----------
    ratio : DensityRatio
        Fitted on the target and the k sources.
    sites : sequence of Site
        A part of a `Split`: the k sources in the order of `fit`, then, where there are any, the
        labelled rows of the target, whose density ratio is 1.
    """
    k = ratio.n_sources_
    return [
        *ratio.weights([site.X for site in sites[:k]]),
        *(np.ones(len(site)) for site in sites[k:]),
    ]
