"""Predictors with the effect of one site, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from shiftune.effects._site_effects import Terms, added, from_scale, to_scale
from shiftune.evaluate._fits import fit

Floats = NDArray[np.float64]


class _Updated(BaseEstimator):  # type: ignore[misc]
    """A predictor with the effect of one site, and the same refitted with labels of the site."""

    def __init__(self, predictor: Any, terms: Terms, effect: Floats) -> None:
        self.predictor = predictor
        self.terms = terms
        self.effect = effect

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the predictor, without labels of the site; the effect stays as it is."""
        self.predictor_ = self.refitted_ = fit(clone(self.predictor), X, y, sample_weight)
        return self

    def _both(self, X: Any, *, values: bool) -> tuple[Floats, Floats, Floats]:
        """Predictions of the predictor, on the scale of the effect; of the refitted; the effect."""
        check_is_fitted(self, "predictor_")
        scaled = to_scale(predictions_of(self.predictor_, X, values=values))
        effect = added(*self.terms.transform(X, scaled), self.effect)
        return scaled, predictions_of(self.refitted_, X, values=values), effect


def predictions_of(model: Any, X: Any, *, values: bool) -> Floats:
    """Predictions of values, (n,), or of probabilities, (n, C)."""
    predictions = np.asarray(model.predict(X) if values else model.predict_proba(X), dtype=float)
    return predictions.reshape(-1) if values else predictions


def without_effect(predictor: Any) -> Any:
    """Return the fitted predictor without any label of the target, or the predictor itself."""
    return predictor.predictor_ if isinstance(predictor, _Updated) else predictor


class UpdatedRegressor(RegressorMixin, _Updated):  # type: ignore[misc]
    """Mean of a regressor and the same refitted with labels of a site, plus the site's effect.

    Parameters
    ----------
    predictor : estimator
    terms : Terms
    effect : array of shape (1, p)
        Coefficients of the terms.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> X = np.zeros((4, 1))
    >>> terms = Terms(None).fit(X, np.ones((4, 1)))
    >>> model = UpdatedRegressor(DummyRegressor(), terms, np.array([[2.0, 0.0, 0.0]]))
    >>> model.fit(X, np.ones(4)).predict(X[:1])
    array([3.])
    """

    def predict(self, X: Any) -> Floats:
        """Predict values of shape (n,)."""
        plain, refitted, effect = self._both(X, values=True)
        return np.asarray((plain[:, 0] + refitted) / 2 + effect[:, 0])


class UpdatedClassifier(ClassifierMixin, _Updated):  # type: ignore[misc]
    """Mean of a classifier with a site's effect on its log odds, and the same refitted with labels.

    Parameters as of `UpdatedRegressor`; `effect` has shape (1, p) for two classes, of the second
    one, and (C, p) for more.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the predictor; the effect stays as it is."""
        self.classes_ = np.unique(y)
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X: Any) -> Floats:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        plain, refitted, effect = self._both(X, values=False)
        return np.asarray((from_scale(plain + effect, self.classes_) + refitted) / 2)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes of shape (n,)."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
