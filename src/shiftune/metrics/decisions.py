"""Metrics of decisions: predicted classes, or probabilities above a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import SettingsError
from shiftune.metrics.metric import Floats, Metric, Needs, of_ratio, of_rows

Labels = NDArray[Any]


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


def _balanced_accuracy_influence(y: Labels, p: Floats) -> Floats:
    correct, found = _correct(y, p), np.zeros(len(y))
    classes = np.unique(y)
    for own in (y == c for c in classes):
        found[own] = (correct[own] - correct[own].mean()) / own.mean() / len(classes)
    return found


def _rights(y: Labels, p: Floats) -> list[tuple[Floats, Floats]]:
    """Twice the true positives, and labels plus predictions, of each class of the site."""
    said = predicted(p)
    classes = [1] if p.ndim == 1 else np.unique(y)
    return [(2.0 * (y == c) * (said == c), 1.0 * (y == c) + (said == c)) for c in classes]


def _f1(y: Labels, p: Floats, w: Floats) -> float:
    return float(np.mean([np.divide(w @ right, w @ both) for right, both in _rights(y, p)]))


def _f1_influence(y: Labels, p: Floats) -> Floats:
    each = [
        (right - right.sum() / both.sum() * both) / both.mean() for right, both in _rights(y, p)
    ]
    return np.asarray(np.mean(each, axis=0))


def _rarest(y: Labels, p: Floats) -> float:
    return float(np.bincount(y, minlength=2).min()) if p.ndim == 1 else len(y)


ACCURACY = of_rows("accuracy", _correct, "classes", scale="logit")
BALANCED_ACCURACY = Metric(
    "balanced_accuracy",
    _balanced_accuracy,
    "classes",
    scale="logit",
    influence=_balanced_accuracy_influence,
    counted=_rarest,
)
F1 = Metric("f1", _f1, "classes", scale="logit", influence=_f1_influence, counted=_rarest)
