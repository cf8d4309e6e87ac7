"""Metrics of ranks: area under the ROC curve, average precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score

from shiftune.metrics.metric import Floats, Metric

Labels = NDArray[Any]


def _auc(y: Labels, p: Floats, w: Floats) -> float:
    return float(roc_auc_score(y, p, sample_weight=w))


def _auc_influence(y: Labels, p: Floats) -> Floats:
    r"""Placement values (DeLong 1988), centred.

    Of a positive the share of negatives below it, of a negative that of positives above it.
    """
    positive = y == 1
    n, positives = len(y), positive.sum()
    below = rankdata(p)  # midranks among all rows, less those within the class
    below[positive] = (below[positive] - rankdata(p[positive])) / (n - positives)
    below[~positive] = 1 - (below[~positive] - rankdata(p[~positive])) / positives
    area = below[positive].mean()
    share = np.where(positive, positives, n - positives) / n
    return np.asarray((below - area) / share)


def _average_precision(y: Labels, p: Floats, w: Floats) -> float:
    return float(average_precision_score(y, p, sample_weight=w))


def _average_precision_influence(y: Labels, p: Floats) -> Floats:
    r"""Derivative of :math:`\sum_i y_i A_i / B_i \big/ \sum_i y_i` by the weights of the rows.

    A and B are the positives and all rows that score at least as high as row i.
    """
    score, place = np.unique(-p, return_inverse=True)
    positives = np.bincount(place, y, len(score))
    A, B = positives.cumsum(), np.bincount(place, minlength=len(score)).cumsum()
    precision, total = A / B, positives.sum()
    value = positives @ precision / total

    def from_here(values: Floats) -> Floats:
        return np.asarray(values[::-1].cumsum()[::-1][place])

    gained = precision[place] + from_here(positives / B) - value
    return np.asarray(len(y) / total * (y * gained - from_here(positives * A / B**2)))


def _one_vs_rest(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mean over the classes that some rows have and others have not; NaN if there are none."""

    def averaged(y: Labels, p: Floats, *w: Floats) -> Any:
        each = {1: p} if p.ndim == 1 else dict(enumerate(p.T))
        found = [
            function((y == c).astype(int), own, *w)
            for c, own in each.items()
            if 0 < np.sum(y == c) < len(y)
        ]
        return np.mean(found, axis=0) if found else np.full(() if w else len(y), np.nan)

    return averaged


AUC = Metric(
    "auc",
    _one_vs_rest(_auc),
    "probabilities",
    scale="logit",
    influence=_one_vs_rest(_auc_influence),
)
AVERAGE_PRECISION = Metric(
    "average_precision",
    _one_vs_rest(_average_precision),
    "probabilities",
    scale="logit",
    influence=_one_vs_rest(_average_precision_influence),
)
