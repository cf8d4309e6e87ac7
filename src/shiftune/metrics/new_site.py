r"""A metric at a site that no model has seen, from the sites that play this part.

The metric :math:`\theta_j` of each site is taken to its scale g and linearised in its rows,

.. math:: v_{ij} = g(\theta_j) + g'(\theta_j)\, \psi_{ij},

with influence values :math:`\psi`. The mean of these values over the rows of a site is
:math:`g(\theta_j)`, and how they depend on the columns shows, to first order, how the metric would
change with the rows of the target. So the values are handed to the estimator of the risk
(`shiftune.risk.RegressionAdjusted`) like losses: it adjusts them to the target's rows, adds up
sampling error, differences between sites and extrapolation, and what it returns is taken back from
the scale. `benchmarks/results/metrics.md` compares this with plain means of the sites.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from shiftune.errors import OverlapWarning
from shiftune.metrics.metric import Floats, Metric
from shiftune.metrics.per_site import SiteMetric, at_site, over_draws
from shiftune.metrics.predictions import SitePredictions
from shiftune.metrics.scales import SCALES
from shiftune.risk import RegressionAdjusted
from shiftune.risk.grouped import by_group
from shiftune.risk.result import Estimate
from shiftune.wording import count, listed

# Fewest sites with a value from which a new one is estimated.
FEWEST_SITES = 2
# Variance on the scale of a share of 0 or 1, with half a row added (as of log odds and log rates).
AT_THE_BOUND = 2.0


@dataclass(frozen=True, slots=True)
class NewSiteMetric:
    """Estimate of a metric at a new site.

    Attributes
    ----------
    metric : Metric
    value, low, high : float
        NaN where it cannot be estimated.
    sites : tuple of SiteMetric
    note : str
        What a reader must know: why there is no value, sites that have none.
    """

    metric: Metric
    value: float
    low: float
    high: float
    sites: tuple[SiteMetric, ...]
    note: str = ""

    @property
    def known(self) -> list[SiteMetric]:
        """Sites with a value."""
        return [site for site in self.sites if np.isfinite(site.value)]


class NewSite:
    """Estimator of metrics at the target, from predictions at the sources.

    Parameters
    ----------
    predictions : SitePredictions
    X_target : array or DataFrame of shape (n_T, d)
    fitted : RegressionAdjusted, optional
        Fitted on these rows, where there is one.
    target_weights : array of shape (n_T,), optional
        Weights of the target's rows, where those of the sources have weights.
    level : float
        Of the intervals.
    """

    def __init__(
        self,
        predictions: SitePredictions,
        X_target: Any,
        fitted: RegressionAdjusted | None = None,
        target_weights: Floats | None = None,
        level: float = 0.95,
    ) -> None:
        self.predictions, self.X_target, self.level = predictions, X_target, level
        self.target_weights = target_weights
        self._fitted: dict[tuple[int, ...], RegressionAdjusted] = {}
        if fitted is not None:
            self._fitted[tuple(range(len(predictions.names)))] = fitted

    def estimate(self, metric: Metric) -> NewSiteMetric:
        """Estimate one metric."""
        if reason := self.predictions.obstacle(metric):
            return NewSiteMetric(metric, np.nan, np.nan, np.nan, (), reason)
        return self.combined(metric, self.at_sites(metric))

    def combined(self, metric: Metric, sites: tuple[SiteMetric, ...]) -> NewSiteMetric:
        """Estimate a metric from those of all sources."""
        note = _about_missing(sites)
        used = [j for j, site in enumerate(sites) if np.isfinite(site.value)]
        if len(used) < FEWEST_SITES:
            why = f"{count(len(used), 'site')} with a value, and {FEWEST_SITES} are needed"
            return NewSiteMetric(metric, np.nan, np.nan, np.nan, sites, f"{why}: {note or why}")
        found = self.on_scale(metric, [sites[j] for j in used], used)
        scale = SCALES[metric.scale]
        low, high = scale.interval(*found.interval(self.level))
        value = float(scale.back(found.value))
        return NewSiteMetric(metric, value, low, high, sites, note)

    def at_sites(self, metric: Metric) -> tuple[SiteMetric, ...]:
        """Compute a metric at every source."""
        return tuple(self.at_source(metric, j) for j in range(len(self.predictions.names)))

    def at_source(self, metric: Metric, j: int) -> SiteMetric:
        """Compute a metric at the source with a number."""
        given = self.predictions
        groups = None if given.groups is None else given.groups[j]
        if given.draws is not None:
            return over_draws(metric, given.names[j], given.y[j], given.draws[j], groups)
        weights = None if given.weights is None else given.weights[j]
        return at_site(metric, given.names[j], given.y[j], given.p[j], groups, weights)

    def on_scale(
        self, metric: Metric, sites: Sequence[SiteMetric], used: Sequence[int]
    ) -> Estimate:
        """Estimate a metric on its scale from the sites that have a value."""
        estimator, rows = self._estimator(tuple(used)), values_of_rows(metric, sites)
        unknown = at_the_bound(metric, sites)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # raised when the search began
            values = [a + b for a, b in zip(rows, unknown, strict=True)]
            risk = estimator.estimate(values, names=[site.site for site in sites])
        if self.predictions.groups is not None:
            risk = by_group(risk, [self.predictions.groups[j] for j in used])
        # What is unknown counts in the variance only; the estimate is linear in the values.
        moved = float(estimator.coefficients_ @ np.concatenate(unknown))
        return Estimate(risk.value - moved, risk.variance, risk.dof)

    def _estimator(self, used: tuple[int, ...]) -> RegressionAdjusted:
        if used not in self._fitted:
            like = next(iter(self._fitted.values()), RegressionAdjusted())
            sources = [self.predictions.X[j] for j in used]
            weights, own = self.predictions.weights, self.target_weights
            given = None
            if weights is not None and own is not None:
                given = [own, *(weights[j] for j in used)]
            self._fitted[used] = clone(like).fit(self.X_target, sources, given)
        return self._fitted[used]


def values_of_rows(metric: Metric, sites: Sequence[SiteMetric]) -> list[Floats]:
    """Values on the metric's scale whose mean over a site's rows is its metric, k arrays (n_j,)."""
    scale, (_, inside) = SCALES[metric.scale], _inside(metric, sites)
    return [
        np.asarray(scale.to(kept) + scale.slope(kept) * site.influence)
        for site, kept in zip(sites, inside, strict=True)
    ]


def at_the_bound(metric: Metric, sites: Sequence[SiteMetric]) -> list[Floats]:
    """Values with the variance of shares of 0 or 1, where no row differs from the others."""
    given, inside = _inside(metric, sites)
    return [
        np.sqrt(AT_THE_BOUND * site.n) * _signs(site.n) if value != kept else np.zeros(site.n)
        for site, value, kept in zip(sites, given, inside, strict=True)
    ]


def _inside(metric: Metric, sites: Sequence[SiteMetric]) -> tuple[Floats, Floats]:
    """Return the metrics of the sites as they are, and kept away from the scale's bounds."""
    values = np.array([site.value for site in sites])
    resolution = np.array([site.resolution for site in sites])
    return values, SCALES[metric.scale].inside(values, resolution)


def _signs(n: int) -> Floats:
    """Return +1 and -1 at random, centred, with a mean square of 1.

    At random, since adjacent rows may belong together, and the order of rows may have a meaning.
    """
    signs = np.where(np.random.default_rng(0).permutation(n) < n / 2, 1.0, -1.0)
    return np.asarray((signs - signs.mean()) / signs.std())


def _about_missing(sites: Sequence[SiteMetric]) -> str:
    missing: dict[str, list[str]] = {}
    for site in sites:
        if site.note:
            missing.setdefault(site.note, []).append(site.site)
    return "; ".join(f"no value at {listed(names)}: {why}" for why, names in missing.items())
