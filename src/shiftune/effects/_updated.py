"""Predictors with the effect of one site, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from shiftune.effects._site_effects import Terms, from_scale, to_scale
from shiftune.evaluate._fits import fit

Floats = NDArray[np.float64]


class _Updated(BaseEstimator):  # type: ignore[misc]
    """A predictor, and coefficients of the terms of one site's effect."""

    def __init__(
        self,
        predictor: Any,
        terms: Terms,
        effect: Floats,
        limits: tuple[float, float] | None = None,
    ) -> None:
        self.predictor = predictor
        self.terms = terms
        self.effect = effect
        self.limits = limits

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the predictor; the effect stays as it is."""
        self.predictor_ = fit(clone(self.predictor), X, y, sample_weight)
        return self

    def _answered(self, X: Any, answers: NDArray[Any]) -> Floats:
        if not self.effect.any():
            return np.asarray(answers, dtype=float)
        scaled = to_scale(answers)
        updated = scaled + self.terms.transform(X, scaled) @ self.effect.T
        return from_scale(updated if self.limits is None else np.clip(updated, *self.limits))


def without_effect(predictor: Any) -> Any:
    """Return the fitted predictor to which an effect is added, or the predictor itself."""
    return predictor.predictor_ if isinstance(predictor, _Updated) else predictor


class UpdatedRegressor(RegressorMixin, _Updated):  # type: ignore[misc]
    """A regressor whose values have the effect of one site added.

    Parameters
    ----------
    predictor : estimator
    terms : Terms
    effect : array of shape (1, p)
        Coefficients of the terms.
    limits : (low, high), optional
        Predictions stay between them.

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
        check_is_fitted(self, "predictor_")
        return self._answered(X, np.asarray(self.predictor_.predict(X)).reshape(-1))


class UpdatedClassifier(ClassifierMixin, _Updated):  # type: ignore[misc]
    """A classifier whose log odds have the effect of one site added.

    Parameters as of `UpdatedRegressor`; `effect` has shape (C, p), in the order of `classes_`.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the predictor; the effect stays as it is."""
        self.classes_ = np.unique(y)
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X: Any) -> Floats:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        check_is_fitted(self, "predictor_")
        return self._answered(X, np.asarray(self.predictor_.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes of shape (n,)."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
