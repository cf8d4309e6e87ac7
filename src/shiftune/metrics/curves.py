"""Curves of probabilities at a new site: calibration, and net benefit by threshold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from shiftune.errors import SettingsError
from shiftune.metrics.calibration import log_odds, recalibrated
from shiftune.metrics.decisions import net_benefit
from shiftune.metrics.metric import Floats, Metric, of_rows
from shiftune.metrics.new_site import NewSite
from shiftune.metrics.per_site import SiteMetric
from shiftune.metrics.tables import own_interval
from shiftune.spelling import check_choice

POINTS = 25
# Intercept and slope of a site's line.
LINE = (recalibrated("intercept", (1.0, 0.0), 0.0), recalibrated("slope", (0.0, 1.0), 1.0))
# Predictions beyond these shares of the rows are left out of curves.
OUTER = (0.01, 0.99)


def check_two_classes(new_site: NewSite | None) -> NewSite:
    """Return the estimator, or refuse it where there are no probabilities of two classes."""
    if new_site is None:
        raise SettingsError("no predictions on validation rows were kept, so there are no curves")
    classes = new_site.predictions.classes
    if classes is None or len(classes) != 2 or new_site.predictions.votes:
        raise SettingsError(
            "curves and thresholds are for probabilities of two classes; search with "
            "loss='log_loss' or 'brier' for such a label"
        )
    return new_site


def calibration_curve(new_site: NewSite, site: str | None = None) -> pd.DataFrame:
    r"""Share of the second class among rows that were predicted with a probability.

    At each site the log odds of the labels are a line of those of the predictions,
    :math:`a_j + b_j \,\mathrm{logit}\, p` (Cox 1958). Each point of the lines is combined like a
    metric, so the band is for a site that no model has seen.

    Parameters
    ----------
    new_site : NewSite
        With probabilities of two classes.
    site : str, optional
        A source whose own curve is wanted instead, with the interval of its rows.

    Returns
    -------
    DataFrame
        Indexed by `predicted`: `observed`, `low`, `high`.
    """
    names, p = new_site.predictions.names, np.concatenate(new_site.predictions.p)
    low, high = log_odds(np.quantile(p, OUTER))
    grid = np.linspace(low, high, POINTS)
    if site is None:
        intercepts, slopes = (new_site.at_sites(metric) for metric in LINE)
        found = [new_site.combined(LINE[0], _at(odds, intercepts, slopes)) for odds in grid]
        rows = [(each.value, each.low, each.high) for each in found]
    else:
        number = names.index(check_choice(site, names, "source"))
        intercept, slope = ((new_site.at_source(metric, number),) for metric in LINE)
        points = [_at(odds, intercept, slope)[0] for odds in grid]
        rows = [(each.value, *own_interval(LINE[0], each, new_site.level)) for each in points]
    return pd.DataFrame(
        expit(np.array(rows)),
        columns=["observed", "low", "high"],
        index=pd.Index(expit(grid), name="predicted"),
    )


def _at(
    odds: float, intercepts: tuple[SiteMetric, ...], slopes: tuple[SiteMetric, ...]
) -> tuple[SiteMetric, ...]:
    """Return the sites' lines at log odds of the predictions."""
    return tuple(
        replace(a, value=a.value + odds * b.value, influence=a.influence + odds * b.influence)
        for a, b in zip(intercepts, slopes, strict=True)
    )


def decision_curve(new_site: NewSite) -> pd.DataFrame:
    """Net benefit of acting on predictions above a threshold, and of acting on all rows.

    Returns
    -------
    DataFrame
        Indexed by `threshold`: `net_benefit` at the target with its interval `low` to `high`, and
        that of acting on `all` rows. Acting on none has 0.
    """
    low, high = np.quantile(np.concatenate(new_site.predictions.p), OUTER)
    thresholds = np.linspace(max(low, 0.01), min(high, 0.99), POINTS)
    rows = []
    for threshold in thresholds:
        model = new_site.estimate(net_benefit(float(threshold)))
        every = new_site.estimate(_on_all_rows(float(threshold)))
        rows.append((model.value, model.low, model.high, every.value))
    return pd.DataFrame(
        rows,
        columns=["net_benefit", "low", "high", "all"],
        index=pd.Index(thresholds, name="threshold"),
    )


def _on_all_rows(threshold: float) -> Metric:
    cost = threshold / (1 - threshold)

    def rows(y: NDArray[np.intp], p: Floats) -> Floats:
        return np.where(y == 1, 1.0, -cost)

    return of_rows("net benefit of all", rows, "probabilities", two_classes=True)
