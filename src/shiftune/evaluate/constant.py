"""The constant answer that suits the sources best, which needs no model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.errors import DataError
from shiftune.evaluate.answers import Predictions
from shiftune.evaluate.fitting import StudyData
from shiftune.evaluate.losses import Loss
from shiftune.rows.subsample import drawn_rows

# Constants that are tried for quantities: the mean, and these quantiles.
QUANTILES = np.linspace(0.025, 0.975, 39)
# Training rows that a constant is learned from.
MOST_ROWS = 20_000


def constant_answers(data: StudyData, loss: Loss, *, known: bool = False) -> Predictions:
    """Answer every validation row by a constant, learned from training rows of other sites.

    With `known` rows, and for a single source, those of the row's own site count as well.
    """
    drawn = _drawn(data)
    labels, sites = data.y_train[drawn], data.train_sites[drawn]
    parts = []
    for name, own in zip(data.names, data.y_validation, strict=True):
        others = sites != name
        y = labels if known or not others.any() else labels[others]
        answer = best_constant(y, loss, data.classes)
        parts.append(np.broadcast_to(answer, (len(own), *np.shape(answer))))
    return np.concatenate(parts)


def _drawn(data: StudyData) -> NDArray[np.intp]:
    """Return numbers of training rows, in proportion to their weights where they have any."""
    if data.sample_weight is None or data.training_weights is None:
        return drawn_rows(len(data.y_train), MOST_ROWS)
    shares = np.cumsum(data.training_weights) / data.training_weights.sum()
    return np.searchsorted(shares, (np.arange(MOST_ROWS) + 0.5) / MOST_ROWS)


def best_constant(y: NDArray[Any], loss: Loss, classes: NDArray[Any] | None) -> NDArray[np.float64]:
    """Return the constant answer of lowest mean loss: a value, or a number for every class.

    Quantities: the mean or a quantile. Probabilities: the classes' frequencies, with half a row
    added to each. Votes: the class of lowest loss.

    >>> from shiftune.evaluate.losses import loss_named, pinball
    >>> y = np.arange(101.0)
    >>> round(float(best_constant(y, pinball(0.9), None)))
    90
    >>> y = np.array(["a", "b", "b", "b"] * 10)
    >>> best_constant(y, loss_named("brier"), np.array(["a", "b"])).round(2)
    array([0.26, 0.74])
    """
    if classes is None:
        values = y.astype(float)
        tried = np.append(values.mean(), np.quantile(values, QUANTILES))
        losses = [_mean_loss(loss, y, np.full(len(y), value)) for value in tried]
        return np.asarray(tried[int(np.argmin(losses))])
    if loss.needs == "predict":
        losses = [_mean_loss(loss, y, np.full(len(y), each)) for each in classes]
        return np.asarray(np.eye(len(classes))[int(np.argmin(losses))])
    counts = np.array([np.sum(y == each) for each in classes]) + 0.5
    return np.asarray(counts / counts.sum())


def _mean_loss(loss: Loss, y: NDArray[Any], answers: NDArray[Any]) -> float:
    """Return the mean loss; infinity where a loss has no value at this answer, such as log 0."""
    try:
        with np.errstate(all="ignore"):
            return float(loss(y, answers).mean())
    except DataError:
        return np.inf
