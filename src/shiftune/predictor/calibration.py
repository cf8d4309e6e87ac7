"""Maps that recalibrate probabilities, and the classifier that applies one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.validation import check_is_fitted

from shiftune import names
from shiftune.evaluate.fitting import fit
from shiftune.names import MapName, complete

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# Smallest probability whose logarithm is taken: one row that was thought impossible would decide
# the slope alone.
SMALLEST = 1e-6
# The line's distance from the identity counts as much as so many rows, which gives separated
# classes a solution.
PRIOR_ROWS = 0.1


@dataclass(frozen=True, eq=False)
class LogLine:
    r"""Map of probabilities that is linear in their logarithms.

    .. math:: p'_c \propto \exp(a_c + b \log p_c) .

    For two classes it is Platt's line on the log odds, for more temperature and bias.

    Examples
    --------
    >>> LogLine(np.array([0.0, 1.0]), 2.0)(np.array([[0.5, 0.5], [0.2, 0.8]])).round(3)
    array([[0.269, 0.731],
           [0.022, 0.978]])
    """

    intercepts: Floats
    slope: float = 1.0

    @classmethod
    def learn(cls, P: Floats, codes: Codes, w: Floats, *, with_slope: bool) -> Self:
        """Maximise the weighted likelihood; P has shape (n, C), codes and weights (n,)."""
        logs, shares, classes = _logs(P), w / w.sum(), P.shape[1]
        truth = np.eye(classes)[codes]
        prior = PRIOR_ROWS * float(np.sum(shares**2))  # 1 / rows, of equal weights
        identity = np.append(np.zeros(classes), 1.0)

        def objective(line: Floats) -> tuple[float, Floats]:
            eta = line[:-1] + line[-1] * logs
            away = shares[:, None] * (softmax(eta, axis=1) - truth)
            value = shares @ (logsumexp(eta, axis=1) - np.sum(truth * eta, axis=1))
            slope = np.append(away.sum(axis=0), np.sum(away * logs))
            moved = line - identity
            return float(value + prior * moved @ moved / 2), slope + prior * moved

        slopes = (0.0, np.inf) if with_slope else (1.0, 1.0)
        bounds = [(-np.inf, np.inf)] * classes + [slopes]
        found = minimize(
            objective,
            identity,
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"ftol": 1e-14, "gtol": 1e-8, "maxiter": 500},
        ).x
        return cls(found[:-1], float(found[-1]))

    def __call__(self, P: NDArray[Any]) -> Floats:
        """Return the recalibrated probabilities, shape (n, C)."""
        return np.asarray(softmax(self.intercepts + self.slope * _logs(P), axis=1))


@dataclass(frozen=True, eq=False)
class Steps:
    """Map of every class's probability by an increasing curve, scaled to add up to 1.

    Examples
    --------
    >>> P = np.column_stack([1 - np.linspace(0, 1, 5), np.linspace(0, 1, 5)])
    >>> Steps.learn(P, np.array([0, 1, 0, 1, 1]), np.ones(5))(P)[:, 1].round(2)
    array([0.1, 0.5, 0.5, 0.9, 0.9])
    """

    given: list[Floats]
    learned: list[Floats]

    @classmethod
    def learn(cls, P: Floats, codes: Codes, w: Floats) -> Self:
        """Fit an isotonic regression per class, half a row away from 0 and 1."""
        bound = 0.5 * float(np.sum(w**2) / w.sum() ** 2)
        curves = [
            IsotonicRegression(y_min=bound, y_max=1 - bound).fit(own, codes == c, sample_weight=w)
            for c, own in enumerate(np.asarray(P, dtype=float).T)
        ]
        return cls([c.X_thresholds_ for c in curves], [c.y_thresholds_ for c in curves])

    def __call__(self, P: NDArray[Any]) -> Floats:
        """Return the recalibrated probabilities, shape (n, C)."""
        columns = zip(np.asarray(P, dtype=float).T, self.given, self.learned, strict=True)
        found = np.column_stack([np.interp(*column) for column in columns])
        return np.asarray(found / found.sum(axis=1, keepdims=True))


Map = LogLine | Steps

# The simplest first.
MAPS: dict[MapName, Callable[[Floats, Codes, Floats], Map]] = complete(
    names.MAPS,
    {
        "intercept": lambda P, codes, w: LogLine.learn(P, codes, w, with_slope=False),
        "platt": lambda P, codes, w: LogLine.learn(P, codes, w, with_slope=True),
        "isotonic": Steps.learn,
    },
)


class RecalibratedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities go through a map.

    Parameters
    ----------
    predictor : estimator
        With `predict_proba`.
    calibration : LogLine or Steps
        For probabilities in the order of `classes_`.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = RecalibratedClassifier(DummyClassifier(), LogLine(np.array([0.0, 1.0])))
    >>> model.fit([[0], [0]], ["no", "yes"]).predict_proba([[0]]).round(3)
    array([[0.269, 0.731]])
    """

    def __init__(self, predictor: Any, calibration: Map) -> None:
        self.predictor = predictor
        self.calibration = calibration

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the predictor; the map stays as it is."""
        self.classes_ = np.unique(y)
        self.predictor_ = fit(clone(self.predictor), X, y, sample_weight)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        check_is_fitted(self, "predictor_")
        return self.calibration(self.predictor_.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes of shape (n,)."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])


def recalibrated(predictor: Any, calibration: Map | None) -> Any:
    """Return a classifier with a map, or the predictor itself where there is none."""
    return predictor if calibration is None else RecalibratedClassifier(predictor, calibration)


def without_calibration(predictor: Any) -> Any:
    """Return the fitted predictor whose probabilities are mapped, or the predictor itself."""
    return predictor.predictor_ if isinstance(predictor, RecalibratedClassifier) else predictor


def _logs(P: NDArray[Any]) -> Floats:
    return np.asarray(np.log(np.maximum(P, SMALLEST), dtype=float))
