"""A metric at one site: its value, and the influence of every row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.metrics.metric import Floats, Metric
from shiftune.wording import count

# Rows without which a site has no value, and rows of its rarest class where a metric compares
# classes.
FEWEST_ROWS = 5
FEWEST_OF_A_CLASS = 3


@dataclass(frozen=True, slots=True, eq=False)
class SiteMetric:
    """Value of a metric at a site.

    Attributes
    ----------
    site : str
    n : int
    value : float
        NaN where it cannot be computed, for the reason in `note`.
    influence : array of shape (n,)
    resolution : float
        Part of its size by which half a row moves a share; one of 0 or 1 may be off by as much.
    note : str
    groups : array of shape (n,), or None where rows are independent
    """

    site: str
    n: int
    value: float
    influence: Floats
    resolution: float = 0.0
    note: str = ""
    groups: NDArray[np.intp] | None = None

    @property
    def stderr(self) -> float:
        """Standard error, by the influence of the rows, or of groups of them."""
        parts = self.influence
        if self.groups is not None:
            codes = np.unique(self.groups, return_inverse=True)[1]
            parts = np.bincount(codes, parts).astype(float)
        unbiased = len(parts) / max(len(parts) - 1, 1)
        return float(np.sqrt(unbiased * np.sum(parts**2)) / self.n)


def at_site(
    metric: Metric,
    site: str,
    y: NDArray[Any],
    p: Floats,
    groups: NDArray[np.intp] | None = None,
    weights: Floats | None = None,
) -> SiteMetric:
    """Compute a metric at a site, if its rows allow that."""
    n, nothing = len(y), np.full(len(y), np.nan)
    if missing := too_few(metric, y, 2 if p.ndim == 1 else p.shape[1]):
        return SiteMetric(site, n, np.nan, nothing, note=missing)
    with np.errstate(divide="ignore", invalid="ignore"):  # not defined there
        value, influence = metric(y, p, weights), metric.influence_values(y, p, weights)
    if not (np.isfinite(value) and np.isfinite(influence).all()):
        return SiteMetric(site, n, np.nan, nothing, note="not defined there")
    counted = n if metric.counted is None else metric.counted(y, p)
    return SiteMetric(site, n, value, influence, 0.5 / max(counted, 1.0), groups=groups)


def over_draws(
    metric: Metric,
    site: str,
    y: NDArray[Any],
    draws: Floats,
    groups: NDArray[np.intp] | None = None,
) -> SiteMetric:
    """Compute the mean of a metric over draws of rows that are predicted.

    Not the metric of all rows, since rows with different updates cannot be ranked.

    Parameters
    ----------
    draws : array of shape (D, n) or (D, n, C)
        Predictions, with NaN for rows that are left out.
    """
    n, found = len(y), []
    for p in draws:
        rows = np.isfinite(p).reshape(n, -1).all(axis=1)
        found.append((rows, at_site(metric, site, y[rows], p[rows])))
    known = [(rows, own) for rows, own in found if np.isfinite(own.value)]
    if not known:
        return replace(found[0][1], n=n, influence=np.full(n, np.nan))
    influence = np.zeros(n)
    for rows, own in known:
        influence[rows] += own.influence * (n / own.n / len(known))
    value, resolution = np.mean([[own.value, own.resolution] for _, own in known], axis=0)
    return SiteMetric(site, n, float(value), influence, float(resolution), groups=groups)


def too_few(metric: Metric, y: NDArray[Any], classes: int) -> str:
    """Reason why the labels of a site are too few for a metric; empty if they are enough."""
    if len(y) < FEWEST_ROWS:
        return f"{count(len(y), 'row')} only"
    if metric.rows is not None or metric.task == "regression":
        return ""
    counts = np.bincount(y)
    if np.count_nonzero(counts) < 2:
        return "one class only"
    rarest = int(counts[counts > 0].min())
    if classes == 2 and rarest < FEWEST_OF_A_CLASS:
        return f"{count(rarest, 'row')} of one class only"
    return ""
