"""The best constant answer: what somebody without a model would say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftune.evaluate.answers import Predictions
from shiftune.evaluate.fitting import StudyData
from shiftune.evaluate.losses import Loss

# Constants that are tried for quantities: the mean, and these quantiles.
QUANTILES = np.linspace(0.025, 0.975, 39)
# Training rows that a constant is learned from, evenly spread.
MOST_ROWS = 20_000


def constant_answers(data: StudyData, loss: Loss) -> Predictions:
    """Answer every validation row by a constant, learned from training rows of other sites.

    Classes: their frequencies, or a vote for the most frequent one. Quantities: the mean or the
    quantile of lowest mean loss. Rows of the only source have a constant of that source.
    """
    step = -(-len(data.y_train) // MOST_ROWS)
    labels, sites = data.y_train[::step], data.train_sites[::step]
    parts = []
    for name, own in zip(data.names, data.y_validation, strict=True):
        others = sites != name
        y = labels[others] if others.any() else labels
        answer = best_constant(y, loss, data.classes)
        parts.append(np.broadcast_to(answer, (len(own), *np.shape(answer))))
    return np.concatenate(parts)


def best_constant(y: NDArray[Any], loss: Loss, classes: NDArray[Any] | None) -> NDArray[np.float64]:
    """Return the constant answer of lowest mean loss: a value, or a probability of every class.

    >>> from shiftune.evaluate.losses import loss_named, pinball
    >>> y = np.arange(101.0)
    >>> round(float(best_constant(y, pinball(0.9), None)))
    90
    >>> best_constant(np.array(["a", "b", "b", "b"]), loss_named("brier"), np.array(["a", "b"]))
    array([0.25, 0.75])
    """
    if classes is not None:
        shares = np.array([np.mean(y == each) for each in classes])
        if loss.needs == "predict":
            return np.asarray(np.eye(len(classes))[shares.argmax()])
        return shares
    values = y.astype(float)
    tried = np.append(values.mean(), np.quantile(values, QUANTILES))
    losses = [loss(y, np.full(len(y), value)).mean() for value in tried]
    return np.asarray(tried[int(np.argmin(losses))])
