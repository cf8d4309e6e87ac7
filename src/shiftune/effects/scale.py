"""Scale on which a site's effect is added to answers: values as they are, probabilities as logs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Floats = NDArray[np.float64]

# Smallest probability whose logarithm is taken.
SMALLEST_PROBABILITY = 1e-12
# Where effects are learned, no class counts as less likely than this: one answer of 0 would
# outweigh all labels.
LEAST_LIKELY = 1e-4


def to_scale(answers: NDArray[Any]) -> Floats:
    """Return values of shape (n,) as (n, 1), and probabilities of shape (n, C) as centred logs.

    >>> to_scale(np.array([2.0, 3.0]))
    array([[2.],
           [3.]])
    >>> to_scale(np.array([[0.5, 0.5]]))
    array([[0., 0.]])
    """
    if answers.ndim == 1:
        return np.asarray(answers, dtype=float)[:, None]
    return _centred(np.log(np.maximum(answers.astype(float), SMALLEST_PROBABILITY)))


def from_scale(scaled: Floats) -> Floats:
    """Return values of shape (n,), or probabilities of shape (n, C).

    >>> from_scale(to_scale(np.array([[0.25, 0.75]])))
    array([[0.25, 0.75]])
    """
    if scaled.shape[1] == 1:
        return scaled[:, 0]
    return np.asarray(softmax(scaled, axis=1))


def moderate(scaled: Floats) -> Floats:
    """Return answers in which no class is less likely than 1 to 10,000; values as they are.

    >>> from_scale(moderate(to_scale(np.array([[1.0, 0.0]])))).round(5)
    array([[9.999e-01, 1.000e-04]])
    """
    if scaled.shape[1] == 1:
        return scaled
    return _centred(np.maximum(scaled, scaled.max(axis=1, keepdims=True) + np.log(LEAST_LIKELY)))


def strength(scaled: Floats) -> Floats:
    """Return one number per row that the slope multiplies, shape (n,).

    The value; of two classes the log odds; of more the log of the likeliest one, centred.
    """
    if scaled.shape[1] == 1:
        return scaled[:, 0]
    if scaled.shape[1] == 2:
        return np.asarray(scaled[:, 1] - scaled[:, 0])
    return np.asarray(scaled.max(axis=1))


def _centred(logs: Floats) -> Floats:
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))
