"""Wrapper for classifiers that accept only the classes 0, 1, 2, ..."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.preprocessing import LabelEncoder


def needs_numbers(model: Any, classes: NDArray[Any]) -> bool:
    """Whether a model is a classifier of XGBoost, and the classes are not 0, 1, 2, ..."""
    if not type(model).__module__.startswith("xgboost.") or not is_classifier(model):
        return False
    return list(classes) != list(range(len(classes)))


class NumberedClasses(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier of any classes, around one that needs numbers, such as XGBoost's.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> NumberedClasses(LogisticRegression()).fit(X, ["no", "no", "yes", "yes"]).predict(X)
    array(['no', 'no', 'yes', 'yes'], dtype='<U3')
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the classifier to the numbers of the classes."""
        self.encoder_ = LabelEncoder().fit(y)
        self.classes_ = self.encoder_.classes_
        numbers = self.encoder_.transform(y)
        self.classifier_ = clone(self.classifier).fit(X, numbers, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes, as they were given."""
        return np.asarray(self.encoder_.inverse_transform(self.classifier_.predict(X)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        return np.asarray(self.classifier_.predict_proba(X))
