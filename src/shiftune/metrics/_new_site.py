r"""A metric at a site that no model has seen, from the sources, each treated as such a site.

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
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.base import clone

from shiftune._wording import count, listed
from shiftune.errors import OverlapWarning
from shiftune.metrics._metric import SCALES, Floats, Metric, SitePredictions
from shiftune.risk import RegressionAdjusted
from shiftune.risk._result import Estimate, by_group

# Rows without which a site has no value, and rows of its rarest class where a metric compares
# classes.
_FEWEST_ROWS, _FEWEST_OF_A_CLASS = 5, 3
# Sites with a value from which a new one is estimated.
_FEWEST_SITES = 2
# Variance on the scale of a share of 0 or 1, with half a row added (as of log odds and log rates).
_AT_THE_BOUND = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class SiteMetric:
    """Value of a metric at a site of n rows; NaN where it has none, for the reason in `note`."""

    site: str
    n: int
    value: float
    influence: Floats
    # Part of its size by which half a row moves a share; one of 0 or 1 may be off by as much.
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


def _over_draws(
    metric: Metric, site: str, y: NDArray[Any], draws: Floats, groups: NDArray[np.intp] | None
) -> SiteMetric:
    """Compute the mean of a metric over draws of rows that are predicted.

    `draws`, of shape (D, n) or (D, n, C), has NaN for rows that are left out. It is not the metric
    of all rows, since rows with different updates cannot be ranked.
    """
    n, of_draws = len(y), []
    for p in draws:
        rows = np.isfinite(p).reshape(n, -1).all(axis=1)
        of_draws.append((rows, at_site(metric, site, y[rows], p[rows])))
    defined = [(rows, estimate) for rows, estimate in of_draws if np.isfinite(estimate.value)]
    if not defined:
        return replace(of_draws[0][1], n=n, influence=np.full(n, np.nan))
    influence = np.zeros(n)
    for rows, estimate in defined:
        influence[rows] += estimate.influence * (n / estimate.n / len(defined))
    value, resolution = np.mean([[e.value, e.resolution] for _, e in defined], axis=0)
    return SiteMetric(site, n, float(value), influence, float(resolution), groups=groups)


def too_few(metric: Metric, y: NDArray[Any], classes: int) -> str:
    """Reason why the labels of a site are too few for a metric; empty if they are enough."""
    if len(y) < _FEWEST_ROWS:
        return f"{count(len(y), 'row')} only"
    if metric.rows is not None or metric.task == "regression":
        return ""
    counts = np.bincount(y)
    if np.count_nonzero(counts) < 2:
        return "one class only"
    rarest = int(counts[counts > 0].min())
    if classes == 2 and rarest < _FEWEST_OF_A_CLASS:
        return f"{count(rarest, 'row')} of one class only"
    return ""


@dataclass(frozen=True, slots=True)
class NewSiteMetric:
    """Estimate of a metric at a new site, and its interval; NaN where there is none.

    `note` has what a reader must know: why there is no value, or which sites have none.
    """

    metric: Metric
    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    sites: tuple[SiteMetric, ...] = ()
    note: str = ""

    @property
    def known(self) -> list[SiteMetric]:
        """Sites with a value."""
        return [site for site in self.sites if np.isfinite(site.value)]


class NewSite:
    """Estimator of metrics at the target, from predictions at the sources.

    `fitted` is a regression estimator of these rows, where there is one; `target_weights`, (n_T,),
    belong to the target's rows, where those of the sources have weights; `level` is that of the
    intervals.
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

    def estimate(
        self, metric: Metric, sites: tuple[SiteMetric, ...] | None = None
    ) -> NewSiteMetric:
        """Estimate a metric, from those of all sources if they are known."""
        if reason := self.predictions.obstacle(metric):
            return NewSiteMetric(metric, note=reason)
        sites = self.at_sites(metric) if sites is None else sites
        note = _about_missing(sites)
        used = [j for j, site in enumerate(sites) if np.isfinite(site.value)]
        if len(used) < _FEWEST_SITES:
            why = f"{count(len(used), 'site')} with a value, and {_FEWEST_SITES} are needed"
            return NewSiteMetric(metric, sites=sites, note=f"{why}: {note}" if note else why)
        estimate = self._on_scale(metric, [sites[j] for j in used], used)
        scale = SCALES[metric.scale]
        low, high = scale.interval(*estimate.interval(self.level))
        value = float(scale.back(estimate.value))
        return NewSiteMetric(metric, value, low, high, sites, note)

    def at_sites(self, metric: Metric) -> tuple[SiteMetric, ...]:
        """Compute a metric at every source."""
        return tuple(self.at_source(metric, j) for j in range(len(self.predictions.names)))

    def at_source(self, metric: Metric, j: int) -> SiteMetric:
        """Compute a metric at the source with a number."""
        data = self.predictions
        groups = None if data.groups is None else data.groups[j]
        if data.draws is not None:
            return _over_draws(metric, data.names[j], data.y[j], data.draws[j], groups)
        weights = None if data.weights is None else data.weights[j]
        return at_site(metric, data.names[j], data.y[j], data.p[j], groups, weights)

    def _on_scale(
        self, metric: Metric, sites: Sequence[SiteMetric], used: Sequence[int]
    ) -> Estimate:
        """Estimate a metric on its scale from the sites that have a value."""
        estimator, scale = self._estimator(tuple(used)), SCALES[metric.scale]
        inside = scale.inside(
            np.array([site.value for site in sites]), np.array([site.resolution for site in sites])
        )
        values, unknown = [], []
        for site, kept in zip(sites, inside, strict=True):
            # Where a share is 0 or 1 no row differs from the others; these have its variance.
            away = np.zeros(site.n)
            if site.value != kept:
                away = np.sqrt(_AT_THE_BOUND * site.n) * _signs(site.n)
            unknown.append(away)
            values.append(scale.to(kept) + scale.slope(kept) * site.influence + away)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # raised when the search began
            risk = estimator.estimate(values, names=[site.site for site in sites])
            risk = risk.signed(nonnegative=False)
        if self.predictions.groups is not None:
            risk = by_group(risk, [self.predictions.groups[j] for j in used])
        # What is unknown counts in the variance only; the estimate is linear in the values.
        moved = float(estimator.coefficients_ @ np.concatenate(unknown))
        return Estimate(risk.value - moved, risk.variance, risk.dof)

    def _estimator(self, used: tuple[int, ...]) -> RegressionAdjusted:
        if used not in self._fitted:
            like = next(iter(self._fitted.values()), RegressionAdjusted())
            sources = [self.predictions.X[j] for j in used]
            weights, of_target = self.predictions.weights, self.target_weights
            row_weights = None
            if weights is not None and of_target is not None:
                row_weights = [of_target, *(weights[j] for j in used)]
            rows = [self.X_target, *sources]
            self._fitted[used] = clone(like).fit_checked(rows, row_weights)
        return self._fitted[used]


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


