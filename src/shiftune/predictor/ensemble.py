"""Ensemble: a weighted mean of models as one scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from shiftune.evaluate.fitting import fit
from shiftune.names import Task

Members = Sequence[tuple[str, Any]]


class _Ensemble(BaseEstimator):  # type: ignore[misc]
    """Members and weights; see `EnsembleRegressor` and `EnsembleClassifier`."""

    def __init__(self, members: Members, weights: Sequence[float]) -> None:
        self.members = members
        self.weights = weights

    def fit(self, X: Any, y: Any, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Fit a clone of every member on all rows."""
        self.members_ = [fit(clone(model), X, y, sample_weight) for _, model in self.members]
        return self

    def _mean(self, X: Any, method: str) -> NDArray[np.float64]:
        check_is_fitted(self)
        total: Any = 0.0
        for weight, model in zip(self.weights, self.members_, strict=True):
            total = total + weight * np.asarray(getattr(model, method)(X))
        return np.asarray(total)


class EnsembleRegressor(RegressorMixin, _Ensemble):  # type: ignore[misc]
    """Weighted mean of the predictions of several regressors.

    Parameters
    ----------
    members : list of (name, estimator)
    weights : list of numbers that add up to 1

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> members = [(str(c), DummyRegressor(strategy="constant", constant=c)) for c in (1.0, 3.0)]
    >>> EnsembleRegressor(members, [0.75, 0.25]).fit([[0]], [0.0]).predict([[0]])
    array([1.5])
    """

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict values of shape (n,)."""
        return self._mean(X, "predict").reshape(-1)


def _all_have_probabilities(ensemble: EnsembleClassifier) -> bool:
    return all(hasattr(model, "predict_proba") for _, model in ensemble.members)


class EnsembleClassifier(ClassifierMixin, _Ensemble):  # type: ignore[misc]
    """Weighted mean of the probabilities of several classifiers, or their weighted vote.

    Parameters
    ----------
    members : list of (name, estimator)
    weights : list of numbers that add up to 1
    vote : bool
        Predict the class with most votes instead of the class of highest mean probability; the
        only choice where a member has no probabilities.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> members = [(c, DummyClassifier(strategy="constant", constant=c)) for c in ("no", "yes")]
    >>> ensemble = EnsembleClassifier(members, [0.25, 0.75]).fit([[0], [0]], ["no", "yes"])
    >>> ensemble.predict_proba([[0]]), ensemble.predict([[0]])
    (array([[0.25, 0.75]]), array(['yes'], dtype='<U3'))
    """

    def __init__(self, members: Members, weights: Sequence[float], vote: bool = False) -> None:
        super().__init__(members, weights)
        self.vote = vote

    def fit(self, X: Any, y: Any, sample_weight: NDArray[np.float64] | None = None) -> Self:
        """Fit a clone of every member on all rows."""
        self.classes_ = np.unique(y)
        return super().fit(X, y, sample_weight)

    @available_if(_all_have_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        return self._mean(X, "predict_proba")

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes of shape (n,)."""
        check_is_fitted(self)
        shares = self._votes(X) if self.vote else self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(shares, axis=1)])

    def _votes(self, X: Any) -> NDArray[np.float64]:
        total: Any = 0.0
        for weight, model in zip(self.weights, self.members_, strict=True):
            total = total + weight * (np.asarray(model.predict(X))[:, None] == self.classes_)
        return np.asarray(total)


def ensemble_of(
    models: Mapping[str, Any], weights: Sequence[float], task: Task, *, vote: bool = False
) -> Any:
    """Return the weighted mean of models by name, or the model itself if there is one.

    >>> from sklearn.linear_model import Ridge
    >>> ensemble_of({"trial 3": Ridge()}, [1.0], "regression")
    Ridge()
    """
    if len(models) == 1:
        return next(iter(models.values()))
    members = list(models.items())
    if task == "regression":
        return EnsembleRegressor(members, weights)
    return EnsembleClassifier(members, weights, vote=vote)
