"""Curves of probabilities at a new site, of calibration and net benefit; and thresholds."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from shiftune._wording import check_choice
from shiftune.errors import SettingsError
from shiftune.metrics import _by_name
from shiftune.metrics._by_name import calibration_line, log_odds, net_benefit
from shiftune.metrics._metric import Floats, Metric, of_rows
from shiftune.metrics._new_site import NewSite, SiteMetric, metric_tables, own_interval

_POINTS = 25
# Intercept and slope of a site's line.
_LINE = (
    calibration_line("intercept", (1.0, 0.0), better=0.0),
    calibration_line("slope", (0.0, 1.0), better=1.0),
)
# Predictions beyond these shares of the rows are left out of curves.
_OUTER = (0.01, 0.99)


def check_two_classes(new_site: NewSite | None) -> NewSite:
    """Return the estimator, or refuse it where there are no probabilities of two classes."""
    if new_site is None:
        raise SettingsError("no predictions were kept, so there are no curves")
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
    low, high = log_odds(np.quantile(p, _OUTER))
    grid = np.linspace(low, high, _POINTS)
    if site is None:
        intercepts, slopes = (new_site.at_sites(metric) for metric in _LINE)
        band = [new_site.estimate(_LINE[0], _at(odds, intercepts, slopes)) for odds in grid]
        rows = [(point.value, point.low, point.high) for point in band]
    else:
        number = names.index(check_choice(site, names, "source"))
        intercept, slope = ((new_site.at_source(metric, number),) for metric in _LINE)
        points = [_at(odds, intercept, slope)[0] for odds in grid]
        rows = [(point.value, *own_interval(_LINE[0], point, new_site.level)) for point in points]
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
    low, high = np.quantile(np.concatenate(new_site.predictions.p), _OUTER)
    thresholds = np.linspace(max(low, 0.01), min(high, 0.99), _POINTS)
    rows = []
    for threshold in thresholds:
        model = new_site.estimate(net_benefit(float(threshold)))
        every = new_site.estimate(net_benefit(float(threshold), cutoff=-np.inf))
        rows.append((model.value, model.low, model.high, every.value))
    return pd.DataFrame(
        rows,
        columns=["net_benefit", "low", "high", "all"],
        index=pd.Index(thresholds, name="threshold"),
    )


class ChosenThreshold(NamedTuple):
    """Threshold on the probability of the second class, and what it gives at the target.

    Attributes
    ----------
    threshold : float
    metrics : DataFrame
        Like `ShiftSearch.metrics_`: `sensitivity`, `specificity`, and share of rows at or above the
        threshold (`predicted`).
    """

    threshold: float
    metrics: pd.DataFrame


def threshold_for(
    new_site: NewSite,
    *,
    sensitivity: float | None = None,
    specificity: float | None = None,
) -> ChosenThreshold:
    """Choose a threshold by sensitivity or specificity.

    Parameters
    ----------
    new_site : NewSite
        With probabilities of two classes.
    sensitivity : float, optional
        The highest threshold whose estimated sensitivity at the target is at least this.
    specificity : float, optional
        The lowest threshold whose estimated specificity is at least this.
    """
    wishes = {"sensitivity": sensitivity, "specificity": specificity}
    wished = [(name, wish) for name, wish in wishes.items() if wish is not None]
    if len(wished) != 1:
        raise SettingsError("give either sensitivity= or specificity=")
    name, wish = wished[0]
    if not 0 < wish < 1:
        raise SettingsError(f"{name} must lie between 0 and 1, got {wish!r}")
    p = np.clip(np.concatenate(new_site.predictions.p), 1e-6, 1 - 1e-6)
    tried = np.unique(np.quantile(p, np.linspace(0, 1, 60))).tolist()  # equal shares of the rows
    make = _by_name.sensitivity if name == "sensitivity" else _by_name.specificity
    ordered = tried if name == "sensitivity" else tried[::-1]
    # The metric falls, from (almost) 1 for the first.
    enough = bisect_left(ordered, True, key=lambda t: not new_site.estimate(make(t)).value >= wish)
    chosen = ordered[max(enough - 1, 0)]
    asked = [_by_name.sensitivity(chosen), _by_name.specificity(chosen), _predicted(chosen)]
    return ChosenThreshold(chosen, metric_tables(asked, new_site).table)


def _predicted(threshold: float) -> Metric:
    def rows(y: NDArray[Any], p: Floats) -> Floats:
        return np.asarray(p >= threshold, dtype=float)

    return of_rows("predicted", rows, "probabilities", scale="logit", two_classes=True)
