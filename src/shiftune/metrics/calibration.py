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


def _away(y: Labels, p: Floats, w: Floats) -> Floats:
    """Deviation of every row, with the sign that its bin has as a whole, shape (n,)."""
    right, q = _judged(y, p)
    place = np.minimum((q * BINS).astype(int), BINS - 1)
    sums = np.bincount(place, w * (right - q), BINS)
    return np.asarray(np.sign(sums)[place] * (right - q))


def _calibration_error(y: Labels, p: Floats, w: Floats) -> float:
    return float(np.average(_away(y, p, w), weights=w))


def _calibration_error_influence(y: Labels, p: Floats) -> Floats:
    away = _away(y, p, np.ones(len(y)))
    return np.asarray(away - away.mean())


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
