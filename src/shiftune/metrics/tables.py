"""Tables of metrics: a row per metric for the new site, a row per metric and source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from shiftune.metrics.metric import Metric
from shiftune.metrics.new_site import AT_THE_BOUND, NewSite, NewSiteMetric
from shiftune.metrics.per_site import SiteMetric
from shiftune.metrics.scales import SCALES

SEEN = "from models that have seen the sites, so probably too good"
NO_PREDICTIONS = "no predictions on validation rows were kept"


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


def metric_tables(metrics: Sequence[Metric], new_site: NewSite | None) -> MetricTables:
    """Estimate metrics, at the target and at every source.

    Parameters
    ----------
    metrics : Metrics
    new_site : NewSite or None
        None where there are no predictions; all estimates are NaN then.
    """
    if new_site is None:
        unknown = (np.nan, np.nan, np.nan, ())
        found = [NewSiteMetric(metric, *unknown, NO_PREDICTIONS) for metric in metrics]
        return MetricTables(_table(found), _by_site(found, 0.95))
    found = [new_site.estimate(metric) for metric in metrics]
    notes = [] if new_site.predictions.unseen else [SEEN]
    return MetricTables(_table(found, notes), _by_site(found, new_site.level))


def _table(found: Sequence[NewSiteMetric], notes: Sequence[str] = ()) -> pd.DataFrame:
    rows = []
    for each in found:
        known = sorted(each.known, key=lambda site: site.value)
        lowest, highest = (known[0], known[-1]) if known else (None, None)
        rows.append(
            {
                "metric": each.metric.name,
                "estimate": each.value,
                "low": each.low,
                "high": each.high,
                "mean_of_sites": float(np.mean([s.value for s in known])) if known else np.nan,
                "lowest": lowest.value if lowest else np.nan,
                "lowest_site": lowest.site if lowest else "",
                "highest": highest.value if highest else np.nan,
                "highest_site": highest.site if highest else "",
                "sites": len(known),
                "better": _direction(each.metric),
                "note": "; ".join(filter(None, [each.note, *notes])),
            }
        )
    return pd.DataFrame(rows).set_index("metric")


def _by_site(found: Sequence[NewSiteMetric], level: float) -> pd.DataFrame:
    rows = [
        {
            "metric": each.metric.name,
            "site": site.site,
            "rows": site.n,
            "value": site.value,
            "stderr": site.stderr,
            **dict(zip(("low", "high"), own_interval(each.metric, site, level), strict=True)),
            "note": site.note,
        }
        for each in found
        for site in each.sites
    ]
    columns = ["metric", "site", "rows", "value", "stderr", "low", "high", "note"]
    return pd.DataFrame(rows, columns=columns).set_index(["metric", "site"])


def own_interval(metric: Metric, site: SiteMetric, level: float) -> tuple[float, float]:
    """Interval of a site's own metric, on the metric's scale, from Student's t."""
    scale = SCALES[metric.scale]
    inside = scale.inside(np.array([site.value]), np.array([site.resolution]))
    error = site.stderr * abs(float(scale.slope(inside)[0]))
    if inside[0] < site.value or inside[0] > site.value:  # a share of 0 or 1
        error = float(np.sqrt(AT_THE_BOUND))
    half = float(stdtrit(max(site.n - 1, 1), 0.5 + level / 2)) * error
    middle = float(scale.to(inside)[0])
    return scale.interval(middle - half, middle + half)


def _direction(metric: Metric) -> str:
    better = metric.better
    return better if isinstance(better, str) else f"nearest to {better:g}"
