"""Threshold of a decision, chosen for what it gives at a new site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune.errors import SettingsError
from shiftune.metrics import decisions
from shiftune.metrics.metric import Floats, Metric, of_rows
from shiftune.metrics.new_site import NewSite
from shiftune.metrics.tables import metric_tables

# Thresholds that are tried, at equal shares of the predictions.
TRIED = 60


class ChosenThreshold(NamedTuple):
    """Threshold on the probability of the second class, and what it gives at the target.

    Attributes
    ----------
    threshold : float
    metrics : DataFrame
        Like `ShiftSearch.metrics_`: `sensitivity`, `specificity`, share of rows at or above the
        threshold (`predicted`), and `net_benefit` where it was asked for.
    """

    threshold: float
    metrics: pd.DataFrame


def threshold_for(
    new_site: NewSite,
    *,
    sensitivity: float | None = None,
    specificity: float | None = None,
    net_benefit: float | None = None,
) -> ChosenThreshold:
    """Choose a threshold by one wish.

    Parameters
    ----------
    new_site : NewSite
        With probabilities of two classes.
    sensitivity : float, optional
        The highest threshold whose estimated sensitivity at the target is at least this.
    specificity : float, optional
        The lowest threshold whose estimated specificity is at least this.
    net_benefit : float, optional
        The threshold of highest net benefit, where one would just act at this risk. It is near this
        risk if probabilities are calibrated.
    """
    wishes = {"sensitivity": sensitivity, "specificity": specificity, "net_benefit": net_benefit}
    given = [(name, wish) for name, wish in wishes.items() if wish is not None]
    if len(given) != 1:
        raise SettingsError("give one of sensitivity=, specificity= and net_benefit=")
    name, wish = given[0]
    if not 0 < wish < 1:
        raise SettingsError(f"{name} must lie between 0 and 1, got {wish!r}")
    p = np.clip(np.concatenate(new_site.predictions.p), 1e-6, 1 - 1e-6)
    tried = np.unique(np.quantile(p, np.linspace(0, 1, TRIED))).tolist()
    if name == "net_benefit":
        values = [new_site.estimate(decisions.net_benefit(wish, cutoff=t)).value for t in tried]
        chosen = tried[int(np.argmax(values))]
    else:
        make = decisions.sensitivity if name == "sensitivity" else decisions.specificity
        ordered = tried if name == "sensitivity" else tried[::-1]
        chosen = _last(new_site, [make(t) for t in ordered], ordered, wish)
    asked = [decisions.sensitivity(chosen), decisions.specificity(chosen), _predicted(chosen)]
    asked += [decisions.net_benefit(wish, cutoff=chosen)] if name == "net_benefit" else []
    return ChosenThreshold(chosen, metric_tables(asked, new_site).table)


def _last(
    new_site: NewSite, metrics: Sequence[Metric], thresholds: Sequence[float], wish: float
) -> float:
    """Return the last threshold whose metric is at least as high as wished, by bisection.

    The metrics fall, from (almost) 1 for the first.
    """
    first, last = 0, len(metrics)
    while last - first > 1:
        middle = (first + last) // 2
        enough = new_site.estimate(metrics[middle]).value >= wish
        first, last = (middle, last) if enough else (first, middle)
    return thresholds[first]


def _predicted(threshold: float) -> Metric:
    def rows(y: NDArray[Any], p: Floats) -> Floats:
        return np.asarray(p >= threshold, dtype=float)

    return of_rows("predicted", rows, "probabilities", scale="logit", two_classes=True)
