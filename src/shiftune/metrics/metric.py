"""Metric: a number of (labels, predictions, weights), with its influence values and its scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftune.metrics.scales import ScaleName
from shiftune.names import Task
from shiftune.rows.weighted import linearised

Floats = NDArray[np.float64]

Needs = Literal["probabilities", "classes", "values"]

# Groups of rows that are left out in turn, where a metric has no influence values of its own.
GROUPS = 20


@dataclass(frozen=True, slots=True)
class Metric:
    r"""Metric of predictions at one site.

    The labels of classes are their numbers 0, 1, ... in sorted order. Predictions are values of
    shape (n,), probabilities of the second of two classes, shape (n,), or of C > 2 classes, shape
    (n, C). Where a metric is not defined (one class only), it is NaN.

    Parameters
    ----------
    name : str
    function : callable
        ``function(y, prediction, weights)`` returns the metric; weights have shape (n,).
    needs : {"probabilities", "classes", "values"}
        What the predictions must be. "classes": shares of votes are enough.
    scale : {"identity", "logit", "log", "log_of_rest"}
        Scale on which sites are combined and an interval is symmetric; the last is log(1 - value).
    better : {"higher", "lower"} or float
        Direction, or the value of a perfect prediction, to which nearer is better.
    two_classes : bool
        Whether it is defined for two classes only.
    influence : callable, optional
        ``influence(y, prediction)`` returns :math:`\psi_i`, n times the derivative of the metric by
        the weight of row i, shape (n,). Without it, groups of rows are left out in turn.
    by_site : callable, optional
        ``by_site(y, prediction, sites)`` returns :math:`\theta_j + \psi_{ij}`, the metric of every
        row's site and its influence on it, shape (n,), for sites with numbers 0, 1, ...; instead of
        `influence`.
    rows : callable, optional
        ``rows(y, prediction)`` returns a value per row, where the metric is their mean
    power : float
        to this power.
    counted : callable, optional
        ``counted(y, prediction)`` returns the number of rows that a share is of, such as those of
        a class; by default all rows.

    Examples
    --------
    >>> from shiftune.metrics import metric_named
    >>> auc = metric_named("auc")
    >>> auc([0, 0, 1], [0.1, 0.4, 0.3])
    0.5
    >>> auc([0, 0, 1], [0.1, 0.4, 0.3], weights=[3, 1, 1])
    0.75
    """

    name: str
    function: Callable[[NDArray[Any], Floats, Floats], Any]
    needs: Needs
    scale: ScaleName = "identity"
    better: Literal["higher", "lower"] | float = "higher"
    two_classes: bool = False
    influence: Callable[[NDArray[Any], Floats], Floats] | None = None
    by_site: Callable[[NDArray[Any], Floats, NDArray[np.intp]], Floats] | None = None
    rows: Callable[[NDArray[Any], Floats], Floats] | None = None
    power: float = 1.0
    counted: Callable[[NDArray[Any], Floats], float] | None = None

    @property
    def task(self) -> Task:
        """Kind of label that it is for."""
        return "regression" if self.needs == "values" else "classification"

    def __call__(
        self, y: ArrayLike, prediction: ArrayLike, weights: ArrayLike | None = None
    ) -> float:
        """Return the metric; NaN where it is not defined."""
        labels, predicted = np.asarray(y), np.asarray(prediction, dtype=float)
        w = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(self.function(labels, predicted, w))

    def influence_values(
        self, y: NDArray[Any], prediction: Floats, weights: Floats | None = None
    ) -> Floats:
        """Return the influence of every row, shape (n,)."""
        if weights is not None and self.rows is not None:
            each = linearised(self.rows(y, prediction), weights)
            mean = each.mean()
            return np.asarray(self.power * mean ** (self.power - 1) * (each - mean))
        if weights is not None or (self.by_site is None and self.influence is None):
            return _by_leaving_out(self, y, prediction, weights)  # formulas are without weights
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.influence is not None:
                return self.influence(y, prediction)
            assert self.by_site is not None
            values = self.by_site(y, prediction, np.zeros(len(y), dtype=np.intp))
            return np.asarray(values - values.mean())


def _by_leaving_out(
    metric: Metric, y: NDArray[Any], prediction: Floats, weights: Floats | None
) -> Floats:
    """Influence of rows from metrics without a group of them, as in the jackknife.

    Rows of a group share its influence, scaled so that the mean square has the size that it would
    have if every row were left out in turn.
    """
    n, groups = len(y), min(GROUPS, len(y))
    if groups < 2:
        return np.full(n, np.nan)
    group = np.random.default_rng(0).permutation(n) % groups
    w = np.ones(n) if weights is None else weights
    kept = [group != g for g in range(groups)]
    without = np.array([metric(y[own], prediction[own], w[own]) for own in kept])
    away = (groups - 1) * (without.mean() - without)
    rows = away[group] * np.sqrt((n - 1) / (groups - 1))
    return np.asarray(rows - rows.mean())  # groups differ by a row


def of_rows(
    name: str,
    rows: Callable[[NDArray[Any], Floats], Floats],
    needs: Needs,
    *,
    power: float = 1.0,
    scale: ScaleName = "identity",
    better: Literal["higher", "lower"] | float = "higher",
    two_classes: bool = False,
) -> Metric:
    """Return the metric that is the mean of a value per row, to a power."""

    def value(y: NDArray[Any], p: Floats, w: Floats) -> float:
        return float(np.average(rows(y, p), weights=w) ** power)

    def influence(y: NDArray[Any], p: Floats) -> Floats:
        each = rows(y, p)
        mean = each.mean()
        return np.asarray(power * mean ** (power - 1) * (each - mean))

    return Metric(name, value, needs, scale, better, two_classes, influence, rows=rows, power=power)


def of_ratio(
    name: str,
    parts: Callable[[NDArray[Any], Floats], tuple[Floats, Floats]],
    needs: Needs,
    *,
    scale: ScaleName = "identity",
    better: Literal["higher", "lower"] | float = "higher",
) -> Metric:
    """Return the metric of two classes that is a sum over the rows, divided by another one."""

    def value(y: NDArray[Any], p: Floats, w: Floats) -> float:
        above, below = parts(y, p)
        return float(np.divide(w @ above, w @ below))

    def influence(y: NDArray[Any], p: Floats) -> Floats:
        above, below = parts(y, p)
        return np.asarray((above - above.sum() / below.sum() * below) / below.mean())

    def counted(y: NDArray[Any], p: Floats) -> float:
        return float(parts(y, p)[1].sum())

    return Metric(name, value, needs, scale, better, True, influence, counted=counted)