class MetricTables(NamedTuple):
    """Metrics at the target and at the sources.

    Attributes
    ----------
    table : DataFrame
        Indexed by metric: `estimate` at the target with its interval `low` to `high` for a site
        that no model has seen; `mean_of_sites`, `lowest`, `lowest_site`, `highest`,
        `highest_site`; `sites` that have a value; which values are `better`; `note`.
    by_site : DataFrame
        Indexed by metric and site: `rows`, `value`, `stderr`, `low`, `high`, `note`; intervals are
        those of the sites themselves.
    """

    table: pd.DataFrame
    by_site: pd.DataFrame


def metric_tables(
    metrics: Sequence[Metric], new_site: NewSite | None, of_sources: SourceMetrics | None = None
) -> MetricTables:
    """Estimate metrics, at the target and at every source.

    Parameters
    ----------
    metrics : Metrics
    new_site : NewSite or None
        None where there are no predictions; all estimates are NaN then.
    of_sources : SourceMetrics, optional
        Of these metrics and predictions, where they are known.
    """
    known = of_sources or SourceMetrics.of(metrics, new_site)
    if new_site is None:
        note = "no predictions were kept"
        return MetricTables(_table([NewSiteMetric(m, note=note) for m in metrics]), known.table)
    pairs = zip(metrics, known.by_metric, strict=True)
    estimates = [new_site.estimate(metric, sites) for metric, sites in pairs]
    seen = "from models that have seen the sites, so probably too good"
    return MetricTables(_table(estimates, "" if new_site.predictions.unseen else seen), known.table)


class SourceMetrics(NamedTuple):
    """Metrics at the sources, which are the same for every target: by metric, and as a table."""

    by_metric: list[tuple[SiteMetric, ...]]
    table: pd.DataFrame

    @classmethod
    def of(cls, metrics: Sequence[Metric], new_site: NewSite | None) -> SourceMetrics:
        """Compute them; a metric that cannot be computed has none."""
        by_metric: list[tuple[SiteMetric, ...]] = [()] * len(metrics)
        level = 0.95
        if new_site is not None:
            obstacle, level = new_site.predictions.obstacle, new_site.level
            by_metric = [() if obstacle(m) else new_site.at_sites(m) for m in metrics]
        rows = [
            (m.name, s.site, s.n, s.value, s.stderr, *own_interval(m, s, level), s.note)
            for m, sites in zip(metrics, by_metric, strict=True)
            for s in sites
        ]
        columns = ["metric", "site", "rows", "value", "stderr", "low", "high", "note"]
        return cls(by_metric, pd.DataFrame(rows, columns=columns).set_index(["metric", "site"]))


def _table(estimates: Sequence[NewSiteMetric], note: str = "") -> pd.DataFrame:
    rows = []
    for estimate in estimates:
        better = estimate.metric.better
        sites = sorted(estimate.known, key=lambda site: site.value)
        lowest, highest = (sites[0], sites[-1]) if sites else (None, None)
        rows.append(
            {
                "metric": estimate.metric.name,
                "estimate": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "mean_of_sites": float(np.mean([s.value for s in sites])) if sites else np.nan,
                "lowest": lowest.value if lowest else np.nan,
                "lowest_site": lowest.site if lowest else "",
                "highest": highest.value if highest else np.nan,
                "highest_site": highest.site if highest else "",
                "sites": len(sites),
                "better": better if isinstance(better, str) else f"nearest to {better:g}",
                "note": "; ".join(filter(None, [estimate.note, note])),
            }
        )
    return pd.DataFrame(rows).set_index("metric")


def own_interval(metric: Metric, site: SiteMetric, level: float) -> tuple[float, float]:
    """Interval of a site's own metric, on the metric's scale, from Student's t."""
    scale = SCALES[metric.scale]
    inside = scale.inside(np.array([site.value]), np.array([site.resolution]))
    error = site.stderr * abs(float(scale.slope(inside)[0]))
    if inside[0] < site.value or inside[0] > site.value:  # a share of 0 or 1
        error = float(np.sqrt(_AT_THE_BOUND))
    half = float(stdtrit(max(site.n - 1, 1), 0.5 + level / 2)) * error
    middle = float(scale.to(inside)[0])
    return scale.interval(middle - half, middle + half)
