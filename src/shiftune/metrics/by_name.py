"""Metrics by name, with a threshold; scikit-learn's scorers; functions; the default set."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer, get_scorer_names

from shiftune import names
from shiftune.errors import SettingsError
from shiftune.evaluate.losses import Loss
from shiftune.metrics import calibration, decisions, quantities, ranking
from shiftune.metrics.metric import Floats, Metric, Needs
from shiftune.names import Task, complete
from shiftune.spelling import check_choice, check_different

# What `ShiftSearch(metrics=)` and `metric_named` take.
GivenMetric = str | Metric | Callable[..., Any]

METRICS = complete(
    names.METRICS,
    {
        "auc": ranking.AUC,
        "average_precision": ranking.AVERAGE_PRECISION,
        "accuracy": decisions.ACCURACY,
        "balanced_accuracy": decisions.BALANCED_ACCURACY,
        "f1": decisions.F1,
        "sensitivity": decisions.sensitivity(),
        "specificity": decisions.specificity(),
        "net_benefit": decisions.net_benefit(),
        "brier": calibration.BRIER,
        "log_loss": calibration.LOG_LOSS,
        "calibration_in_the_large": calibration.CALIBRATION_IN_THE_LARGE,
        "calibration_slope": calibration.CALIBRATION_SLOPE,
        "calibration_error": calibration.CALIBRATION_ERROR,
        "o_e": calibration.OBSERVED_TO_EXPECTED,
        "rmse": quantities.RMSE,
        "mae": quantities.MAE,
        "median_absolute_error": quantities.MEDIAN_ABSOLUTE_ERROR,
        "bias": quantities.BIAS,
        "r2": quantities.R2,
        "coverage": quantities.coverage(),
    },
)
AT: dict[str, Callable[[float, str], Metric]] = {
    "sensitivity": decisions.sensitivity,
    "specificity": decisions.specificity,
    "net_benefit": decisions.net_benefit,
    "coverage": quantities.coverage,
}

TWO_CLASSES = ("auc", "average_precision", "accuracy", "brier", "calibration_slope", "o_e")
CLASSES = ("auc", "accuracy", "balanced_accuracy", "f1", "brier")
VOTES = ("accuracy", "balanced_accuracy", "f1")
QUANTITIES = ("rmse", "mae", "r2", "bias")


def metric_named(metric: GivenMetric, task: Task = "classification") -> Metric:
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
        return AT[check_choice(name, AT, "metric with a threshold")](_threshold(value), metric)
    if metric not in METRICS and metric in get_scorer_names():
        return _scorer(metric, task)
    return METRICS[check_choice(metric, METRICS, "metric")]


def metrics_for(
    given: Sequence[GivenMetric] | GivenMetric | None,
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
    if given is None:
        given = _default_names(loss, classes)
    several = [given] if isinstance(given, str | Metric) or callable(given) else list(given)
    found = [metric_named(each, task) for each in several]
    check_different([metric.name for metric in found], "metric")
    for metric in found:
        if metric.task != task:
            raise SettingsError(
                f"the metric {metric.name!r} is for {metric.task}, and the labels are for {task}"
            )
    return found


def _default_names(loss: Loss, classes: NDArray[Any] | None) -> Sequence[str]:
    if classes is None:
        quantile = loss.name.removeprefix("pinball at ")
        return QUANTITIES if quantile == loss.name else (f"coverage@{quantile}", *QUANTITIES)
    if loss.needs == "predict":
        return VOTES
    return TWO_CLASSES if len(classes) == 2 else CLASSES


def _threshold(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"after @ comes a number such as 0.2, got {text!r}") from None


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
    required = [each for each in taken.values() if each.default is each.empty]
    if len(required) > 2 or "weights" in taken:
        return function
    return lambda y, p, w: function(y, p)


# ---------------------------------------------------------------- scorers


class _AnsweredValues(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regressor whose rows are its predictions, for scorers that ask a model."""

    fitted_ = True

    def predict(self, X: Floats) -> Floats:
        return X


class _AnsweredClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
            return float(scorer(_AnsweredValues(), p, y, **kept))
        P = np.column_stack([1 - p, p]) if p.ndim == 1 else p
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            try:
                return float(scorer(_AnsweredClasses(P.shape[1]), P, y, **kept))
            except ValueError:  # such as an area under a curve where a class is missing
                return np.nan

    return Metric(name, value, _given_by(task))
