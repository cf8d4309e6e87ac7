"""Metrics of quantities: errors in the unit of the label, R2, coverage of quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from shiftune.errors import SettingsError
from shiftune.metrics.metric import Floats, Metric, of_rows

Labels = NDArray[Any]


def _squares(y: Labels, p: Floats) -> Floats:
    return np.asarray((y - p) ** 2, dtype=float)


def _distances(y: Labels, p: Floats) -> Floats:
    return np.asarray(np.abs(y - p), dtype=float)


def _over(y: Labels, p: Floats) -> Floats:
    return np.asarray(p - y, dtype=float)


def _r2(y: Labels, p: Floats, w: Floats) -> float:
    return float(r2_score(y, p, sample_weight=w)) if len(y) > 1 and np.ptp(y) > 0 else np.nan


def _r2_influence(y: Labels, p: Floats) -> Floats:
    errors, own = _squares(y, p), _squares(y, np.full(len(y), y.mean()))
    return np.asarray((errors.mean() / own.mean() * own - errors) / own.mean())


def _median_absolute_error(y: Labels, p: Floats, w: Floats) -> float:
    away = _distances(y, p)
    order = np.argsort(away)
    upto = w[order].cumsum() / w.sum()
    # Between two rows where they share the weight evenly.
    first, last = np.searchsorted(upto, [0.5 - 1e-12, 0.5 + 1e-12])
    return float((away[order][first] + away[order][min(last, len(y) - 1)]) / 2)


def _median_influence(y: Labels, p: Floats) -> Floats:
    """Influence on a median, with the density there from the quantiles around it (Woodruff)."""
    away = _distances(y, p)
    half = min(1 / np.sqrt(len(y)), 0.5)
    low, median, high = np.quantile(away, [0.5 - half, 0.5, 0.5 + half])
    return np.asarray(np.sign(away - median) * (high - low) / (4 * half))


def coverage(quantile: float = 0.5, name: str = "coverage") -> Metric:
    """Share of the labels that are at most the prediction, which should be the quantile."""
    if not 0 < quantile < 1:
        raise SettingsError(f"a quantile lies between 0 and 1, got {quantile}")

    def rows(y: Labels, p: Floats) -> Floats:
        return np.asarray(y <= p, dtype=float)

    return of_rows(name, rows, "values", scale="logit", better=quantile)


RMSE = of_rows("rmse", _squares, "values", power=0.5, scale="log", better="lower")
MAE = of_rows("mae", _distances, "values", scale="log", better="lower")
BIAS = of_rows("bias", _over, "values", better=0.0)
R2 = Metric("r2", _r2, "values", scale="log_of_rest", influence=_r2_influence)
MEDIAN_ABSOLUTE_ERROR = Metric(
    "median_absolute_error",
    _median_absolute_error,
    "values",
    scale="log",
    better="lower",
    influence=_median_influence,
)
