"""Metrics of decisions: predicted classes, or probabilities above a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import SettingsError
from shiftune.metrics.metric import Floats, Metric, Needs, of_ratio, of_rows

Labels = NDArray[Any]
Sites = NDArray[np.intp]


def predicted(p: Floats, threshold: float = 0.5) -> NDArray[np.intp]:
    """Return the number of the predicted class, shape (n,); of two, by a threshold."""
    return np.asarray(p >= threshold if p.ndim == 1 else p.argmax(axis=1), dtype=np.intp)


def _needs(threshold: float) -> Needs:
    if not 0 < threshold < 1:
        raise SettingsError(f"a threshold lies between 0 and 1, got {threshold}")
    return "classes" if threshold == 0.5 else "probabilities"


def _correct(y: Labels, p: Floats) -> Floats:
    return np.asarray(predicted(p) == y, dtype=float)


def sensitivity(threshold: float = 0.5, name: str = "sensitivity") -> Metric:
    """Share of the rows of the second class that are predicted as such."""

    def parts(y: Labels, p: Floats) -> tuple[Floats, Floats]:
        return 1.0 * y * predicted(p, threshold), 1.0 * y

    return of_ratio(name, parts, _needs(threshold), scale="logit")


def specificity(threshold: float = 0.5, name: str = "specificity") -> Metric:
    """Share of the rows of the first class that are predicted as such."""

    def parts(y: Labels, p: Floats) -> tuple[Floats, Floats]:
        return (1.0 - y) * (1 - predicted(p, threshold)), 1.0 - y

    return of_ratio(name, parts, _needs(threshold), scale="logit")


def net_benefit(
    threshold: float = 0.5, name: str = "net_benefit", *, cutoff: float | None = None
) -> Metric:
    r"""True positives less :math:`t / (1 - t)` times false positives, per row.

    Vickers and Elkin (2006): the threshold t is the risk at which one would just act. Predictions
    of at least `cutoff` count as positive; by default of t.
    """
    _needs(threshold)
    cost, least = threshold / (1 - threshold), threshold if cutoff is None else cutoff

    def rows(y: Labels, p: Floats) -> Floats:
        return np.asarray((p >= least) * np.where(y == 1, 1.0, -cost))

    return of_rows(name, rows, "probabilities", two_classes=True)


def _balanced_accuracy(y: Labels, p: Floats, w: Floats) -> float:
    """Mean share of correct rows over the classes of the site; NaN if it has one only."""
    correct, classes = _correct(y, p), np.unique(y)
    if len(classes) < 2:
        return np.nan
    return float(np.mean([np.average(correct[y == c], weights=w[y == c]) for c in classes]))


def _balanced_accuracy_by_site(y: Labels, p: Floats, sites: Sites) -> Floats:
    correct = _correct(y, p)
    each = [_ratio_by_site((y == c) * correct, y == c, sites) for c in range(y.max() + 1)]
    return _mean_of_known(each)


def _rights(y: Labels, p: Floats, c: int) -> tuple[Floats, Floats]:
    """Twice the true positives of a class, and labels plus predictions."""
    chosen = predicted(p) == c
    return 2.0 * (y == c) * chosen, 1.0 * (y == c) + chosen


def _f1(y: Labels, p: Floats, w: Floats) -> float:
    parts = [_rights(y, p, c) for c in ([1] if p.ndim == 1 else np.unique(y))]
    return float(np.mean([np.divide(w @ right, w @ both) for right, both in parts]))


def _f1_by_site(y: Labels, p: Floats, sites: Sites) -> Floats:
    def of_class(c: int) -> Floats:
        missing = np.bincount(sites, y == c)[sites] == 0
        return np.where(missing & (p.ndim > 1), np.nan, _ratio_by_site(*_rights(y, p, c), sites))

    return _mean_of_known([of_class(c) for c in ([1] if p.ndim == 1 else range(y.max() + 1))])


def _ratio_by_site(above: Floats, below: Floats, sites: Sites) -> Floats:
    """Ratio of two sums at every row's site, and the influence of the row on it."""
    n, total = np.bincount(sites), np.bincount(sites, below)
    ratio = (np.bincount(sites, above) / total)[sites]
    return np.asarray(ratio + (above - ratio * below) * (n / total)[sites])


def _mean_of_known(each: list[Floats]) -> Floats:
    """Mean over the classes that have a value at a row's site."""
    known = ~np.isnan(each)
    return np.asarray(np.where(known, each, 0.0).sum(axis=0) / known.sum(axis=0))


def _rarest(y: Labels, p: Floats) -> float:
    return float(np.bincount(y, minlength=2).min()) if p.ndim == 1 else len(y)


ACCURACY = of_rows("accuracy", _correct, "classes", scale="logit")
BALANCED_ACCURACY = Metric(
    "balanced_accuracy",
    _balanced_accuracy,
    "classes",
    scale="logit",
    by_site=_balanced_accuracy_by_site,
    counted=_rarest,
)
F1 = Metric("f1", _f1, "classes", scale="logit", by_site=_f1_by_site, counted=_rarest)
