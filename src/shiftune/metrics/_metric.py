"""Metric: a number of (labels, predictions, weights), with its influence values and its scale.

`SitePredictions` holds what metrics of a search are computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from shiftune._names import Task
from shiftune.evaluate._fits import Predictions, StudyData
from shiftune.evaluate._losses import Loss
from shiftune.problem._site import Features, rows_of
from shiftune.rows._moments import linearised

Floats = NDArray[np.float64]
_Curve = Callable[[Any], Any]

_ScaleName = Literal["identity", "logit", "log", "log_of_rest"]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Increasing or decreasing function of a metric, its derivative and its inverse."""

    to: _Curve
    slope: _Curve
    back: _Curve
    # Values that the function takes to infinity.
    bounds: tuple[float, float] = (-np.inf, np.inf)

    def inside(self, values: Floats, resolution: Floats) -> Floats:
        """Keep values away from the bounds, by a part of their size; shapes (k,)."""
        if np.isinf(self.bounds).all():
            return values
        low, high = self.bounds
        unit = high - low
        if np.isinf(unit):  # half a row of a site of average value
            bound = low if np.isfinite(low) else high
            unit = float(np.mean(np.abs(values - bound))) or 1.0
        return np.asarray(np.clip(values, low + unit * resolution, high - unit * resolution))

    def interval(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of an interval as values of the metric, which may be infinite."""
        with np.errstate(over="ignore"):
            ends = sorted((float(self.back(low)), float(self.back(high))))
        return ends[0], ends[1]


SCALES: dict[_ScaleName, _Scale] = {
    "identity": _Scale(lambda v: v, np.ones_like, lambda s: s),
    "logit": _Scale(logit, lambda v: 1 / (v * (1 - v)), expit, (0.0, 1.0)),
    "log": _Scale(np.log, lambda v: 1 / v, np.exp, (0.0, np.inf)),
    "log_of_rest": _Scale(
        lambda v: np.log(1 - v), lambda v: -1 / (1 - v), lambda s: 1 - np.exp(s), (-np.inf, 1.0)
    ),
}


Needs = Literal["probabilities", "classes", "values"]

# Groups of rows that are left out in turn, where a metric has no influence values of its own.
_GROUPS = 20


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
        the weight of row i, shape (n,). Without it, and `rows`, groups of rows are left out in
        turn.
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
    scale: _ScaleName = "identity"
    better: Literal["higher", "lower"] | float = "higher"
    two_classes: bool = False
    influence: Callable[[NDArray[Any], Floats], Floats] | None = None
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
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.rows is not None:
                rows = linearised(self.rows(y, prediction), weights)
                mean = rows.mean()
                return np.asarray(self.power * mean ** (self.power - 1) * (rows - mean))
            # The other formulas are without weights.
            if weights is None and self.influence is not None:
                return self.influence(y, prediction)
        return _by_leaving_out(self, y, prediction, weights)


def _by_leaving_out(
    metric: Metric, y: NDArray[Any], prediction: Floats, weights: Floats | None
) -> Floats:
    """Influence of rows from metrics without a group of them, as in the jackknife.

    Rows of a group share its influence, scaled so that the mean square has the size that it would
    have if every row were left out in turn.
    """
    n, groups = len(y), min(_GROUPS, len(y))
    if groups < 2:
        return np.full(n, np.nan)
    group = np.random.default_rng(0).permutation(n) % groups
    w = np.ones(n) if weights is None else weights
    kept = [group != g for g in range(groups)]
    without = np.array([metric(y[rows], prediction[rows], w[rows]) for rows in kept])
    away = (groups - 1) * (without.mean() - without)
    rows = away[group] * np.sqrt((n - 1) / (groups - 1))
    return np.asarray(rows - rows.mean())  # groups differ by a row


def of_rows(
    name: str,
    rows: Callable[[NDArray[Any], Floats], Floats],
    needs: Needs,
    *,
    power: float = 1.0,
    scale: _ScaleName = "identity",
    better: Literal["higher", "lower"] | float = "higher",
    two_classes: bool = False,
) -> Metric:
    """Return the metric that is the mean of a value per row, to a power."""

    def value(y: NDArray[Any], p: Floats, w: Floats) -> float:
        return float(np.average(rows(y, p), weights=w) ** power)

    return Metric(name, value, needs, scale, better, two_classes, rows=rows, power=power)


def of_ratios(
    name: str,
    parts: Callable[[NDArray[Any], Floats], list[tuple[Floats, Floats]]],
    needs: Needs,
    *,
    scale: _ScaleName = "identity",
    better: Literal["higher", "lower"] | float = "higher",
    two_classes: bool = True,
    counted: Callable[[NDArray[Any], Floats], float] | None = None,
) -> Metric:
    """Return the metric of classes that is a mean of ratios, each of two sums over the rows.

    `counted`, as of `Metric`, is by default the denominator of the first.
    """

    def value(y: NDArray[Any], p: Floats, w: Floats) -> float:
        return float(np.mean([np.divide(w @ above, w @ below) for above, below in parts(y, p)]))

    def influence(y: NDArray[Any], p: Floats) -> Floats:
        of_each = [
            (above - above.sum() / below.sum() * below) / below.mean()
            for above, below in parts(y, p)
        ]
        return np.asarray(np.mean(of_each, axis=0))

    def denominator(y: NDArray[Any], p: Floats) -> float:
        return float(parts(y, p)[0][1].sum())

    return Metric(
        name, value, needs, scale, better, two_classes, influence, counted=counted or denominator
    )


@dataclass(frozen=True, slots=True, eq=False)
class SitePredictions:
    """Labels and predictions of the evaluated rows of every source, as metrics read them."""

    names: tuple[str, ...]
    y: list[NDArray[Any]]  # k arrays of shape (n_j,): values, or the numbers of the classes
    p: list[Floats]  # of shape (n_j,), or (n_j, C) for C > 2 classes
    X: list[Features]
    classes: NDArray[Any] | None = None  # of shape (C,); None for values
    votes: bool = False  # `p` are shares of votes instead of probabilities
    unseen: bool = True  # the models have not seen the sites that they predict
    groups: Sequence[NDArray[np.intp]] | None = None  # codes of rows that belong together
    weights: Sequence[Floats] | None = None
    # Predictions that are updated by labels of the site, k arrays of shape (D, n_j) or (D, n_j, C):
    # one for every draw of labels, with NaN for the rows that it labels. `p` are then those of the
    # first draw without the row's label.
    draws: Sequence[Floats] | None = None

    @classmethod
    def of(cls, predictions: Predictions, data: StudyData, loss: Loss) -> SitePredictions:
        """Take the predictions of the sources apart; labelled target rows are left out."""
        names = tuple(data.sources)
        rows = [data.validation_rows([name]) for name in names]
        labels: Sequence[NDArray[Any]] = data.y_validation[: len(names)]
        if data.classes is None:  # differences in half precision may be infinite
            labels = [y.astype(float) for y in labels]
        else:
            labels = [np.searchsorted(data.classes, y) for y in labels]
        return cls(
            names,
            list(labels),
            [_as_read(predictions[places]) for places in rows],
            [rows_of(data.X_validation, places) for places in rows],
            data.classes,
            votes=data.classes is not None and loss.needs == "predict",
            unseen=data.out_of_site,
            groups=None if data.groups is None else data.groups[: len(names)],
            weights=None if data.sample_weight is None else data.sample_weight[: len(names)],
        )

    def updated(self, predictions: Sequence[Floats]) -> SitePredictions:
        """Return the same rows with updated predictions, k arrays (D, n_j) or (D, n_j, C)."""
        draws = [np.stack([_as_read(draw) for draw in site]) for site in predictions]
        first = [np.isfinite(drawn).reshape(*drawn.shape[:2], -1).all(axis=2) for drawn in draws]
        p = [
            drawn[complete.argmax(axis=0), np.arange(drawn.shape[1])]
            for drawn, complete in zip(draws, first, strict=True)
        ]
        return replace(self, p=p, draws=draws)

    def obstacle(self, metric: Metric) -> str:
        """Reason why a metric cannot be computed at any site; empty if it can."""
        if (metric.task == "regression") != (self.classes is None):
            return f"it is for {metric.task}"
        if metric.two_classes and self.classes is not None and len(self.classes) != 2:
            return f"it needs two classes, and there are {len(self.classes)}"
        if metric.needs == "probabilities" and self.votes:
            return "it needs probabilities, and the loss is of predicted classes"
        return ""


def _as_read(predictions: NDArray[Any]) -> Floats:
    """Return values, or probabilities that add up to 1; of two classes that of the second."""
    values = predictions.astype(float)
    if values.ndim == 1:
        return values
    shares = values / values.sum(axis=1, keepdims=True)
    return np.asarray(shares[:, 1] if shares.shape[1] == 2 else shares)
