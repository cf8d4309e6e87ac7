"""Metrics by name: of rankings, decisions, calibration and quantities.

Then the table of them, and how a metric is found: by name, with a threshold, as a scikit-learn
scorer, as a function, or in the default set of a search.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer, get_scorer_names, r2_score

from shiftune import _names
from shiftune._names import Task, complete
from shiftune._wording import check_choice, check_different
from shiftune.errors import SettingsError
from shiftune.evaluate._losses import LOSSES, Loss
from shiftune.metrics._metric import Floats, Metric, Needs, of_ratios, of_rows

Labels = NDArray[Any]

# Smallest probability whose log odds are taken: one row that was thought impossible would decide
# the slope alone.
_SMALLEST = 1e-6


# ---------------------------------------------------------------- rankings


def _sums_by_score(p: Floats, *weights: Floats) -> tuple[NDArray[np.intp], list[Floats]]:
    """Place of every row's score among the different ones, the lowest first; sums of the scores."""
    place = np.unique(p, return_inverse=True)[1]
    return place, [np.bincount(place, w).astype(float) for w in weights]


def _placements(y: Labels, p: Floats, w: Floats) -> Floats:
    """Of a positive the share of negatives below it, of a negative that of positives above it.

    Rows of the same score count half (DeLong 1988).
    """
    place, sums = _sums_by_score(p, w * (y != 1), w * (y == 1))
    below, above = ((counts.cumsum() - counts / 2) / counts.sum() for counts in sums)
    return np.asarray(np.where(y == 1, below[place], 1 - above[place]))


def _auc(y: Labels, p: Floats, w: Floats) -> float:
    return float(np.average(_placements(y, p, w)[y == 1], weights=w[y == 1]))


def _auc_influence(y: Labels, p: Floats) -> Floats:
    placements, positive = _placements(y, p, np.ones(len(y))), y == 1
    share = np.where(positive, positive.mean(), 1 - positive.mean())
    return np.asarray((placements - placements[positive].mean()) / share)


def _average_precision(y: Labels, p: Floats, w: Floats) -> float:
    _, (positives, rows) = _sums_by_score(-p, w * y, w)
    return float(positives @ (positives.cumsum() / rows.cumsum()) / positives.sum())


def _average_precision_influence(y: Labels, p: Floats) -> Floats:
    r"""Derivative of :math:`\sum_i y_i A_i / B_i \big/ \sum_i y_i` by the weights of the rows.

    A and B are the positives and all rows that score at least as high as row i.
    """
    place, (positives, rows) = _sums_by_score(-p, 1.0 * y, np.ones(len(y)))
    A, B = positives.cumsum(), rows.cumsum()

    def from_here(sums: Floats) -> Floats:
        return np.asarray(sums[::-1].cumsum()[::-1][place])

    gained = (A / B)[place] + from_here(positives / B) - positives @ (A / B) / y.sum()
    return np.asarray((y * gained - from_here(positives * A / B**2)) / y.mean())


