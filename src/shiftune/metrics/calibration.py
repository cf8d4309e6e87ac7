"""Metrics of probabilities: Brier score, log loss, and how well they are calibrated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from shiftune.evaluate.losses import LOSSES
from shiftune.metrics.metric import Floats, Metric, of_ratio, of_rows

Labels = NDArray[Any]

# Smallest probability whose log odds are taken: one row that was thought impossible would decide
# the slope alone.
SMALLEST = 1e-6
BINS = 10
STEPS = 50
# Beyond it the classes are separated, and the slope has no limit.
STEEPEST = 100.0
# Condition of a matrix from which on it has no inverse: predictions that hardly differ.
SINGULAR = 1e12


def log_odds(p: Floats) -> Floats:
    """Return log odds, of probabilities that are kept away from 0 and 1."""
    return np.asarray(logit(np.clip(p, SMALLEST, 1 - SMALLEST)))


def recalibration(y: Labels, design: Floats, offset: Floats, w: Floats) -> Floats:
    """Coefficients of a logistic regression by Newton's method; NaN where it has none.

    Parameters
    ----------
    y, offset, w : arrays of shape (n,)
    design : array of shape (n, q)
    """
    b = np.zeros(design.shape[1])
    for _ in range(STEPS):
        q = expit(offset + design @ b)
        H = (design * (w * q * (1 - q))[:, None]).T @ design
        try:
            step = np.linalg.solve(H, design.T @ (w * (y - q)))
        except np.linalg.LinAlgError:
            break
        b += np.clip(step, -2, 2)
        if np.abs(b).max() > STEEPEST:
            break
        if np.abs(step).max() < 1e-9 and np.linalg.cond(H) < SINGULAR:
            return b
    return np.full(design.shape[1], np.nan)


def recalibrated(name: str, of: tuple[float, ...], better: float) -> Metric:
    """Return a number of the labels' line on the log odds of the predictions.

    `of` are its weights of intercept and slope; with one weight the slope is 1.
    """
    wanted = np.array(of)

    def parts(p: Floats) -> tuple[Floats, Floats]:
        odds = log_odds(p)
        if len(wanted) == 1:
            return np.ones((len(p), 1)), odds
        return np.column_stack([np.ones(len(p)), odds]), np.zeros(len(p))

    def value(y: Labels, p: Floats, w: Floats) -> float:
        return float(recalibration(y, *parts(p), w) @ wanted)

    def influence(y: Labels, p: Floats) -> Floats:
        design, offset = parts(p)
        q = expit(offset + design @ recalibration(y, design, offset, np.ones(len(y))))
        if np.isnan(q).any():
            return np.full(len(y), np.nan)
        H = (design * (q * (1 - q))[:, None]).T @ design / len(y)
        return np.asarray((y - q) * (design @ np.linalg.solve(H, wanted)))

    return Metric(
        name, value, "probabilities", better=better, two_classes=True, influence=influence
    )


def _both(y: Labels, p: Floats) -> tuple[Floats, Floats]:
    return np.asarray(y, dtype=float), p


def _judged(y: Labels, p: Floats) -> tuple[Floats, Floats]:
    """Whether the likelier class was right, and how likely it was; of two classes, the second."""
    if p.ndim == 1:
        return np.asarray(y == 1, dtype=float), p
    return np.asarray(p.argmax(axis=1) == y, dtype=float), p.max(axis=1)


def _deviations(y: Labels, p: Floats, w: Floats) -> tuple[NDArray[np.intp], Floats, Floats, Floats]:
    """Bin of every row and its deviation, shape (n,); weight and mean deviation of every bin."""
    right, q = _judged(y, p)
    place = np.minimum((q * BINS).astype(np.intp), BINS - 1)
    rows = np.bincount(place, w, BINS).astype(float)
    rows[rows == 0] = 1.0  # bins without rows have no deviation
    return place, right - q, rows, np.bincount(place, w * (right - q), BINS) / rows


def _calibration_error(y: Labels, p: Floats, w: Floats) -> float:
    r"""Mean size of the bins' deviations d, without the part that chance explains.

    .. math:: \sum_b \frac{n_b}{n} \sqrt{\max(d_b^2 - v_b, 0)}, \qquad
              v_b = \frac{1}{n_b^2} \sum_{i \in b} q_i (1 - q_i) :

    the variance that d would have if the probabilities q were right. Without this, a site of
    50 rows looks miscalibrated whatever the model.
    """
    place, _, rows, mean = _deviations(y, p, w)
    _, q = _judged(y, p)
    chance = np.bincount(place, w**2 * q * (1 - q), BINS) / rows**2
    return float(rows @ np.sqrt(np.maximum(mean**2 - chance, 0.0)) / w.sum())


def _calibration_error_influence(y: Labels, p: Floats) -> Floats:
    """Derivative of the mean size without correction: that of the root has no bound near 0."""
    place, away, _, mean = _deviations(y, p, np.ones(len(y)))
    signed = np.sign(mean)[place] * away
    return np.asarray(signed - signed.mean())


def _row_loss(name: str) -> Metric:
    loss = LOSSES["brier" if name == "brier" else "log_loss"]

    def rows(y: Labels, p: Floats) -> Floats:
        return loss(y, p, np.arange(2 if p.ndim == 1 else p.shape[1]))

    return of_rows(name, rows, "probabilities", scale="log", better="lower")


BRIER = _row_loss("brier")
LOG_LOSS = _row_loss("log_loss")
CALIBRATION_IN_THE_LARGE = recalibrated("calibration_in_the_large", (1.0,), 0.0)
CALIBRATION_SLOPE = recalibrated("calibration_slope", (0.0, 1.0), 1.0)
OBSERVED_TO_EXPECTED = of_ratio("o_e", _both, "probabilities", scale="log", better=1.0)
CALIBRATION_ERROR = Metric(
    "calibration_error",
    _calibration_error,
    "probabilities",
    better="lower",
    influence=_calibration_error_influence,
)
