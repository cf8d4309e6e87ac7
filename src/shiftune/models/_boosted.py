"""LightGBM's models, without what its scikit-learn interface adds to the time of a fit."""

from __future__ import annotations

from typing import Any, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted


class _Boosted(lightgbm.LGBMModel):
    """Trees, grown and asked for predictions through LightGBM's own interface.

    Its models for scikit-learn write fitted trees to a text and read that again, up to a third
    of the time of a fit (`benchmarks/results/boosted.md`); the predictions are the same.
    """

    def _grow(self, X: Any, y: Any, weights: Any) -> Self:
        X, params = np.asarray(X), self._process_params(stage="fit")
        rows = lightgbm.Dataset(X, y, weight=weights, params=params)
        grown = lightgbm.train(params, rows, self.n_estimators, keep_training_booster=True)
        # What LightGBM's own `fit` sets, for `feature_importances_`, plots and SHAP.
        self._Booster = grown.free_dataset()
        self._n_features = self._n_features_in = X.shape[1]
        self._best_iteration, self._best_score = grown.best_iteration, grown.best_score
        self.fitted_ = True
        return self

    def _grown(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return np.asarray(self.booster_.predict(np.asarray(X), num_threads=1))


class BoostedRegressor(_Boosted, lightgbm.LGBMRegressor):
    """LightGBM for quantities; parameters as of `lightgbm.LGBMRegressor`."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Grow the trees."""
        return self._grow(X, np.asarray(y), sample_weight)

    def predict(self, X: Any) -> NDArray[np.float64]:  # type: ignore[override]
        """Predict values."""
        return self._grown(X)


class BoostedClassifier(_Boosted, lightgbm.LGBMClassifier):
    """LightGBM for classes; parameters as of `lightgbm.LGBMClassifier`."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Grow the trees."""
        self._classes, codes = np.unique(y, return_inverse=True)
        self._n_classes = len(self._classes)
        if self.class_weight is not None:
            balance = compute_sample_weight(self.class_weight, y)
            sample_weight = balance if sample_weight is None else balance * sample_weight
        self._objective = self.objective  # None is decided by the number of classes
        return self._grow(X, codes, sample_weight)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # type: ignore[override]
        """Predict probabilities of shape (n, C), in the order of `classes_`."""
        P = self._grown(X)
        return np.column_stack([1 - P, P]) if P.ndim == 1 else P

    def predict(self, X: Any) -> NDArray[Any]:  # type: ignore[override]
        """Predict classes."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