def _one_vs_rest(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mean over the classes that some rows have and others have not; NaN if there are none."""

    def averaged(y: Labels, p: Floats, *weights: Floats) -> Any:
        by_class = {1: p} if p.ndim == 1 else dict(enumerate(p.T))
        values = [
            function((y == c).astype(int), chance, *weights)
            for c, chance in by_class.items()
            if 0 < np.sum(y == c) < len(y)
        ]
        return np.mean(values, axis=0) if values else np.nan

    return averaged


# ---------------------------------------------------------------- decisions


def _predicted(p: Floats, threshold: float = 0.5) -> NDArray[np.intp]:
    """Number of the predicted class, shape (n,); of two, by a threshold."""
    return np.asarray(p >= threshold if p.ndim == 1 else p.argmax(axis=1), dtype=np.intp)


def _needs(threshold: float) -> Needs:
    if not 0 < threshold < 1:
        raise SettingsError(f"a threshold lies between 0 and 1, got {threshold}")
    return "classes" if threshold == 0.5 else "probabilities"


def _correct(y: Labels, p: Floats) -> Floats:
    return np.asarray(_predicted(p) == y, dtype=float)


def sensitivity(threshold: float = 0.5, name: str = "sensitivity") -> Metric:
    """Share of the rows of the second class that are predicted as such."""

    def parts(y: Labels, p: Floats) -> list[tuple[Floats, Floats]]:
        return [(1.0 * y * _predicted(p, threshold), 1.0 * y)]

    return of_ratios(name, parts, _needs(threshold), scale="logit")


def specificity(threshold: float = 0.5, name: str = "specificity") -> Metric:
    """Share of the rows of the first class that are predicted as such."""

    def parts(y: Labels, p: Floats) -> list[tuple[Floats, Floats]]:
        return [((1.0 - y) * (1 - _predicted(p, threshold)), 1.0 - y)]

    return of_ratios(name, parts, _needs(threshold), scale="logit")


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


def _balanced_parts(y: Labels, p: Floats) -> list[tuple[Floats, Floats]]:
    """Correct rows of every class of the site, and all of the class; undefined if it has one."""
    classes = np.unique(y)
    if len(classes) < 2:
        classes = np.arange(2)  # one of which has no rows
    return [((y == c) * _correct(y, p), 1.0 * (y == c)) for c in classes]


def _f1_parts(y: Labels, p: Floats) -> list[tuple[Floats, Floats]]:
    """Twice the true positives of a class, and labels plus predictions."""
    predicted, classes = _predicted(p), [1] if p.ndim == 1 else np.unique(y)
    hits = [(y == c, predicted == c) for c in classes]
    return [(2.0 * hit * chosen, 1.0 * hit + chosen) for hit, chosen in hits]


def _rarest(y: Labels, p: Floats) -> float:
    return float(np.bincount(y, minlength=2).min()) if p.ndim == 1 else len(y)


# ---------------------------------------------------------------- calibration


def log_odds(p: Floats) -> Floats:
    """Return log odds, of probabilities that are kept away from 0 and 1."""
    return np.asarray(logit(np.clip(p, _SMALLEST, 1 - _SMALLEST)))


def _recalibration(y: Labels, design: Floats, w: Floats) -> Floats:
    """Coefficients of a logistic regression by Newton's method; NaN where it has none.

    `design` has shape (n, 2), everything else (n,).
    """
    b = np.zeros(2)
    for _ in range(50):
        q = expit(design @ b)
        H = (design * (w * q * (1 - q))[:, None]).T @ design
        try:
            step = np.linalg.solve(H, design.T @ (w * (y - q)))
        except np.linalg.LinAlgError:
            break
        b += np.clip(step, -2, 2)
        if np.abs(b).max() > 100:  # the classes are separated, and the slope has no limit
            break
        # A matrix of a higher condition has no inverse: predictions that hardly differ.
        if np.abs(step).max() < 1e-9 and np.linalg.cond(H) < 1e12:
            return b
    return np.full(2, np.nan)


def calibration_line(name: str, weights: tuple[float, float], *, better: float) -> Metric:
    """Return a sum of intercept and slope of the labels' line on the log odds, with weights."""
    wanted = np.array(weights)

    def value(y: Labels, p: Floats, w: Floats) -> float:
        return float(_recalibration(y, _line(p), w) @ wanted)

    def influence(y: Labels, p: Floats) -> Floats:
        design = _line(p)
        q = expit(design @ _recalibration(y, design, np.ones(len(y))))
        if np.isnan(q).any():
            return np.full(len(y), np.nan)
        H = (design * (q * (1 - q))[:, None]).T @ design / len(y)
        return np.asarray((y - q) * (design @ np.linalg.solve(H, wanted)))

    return Metric(
        name, value, "probabilities", better=better, two_classes=True, influence=influence
    )


def _line(p: Floats) -> Floats:
    return np.column_stack([np.ones(len(p)), log_odds(p)])


def _row_loss(name: str) -> Metric:
    loss = LOSSES[name]

    def rows(y: Labels, p: Floats) -> Floats:
        return loss(y, p, np.arange(2 if p.ndim == 1 else p.shape[1]))

    return of_rows(name, rows, "probabilities", scale="log", better="lower")


# ---------------------------------------------------------------- quantities


def _squares(y: Labels, p: Floats) -> Floats:
    return np.asarray((y - p) ** 2, dtype=float)


def _distances(y: Labels, p: Floats) -> Floats:
    return np.asarray(np.abs(y - p), dtype=float)


def _r2(y: Labels, p: Floats, w: Floats) -> float:
    return float(r2_score(y, p, sample_weight=w)) if len(y) > 1 and np.ptp(y) > 0 else np.nan


def _r2_influence(y: Labels, p: Floats) -> Floats:
    errors, spread = _squares(y, p), _squares(y, np.full(len(y), y.mean()))
    return np.asarray((errors.mean() / spread.mean() * spread - errors) / spread.mean())


def coverage(quantile: float = 0.5, name: str = "coverage") -> Metric:
    """Share of the labels that are at most the prediction, which should be the quantile."""
    if not 0 < quantile < 1:
        raise SettingsError(f"a quantile lies between 0 and 1, got {quantile}")

    def rows(y: Labels, p: Floats) -> Floats:
        return np.asarray(y <= p, dtype=float)

    return of_rows(name, rows, "values", scale="logit", better=quantile)


# ---------------------------------------------------------------- the table


METRICS = complete(
    _names.METRICS,
    {
        metric.name: metric
        for metric in (
            Metric(
                "auc",
                _one_vs_rest(_auc),
                "probabilities",
                scale="logit",
                influence=_one_vs_rest(_auc_influence),
            ),
            Metric(
                "average_precision",
                _one_vs_rest(_average_precision),
                "probabilities",
                scale="logit",
                influence=_one_vs_rest(_average_precision_influence),
            ),
            of_rows("accuracy", _correct, "classes", scale="logit"),
            of_ratios(
                "balanced_accuracy",
                _balanced_parts,
                "classes",
                scale="logit",
                two_classes=False,
                counted=_rarest,
            ),
            of_ratios(
                "f1", _f1_parts, "classes", scale="logit", two_classes=False, counted=_rarest
            ),
            sensitivity(),
            specificity(),
            net_benefit(),
            _row_loss("brier"),
            _row_loss("log_loss"),
            calibration_line("calibration_slope", (0.0, 1.0), better=1.0),
            of_ratios("o_e", lambda y, p: [(1.0 * y, p)], "probabilities", scale="log", better=1.0),
            of_rows("rmse", _squares, "values", power=0.5, scale="log", better="lower"),
            of_rows("mae", _distances, "values", scale="log", better="lower"),
            of_rows("bias", lambda y, p: np.asarray(p - y, dtype=float), "values", better=0.0),
            Metric("r2", _r2, "values", scale="log_of_rest", influence=_r2_influence),
            coverage(),
        )
    },
)
# Metrics that take a threshold or a quantile after @.
_AT: dict[str, Callable[[float, str], Metric]] = {
    "sensitivity": sensitivity,
    "specificity": specificity,
    "net_benefit": net_benefit,
    "coverage": coverage,
}
# What `ShiftSearch(metrics=)` and `metric_named` take.
_GivenMetric = str | Metric | Callable[..., Any]


def metric_named(metric: _GivenMetric, task: Task = "classification") -> Metric:
    """Return a metric from a name, a scikit-learn scorer's name, or a function.

    Parameters
    ----------
    metric : str, Metric or function
        "sensitivity", "specificity" and "net_benefit" take a threshold, "coverage" takes a
        quantile: "sensitivity@0.2". Any name of `sklearn.metrics.get_scorer` is known as well;
        scorers are higher where predictions are better. A function is called with (y, prediction)
        or (y, prediction, weights), as `Metric` describes them.
    task : {"classification", "regression"}
        Of scorers and functions.

    Examples
    --------
    >>> metric_named("sensitivity@0.2")([0, 1, 1], [0.3, 0.3, 0.1])
    0.5
    >>> metric_named("neg_mean_poisson_deviance", "regression").name
    'neg_mean_poisson_deviance'
    >>> metric_named("acu")
    Traceback (most recent call last):
    shiftune.errors.SettingsError: there is no metric 'acu'; did you mean 'auc'?
    """
    if isinstance(metric, Metric):
        return metric
    if callable(metric):
        name = getattr(metric, "__name__", type(metric).__name__)
        return Metric(name, _with_weights(metric), _given_by(task))
    name, at, value = str(metric).partition("@")
    if at:
        make = _AT[check_choice(name, _AT, "metric with a threshold")]
        try:
            threshold = float(value)
        except ValueError:
            message = f"after @ comes a number such as 0.2, got {value!r}"
            raise SettingsError(message) from None
        return make(threshold, metric)
    if metric not in METRICS and metric in get_scorer_names():
        return _scorer(metric, task)
    return METRICS[check_choice(metric, METRICS, "metric")]


def metrics_for(
    wanted: Sequence[_GivenMetric] | _GivenMetric | None,
    loss: Loss,
    classes: NDArray[Any] | None,
) -> list[Metric]:
    """Return the metrics of a search: those given, or a default set for its labels and loss.

    Parameters
    ----------
    given : names, Metrics or functions, or one of them
    loss : Loss
    classes : array of shape (C,), or None for quantities
    """
    task: Task = "regression" if classes is None else "classification"
    if wanted is None:
        wanted = _default_names(loss, classes)
    several = [wanted] if isinstance(wanted, str | Metric) or callable(wanted) else list(wanted)
    metrics = [metric_named(metric, task) for metric in several]
    check_different([metric.name for metric in metrics], "metric")
    for metric in metrics:
        if metric.task != task:
            raise SettingsError(
                f"the metric {metric.name!r} is for {metric.task}, and the labels are for {task}"
            )
    return metrics


def _default_names(loss: Loss, classes: NDArray[Any] | None) -> list[str]:
    if classes is None:
        quantile = loss.name.removeprefix("pinball at ")
        coverage_of = [] if quantile == loss.name else [f"coverage@{quantile}"]
        return [*coverage_of, "rmse", "mae", "r2", "bias"]
    if loss.needs == "predict":
        return ["accuracy", "balanced_accuracy", "f1"]
    if len(classes) == 2:
        return ["auc", "average_precision", "accuracy", "brier", "calibration_slope", "o_e"]
    return ["auc", "accuracy", "balanced_accuracy", "f1", "brier"]


def _given_by(task: Task) -> Needs:
    return "values" if task == "regression" else "probabilities"


def _with_weights(function: Callable[..., Any]) -> Callable[[NDArray[Any], Floats, Floats], Any]:
    """Call a user's function with weights, if it takes any."""
    try:
        taken = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        taken = inspect.signature(lambda y, prediction: None).parameters
    if "sample_weight" in taken:
        return lambda y, p, w: function(y, p, sample_weight=w)
    required = [parameter for parameter in taken.values() if parameter.default is parameter.empty]
    if len(required) > 2 or "weights" in taken:
        return function
    return lambda y, p, w: function(y, p)


# ---------------------------------------------------------------- scorers


class _PredictedValues(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regressor whose rows are its predictions, for scorers that ask a model."""

    fitted_ = True

    def predict(self, X: Floats) -> Floats:
        return X


class _PredictedClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier whose rows are its probabilities."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def predict_proba(self, X: Floats) -> Floats:
        return X

    def predict(self, X: Floats) -> NDArray[np.intp]:
        return np.asarray(X.argmax(axis=1))


def _scorer(name: str, task: Task) -> Metric:
    scorer = get_scorer(name)

    def value(y: NDArray[Any], p: Floats, w: Floats) -> float:
        # Some scorers, such as that of the largest error, take no weights.
        kept: dict[str, Any] = {} if np.all(w == w[0]) else {"sample_weight": w}
        if task == "regression":
            return float(scorer(_PredictedValues(), p, y, **kept))
        P = np.column_stack([1 - p, p]) if p.ndim == 1 else p
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            try:
                return float(scorer(_PredictedClasses(P.shape[1]), P, y, **kept))
            except ValueError:  # such as an area under a curve where a class is missing
                return np.nan

    return Metric(name, value, _given_by(task))
